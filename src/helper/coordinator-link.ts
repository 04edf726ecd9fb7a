/** The coordinator as a Helper needs it: whether one lives, calls, and the stream of this host. */
import type { Calls } from './job-ports.ts';

export interface StreamHandlers {
  readonly signal: AbortSignal;
  /** The stream is open: what happened before is in the next beacon's answer. */
  readonly onOpen: () => void;
  readonly onWork: () => void;
  readonly onFarewell: () => void;
}

export interface CoordinatorLink {
  readonly calls: Calls;
  /** Names the coordinator process that lives now; null when there is none. Costs a look at the disk. */
  presence(): string | null;
  /** Reads the host's stream until it ends, for whatever reason. */
  readHostStream(handlers: StreamHandlers): Promise<void>;
}

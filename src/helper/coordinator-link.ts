/** The coordinator as a Helper needs it: whether one lives, calls, and the stream of this host. */
import type { CoordinatorClient } from '../client/calls.ts';
import { findCoordinator } from '../client/discovery.ts';
import { openClient } from '../client/open-client.ts';
import { readStream } from '../client/stream-reader.ts';
import type { Environment } from '../platform/environment.ts';
import { logger } from '../platform/logging.ts';
import type { Calls } from './job-ports.ts';

const log = logger('helper.stream');

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

export interface LinkOptions {
  readonly home: string;
  readonly environment: Environment;
  readonly hostId: string;
  /** Whether an embedded coordinator that is not there may be started by a call; asked each time. */
  readonly mayStart: () => boolean;
  /** How it is started; this program's own hidden command by default. */
  readonly startArgv?: readonly string[];
}

export async function openLink(options: LinkOptions): Promise<CoordinatorLink> {
  const { home, environment, mayStart, startArgv } = options;
  const client = await openClient({ home, environment, mayStart, ...(startArgv === undefined ? {} : { startArgv }) });
  return new ClientLink(client, options);
}

class ClientLink implements CoordinatorLink {
  readonly calls: Calls;
  readonly #client: CoordinatorClient;
  readonly #options: LinkOptions;

  constructor(client: CoordinatorClient, options: LinkOptions) {
    this.calls = client;
    this.#client = client;
    this.#options = options;
  }

  presence(): string | null {
    if (!this.#client.finder.isEmbedded) return 'shared';
    const found = findCoordinator(this.#options.home);
    return found === null ? null : `${found.identity.pid}@${found.identity.started_at}`;
  }

  async readHostStream({ signal, onOpen, onWork, onFarewell }: StreamHandlers): Promise<void> {
    const end = await readStream(this.#client, {
      query: { host: this.#options.hostId },
      // The beacon's answer is all that counts: nothing of the past is asked for.
      lastEventId: null,
      signal,
      onOpen,
      onFrame: ({ type }) => {
        if (type === 'host_work') onWork();
        if (type === 'farewell') onFarewell();
      },
    });
    log.debug('the stream ended', { ...end });
  }
}

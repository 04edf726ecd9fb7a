/** What an attempt at a job works with; each side can be replaced, so that the loop runs against a scripted world. */
import type { Clock } from '../platform/clock.ts';
import type { Connection, Disposition, Job, LeaseView } from '../protocol/records.ts';
import type { LeaseForHelper, ToolCalls, ToolName } from '../protocol/tool-calls.ts';
import type { KeptStatement, LookedForEntry, StatementStore } from './attest.ts';
import type { HostIdentity } from './host-identity.ts';
import type { DiskFacts } from './job-progress.ts';

export interface Calls {
  call<N extends ToolName>(
    name: N,
    args: ToolCalls[N]['args'],
    options?: { timeoutMs?: number; signal?: AbortSignal },
  ): Promise<ToolCalls[N]['result']>;
}

export interface Inspection {
  found: 'whole' | 'starting' | 'broken';
  reason: string | null;
  connection: Connection | null;
}

/** A lease's stack on this host. */
export interface StackHands {
  read(job: Job, lease: LeaseForHelper): Promise<Omit<DiskFacts, 'stored'>>;
  bindClaim(lease: LeaseForHelper): Promise<void>;
  inspect(lease: LeaseForHelper): Promise<Inspection>;
  /** Starts the stack; an abort ends the waiting at once and undoes nothing. */
  provision(lease: LeaseForHelper, signal: AbortSignal): Promise<Connection>;
  /** Waits for a start of the same grant that a supervisor carries on. */
  attach(lease: LeaseForHelper, signal: AbortSignal): Promise<Connection>;
  /** Ends the command of the client; with `marked`, all that carries the lease's mark: whether there was anything. */
  endChild(lease: LeaseForHelper, marked: boolean): Promise<boolean>;
  tearDown(lease: LeaseForHelper, disposition: Disposition): Promise<void>;
  look(lease: LeaseForHelper, disposition: Disposition): Promise<LookedForEntry[]>;
}

/** The coordinator took a report. */
export interface Reported {
  lease: LeaseForHelper;
  view: LeaseView;
  statement: KeptStatement | null;
}

export interface JobPorts {
  readonly calls: Calls;
  readonly hands: StackHands;
  readonly identity: HostIdentity;
  readonly statements: StatementStore;
  readonly clock: Clock;
  reported(report: Reported): Promise<void>;
  /** The coordinator does not know this Helper (any more). */
  askForRegistration(): void;
}

/** The words of a park: its state, what may happen to it, what it asks of its loop, how it ends. See park-rules.ts. */
import type { EndedWait, LeaseView } from '../protocol/records.ts';
import type { Frame } from '../protocol/stream-frames.ts';
import type { WaitView } from '../protocol/tool-calls.ts';
import type { PlatformIncident, Trouble } from './incident-rules.ts';
import type { LeaseGoal } from './lease-goal-rules.ts';

export interface ParkOptions {
  waitId: string;
  conditions: readonly string[];
  mode: 'all' | 'any';
  /** On the monotonic clock that the events carry. */
  deadlineMs: number;
  /** The lease that the park is about; by default the one that its only lease condition names. */
  leaseId?: string;
  /** A lease found queued again while `active` is waited for ends the park; by default when `leaseId` is given. */
  endsWhenDeferred?: boolean;
  backoff?: { firstMs: number; maxMs: number };
  /** How long a rejected credential may be retried; time without any answer does not count. */
  authBudgetMs?: number;
}

export type ParkOutcome =
  | 'matched'
  | 'lease_lost'
  | 'lease_cleanup_failed'
  | 'timeout'
  | 'interrupted'
  | 'abandoned'
  | 'error'
  | 'deferred';

export interface ParkEnding {
  outcome: ParkOutcome;
  /** Of the table of outcomes; null when matched or deferred. A time-out in an open incident bears the incident's reason. */
  code: string | null;
  /** What happened, in words. */
  error: string | null;
  state: EndedWait['state'];
  matched: EndedWait['matched'];
  lease: LeaseView | null;
  incident: PlatformIncident | null;
  warnings: readonly string[];
  cursor: string | null;
  waitId: string;
  /** The coordinator still keeps the wait: whoever will not come back to it should cancel it. */
  waitLeftOpen: boolean;
}

/** What a park follows: its own wait or, where that could not be registered, the lease itself. */
export type StreamQuery = { wait: string } | { lease: string };

export type ParkAction =
  | { type: 'register'; waitId: string; conditions: readonly string[]; timeoutMs: number; idempotencyKey: string }
  | { type: 'open_stream'; query: StreamQuery; cursor: string | null }
  | { type: 'close_stream' }
  | { type: 'back_off'; ms: number }
  | { type: 'refresh_credential' }
  | { type: 'read_lease'; leaseId: string }
  | { type: 'end'; end: ParkEnding };

export interface Moment {
  nowMs: number;
  wallMs: number;
  /** Random, in [0, 1). */
  jitter: number;
}

/** What looking after a rejected credential came to. */
export type CredentialVerdict = { type: 'ready' } | { type: 'failed'; trouble: Trouble };

export type ParkEvent = { at: Moment } & (
  | { type: 'started' }
  | { type: 'registered'; wait: WaitView }
  | { type: 'registration_failed'; trouble: Trouble }
  | { type: 'stream_opened' }
  | { type: 'frame'; frame: Frame }
  | { type: 'stream_closed'; message: string }
  | { type: 'stream_failed'; trouble: Trouble }
  | { type: 'backoff_elapsed' }
  | { type: 'credential_checked'; verdict: CredentialVerdict }
  | { type: 'lease_read'; lease: LeaseView }
  | { type: 'lease_read_failed'; trouble: Trouble }
  | { type: 'deadline_reached' }
  | { type: 'interrupted' }
);

export type ParkEventType = ParkEvent['type'];

/**
 * `reading`: after a back-off. `checking`: an unregistered park looks at its lease once its stream is open.
 * `concluding`: the last look before a time-out.
 */
export type ParkPhase =
  | 'ready'
  | 'registering'
  | 'opening'
  | 'streaming'
  | 'checking'
  | 'backing_off'
  | 'refreshing'
  | 'reading'
  | 'concluding'
  | 'ended';

export interface ParkState {
  phase: ParkPhase;
  mode: 'all' | 'any';
  deadlineMs: number;
  backoff: { firstMs: number; maxMs: number };
  authBudgetMs: number;
  endsWhenDeferred: boolean;
  leaseId: string | null;
  goals: readonly LeaseGoal[];
  /** Changes when a wait that the coordinator ended by a timer of its own is armed again. */
  waitId: string;
  conditions: readonly string[];
  registrations: number;
  /** `unlisted`: the coordinator refused the registration. `over`: it has ended the wait. */
  standing: 'unknown' | 'registered' | 'unlisted' | 'over';
  /** It did not know a wait that it had registered; once is survived. */
  forgotten: boolean;
  cursor: string | null;
  streamOpen: boolean;
  streamSinceMs: number;
  /** Failures in a row, for the back-off. */
  blips: number;
  lastTrouble: 'auth' | 'unreachable' | null;
  authSpentMs: number;
  authFailedAtMs: number | null;
  /** Lease ids still to be read in this round, the one in flight first. */
  toRead: readonly string[];
  /** Goals met by the leases of this round. */
  met: readonly LeaseGoal[];
  lease: LeaseView | null;
  incident: PlatformIncident | null;
  warnings: readonly string[];
}

export interface ParkStep {
  state: ParkState;
  actions: readonly ParkAction[];
}

/** The states, events, actions and ends of a stack run, as plain data. Read next: `stack-run-rules.ts`. */
import type { KeptReason } from '../protocol/claim.ts';
import type { CleanupProof, Disposition } from '../protocol/records.ts';

export type CleanupWish = 'idle' | 'destroy' | 'stop';

export interface RunOptions {
  /** `up` ends at an active lease and gives nothing back. */
  readonly command: 'run' | 'up';
  readonly cleanup: CleanupWish;
  readonly waitForSlot: boolean;
  /** `up --no-wait`: a queued lease ends the command. */
  readonly parkInQueue: boolean;
}

/** What the rules need to know of a lease; a part of its view. */
export interface LeaseGlimpse {
  lease_id: string;
  state: 'queued' | 'provisioning' | 'active' | 'idle' | 'reaping' | 'reaped' | 'reap_failed';
  has_connection: boolean;
  fencing_token: number | null;
  reap_reason: string | null;
  error: string | null;
  error_class: string | null;
  cleanup_verified: boolean | null;
  cleanup_proof: CleanupProof | null;
  cleanup_receipt_id: string | null;
}

export type ParkedPhase = 'slot' | 'queue' | 'provision' | 'proof';

export interface ParkResult {
  outcome:
    | 'matched'
    | 'lease_lost'
    | 'lease_cleanup_failed'
    | 'timeout'
    | 'interrupted'
    | 'abandoned'
    | 'error'
    | 'deferred';
  code: string | null;
  message: string | null;
  lease: LeaseGlimpse | null;
}

export interface RunRefusal {
  code: string;
  message: string;
  lease_id: string | null;
  state: string | null;
  own: boolean;
  reap_reason: string | null;
  /** The claims of that lease name an owner that is provably dead. */
  owner_dead: boolean;
}

export type RunEvent =
  | { type: 'claimed' }
  | { type: 'failed'; code: string; message: string }
  | { type: 'admitted'; lease: LeaseGlimpse }
  | { type: 'refused'; refusal: RunRefusal }
  | { type: 'admission_unknown'; code: string; message: string }
  | { type: 'bound' }
  | { type: 'bind_failed'; code: string; message: string }
  | { type: 'park_ended'; park: ParkResult }
  | { type: 'lease_read'; lease: LeaseGlimpse | null }
  | { type: 'child_exited'; exit_code: number | null; signal: string | null }
  | { type: 'lease_lost'; code: string; message: string }
  | { type: 'hard_ttl' }
  | { type: 'signal'; signal: string }
  /** `changed` is false when the lease had been on its way out before we gave it back. */
  | { type: 'released'; lease: LeaseGlimpse; changed: boolean }
  | { type: 'release_failed'; code: string; message: string }
  | { type: 'claims_released'; released: boolean; reason: KeptReason | null };

export type RunAction =
  | { type: 'claim' }
  | { type: 'abandon_claim' }
  | { type: 'request' }
  | { type: 'bind' }
  | { type: 'park'; phase: ParkedPhase; lease_id: string }
  | { type: 'end_park' }
  | { type: 'read_lease' }
  | { type: 'start_child' }
  | { type: 'stop_child'; signal: string }
  | { type: 'release'; lease_id: string; how: 'idle' | 'reap'; disposition: Disposition }
  | { type: 'mark_claims_idle' }
  | { type: 'release_claims' }
  | { type: 'finish' };

export type RunEnd =
  | { by: 'child'; exit_code: number | null; signal: string | null }
  | { by: 'fence'; code: string; message: string }
  | { by: 'hard_ttl' }
  | { by: 'signal'; signal: string }
  | {
      by: 'park';
      phase: 'slot' | 'queue' | 'provision';
      kind: 'timeout' | 'lost' | 'auth' | 'error';
      code: string;
      message: string;
    }
  | { by: 'refusal'; refusal: RunRefusal }
  | { by: 'admission_unknown'; code: string; message: string }
  | { by: 'failure'; code: string; message: string }
  | { by: 'ready' }
  | { by: 'queued' };

export type CleanupState =
  | { kind: 'not_needed' }
  | { kind: 'idle' }
  | { kind: 'proven'; proof: CleanupProof; receipt_id: string | null }
  | { kind: 'unproven'; code: string; message: string };

export type RunPhase =
  | 'claim'
  | 'request'
  | 'slot_release'
  | 'slot_park'
  | 'bind'
  | 'queue'
  | 'provision'
  | 'confirm'
  | 'child'
  | 'release'
  | 'proof'
  | 'claims'
  | 'finished';

export interface RunState {
  readonly options: RunOptions;
  readonly phase: RunPhase;
  /** The lease that is ours; null until the coordinator named one. */
  readonly lease: LeaseGlimpse | null;
  readonly claim: 'none' | 'held' | 'bound' | 'lost' | 'released' | 'kept';
  readonly end: RunEnd | null;
  readonly cleanup: CleanupState;
  readonly claimReason: KeptReason | null;
  readonly childRunning: boolean;
}

export interface RunTransition {
  readonly state: RunState;
  readonly actions: readonly RunAction[];
}

export const to = (state: RunState, changes: Partial<RunState>, ...actions: RunAction[]): RunTransition => ({
  state: { ...state, ...changes },
  actions,
});
export const stay = (state: RunState): RunTransition => ({ state, actions: [] });

export function finish(state: RunState, end: RunEnd): RunTransition {
  return to(state, { phase: 'finished', end: state.end ?? end }, { type: 'finish' });
}

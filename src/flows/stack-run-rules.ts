/**
 * The life of one `stack run` (and of `up`, which ends before the child) as a pure machine: which phase comes next,
 * which end wins, when and how cleanup runs. First reason wins; cleanup runs at most once; only a proof, an idle
 * stack or a lease that was never asked for lets the run end without a fence.
 * Must not: know time, processes or the wire. The loop in `stack-run.ts` and the simulation carry out its actions.
 * Read next: `stack-run-ends.ts` (exit codes), `stack-run.ts`.
 */
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
  | { type: 'released'; lease: LeaseGlimpse }
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

export function startRun(options: RunOptions): RunTransition {
  const state: RunState = {
    options,
    phase: 'claim',
    lease: null,
    claim: 'none',
    end: null,
    cleanup: { kind: 'not_needed' },
    claimReason: null,
    childRunning: false,
  };
  return { state, actions: [{ type: 'claim' }] };
}

const to = (state: RunState, changes: Partial<RunState>, ...actions: RunAction[]): RunTransition => ({
  state: { ...state, ...changes },
  actions,
});
const stay = (state: RunState): RunTransition => ({ state, actions: [] });

/** One step. An event that its phase does not expect changes nothing: it came late. */
export function runStep(state: RunState, event: RunEvent): RunTransition {
  if (state.phase === 'finished') return stay(state);
  switch (event.type) {
    case 'claimed':
      return state.phase === 'claim'
        ? to(state, { phase: 'request', claim: 'held' }, { type: 'request' })
        : stay(state);
    case 'failed':
      return failed(state, event.code, event.message);
    case 'admitted':
      return state.phase === 'request'
        ? to(state, { phase: 'bind', lease: event.lease }, { type: 'bind' })
        : stay(state);
    case 'refused':
      return state.phase === 'request' ? refused(state, event.refusal) : stay(state);
    case 'admission_unknown':
      return state.phase === 'request'
        ? finish(state, { by: 'admission_unknown', code: event.code, message: event.message })
        : stay(state);
    case 'bound':
      return state.phase === 'bind' ? afterBind({ ...state, claim: 'bound' }) : stay(state);
    case 'bind_failed':
      return state.phase === 'bind'
        ? beginCleanup({ ...state, claim: 'lost' }, { by: 'failure', code: event.code, message: event.message })
        : stay(state);
    case 'park_ended':
      return parkEnded(state, event.park);
    case 'lease_read':
      return state.phase === 'confirm' ? confirmed(state, event.lease) : stay(state);
    case 'child_exited':
      return childExited(state, event.exit_code, event.signal);
    case 'lease_lost':
      return fenced(state, event.code, event.message);
    case 'hard_ttl':
      return state.phase === 'child' && state.end === null
        ? to(state, { end: { by: 'hard_ttl' } }, { type: 'stop_child', signal: 'SIGTERM' })
        : stay(state);
    case 'signal':
      return signalled(state, event.signal);
    case 'released':
      return released(state, event.lease);
    case 'release_failed':
      return releaseFailed(state, event.code, event.message);
    case 'claims_released':
      return state.phase === 'claims' ? claimsReleased(state, event.released, event.reason) : stay(state);
  }
}

function finish(state: RunState, end: RunEnd): RunTransition {
  return to(state, { phase: 'finished', end: state.end ?? end }, { type: 'finish' });
}

/** A claim that no lease came to carry goes; one that a lease may carry stays. */
function finishUnadmitted(state: RunState, end: RunEnd): RunTransition {
  const abandon: RunAction[] = state.claim === 'held' ? [{ type: 'abandon_claim' }] : [];
  return to(state, { phase: 'finished', end: state.end ?? end, claim: 'none' }, ...abandon, { type: 'finish' });
}

function failed(state: RunState, code: string, message: string): RunTransition {
  const end: RunEnd = { by: 'failure', code, message };
  if (state.phase === 'child' && !state.childRunning) return beginCleanup(state, end);
  if (state.phase === 'release' || state.phase === 'proof') return unproven(state, code, message);
  if (state.phase === 'claims') return claimsReleased(state, false, 'removal_failed');
  return state.lease === null ? finishUnadmitted(state, end) : beginCleanup(state, end);
}

const PARKED_FOR: readonly (string | null)[] = [
  'idle_ttl',
  'preempted_idle',
  'heartbeat_lost',
  'stack_lost',
  'hard_ttl',
];

function refused(state: RunState, refusal: RunRefusal): RunTransition {
  if (refusal.code === 'PORT_BLOCK_TAKEN')
    return to(state, { phase: 'claim', claim: 'none' }, { type: 'abandon_claim' }, { type: 'claim' });
  const leaseId = refusal.lease_id;
  if (leaseId !== null && refusal.own) {
    const replaceable =
      refusal.code === 'IDLE_STACK_DIFFERS' || (refusal.code === 'STACK_CONTEXT_ALREADY_BOUND' && refusal.owner_dead);
    if (replaceable) {
      return to(
        state,
        { phase: 'slot_release', claim: 'none' },
        { type: 'abandon_claim' },
        { type: 'release', lease_id: leaseId, how: 'reap', disposition: 'destroy' },
      );
    }
    const endsByItself =
      refusal.code === 'SLOT_REAPING' && refusal.state === 'reaping' && PARKED_FOR.includes(refusal.reap_reason);
    if (endsByItself || (state.options.waitForSlot && refusal.state !== 'reap_failed'))
      return parkForSlot(state, leaseId);
  }
  return finishUnadmitted(state, { by: 'refusal', refusal });
}

function parkForSlot(state: RunState, leaseId: string): RunTransition {
  const abandon: RunAction[] = state.claim === 'held' ? [{ type: 'abandon_claim' }] : [];
  return to(state, { phase: 'slot_park', claim: 'none' }, ...abandon, {
    type: 'park',
    phase: 'slot',
    lease_id: leaseId,
  });
}

function afterBind(state: RunState): RunTransition {
  const lease = state.lease as LeaseGlimpse;
  if (state.end !== null) return beginCleanup(state, state.end);
  switch (lease.state) {
    case 'queued':
      if (!state.options.parkInQueue) return finish(state, { by: 'queued' });
      return to(state, { phase: 'queue' }, { type: 'park', phase: 'queue', lease_id: lease.lease_id });
    case 'provisioning':
      return to(state, { phase: 'provision' }, { type: 'park', phase: 'provision', lease_id: lease.lease_id });
    case 'active':
      return to(state, { phase: 'confirm' }, { type: 'read_lease' });
    default:
      return beginCleanup(state, lost('queue', lease));
  }
}

function lost(phase: 'queue' | 'provision', lease: LeaseGlimpse): RunEnd {
  const words = lease.error ?? `the lease is ${lease.state} (${lease.reap_reason ?? 'no reason given'})`;
  return { by: 'park', phase, kind: 'lost', code: lease.error_class ?? 'LEASE_LOST', message: words };
}

function parkEnded(state: RunState, park: ParkResult): RunTransition {
  const seen =
    park.lease !== null && park.lease.lease_id === state.lease?.lease_id ? { ...state, lease: park.lease } : state;
  switch (state.phase) {
    case 'slot_park':
      return slotParkEnded(state, park);
    case 'queue':
    case 'provision':
      return ownParkEnded(seen, state.phase, park);
    case 'proof':
      return proofParkEnded(seen, park);
    default:
      return stay(state);
  }
}

function slotParkEnded(state: RunState, park: ParkResult): RunTransition {
  if (state.end !== null) return finish(state, state.end);
  if (park.outcome === 'matched') return to(state, { phase: 'claim' }, { type: 'claim' });
  return finish(state, parkEnd('slot', park));
}

function parkEnd(phase: 'slot' | 'queue' | 'provision', park: ParkResult): RunEnd {
  const message =
    park.message ?? (park.outcome === 'timeout' ? `timed out in the ${phase} park` : `the park ended: ${park.outcome}`);
  if (park.code === 'platform_auth_unavailable') return { by: 'park', phase, kind: 'auth', code: park.code, message };
  if (park.outcome === 'timeout') return { by: 'park', phase, kind: 'timeout', code: park.code ?? 'timeout', message };
  if (park.outcome === 'lease_lost')
    return { by: 'park', phase, kind: 'lost', code: park.code ?? 'LEASE_LOST', message };
  return { by: 'park', phase, kind: 'error', code: park.code ?? park.outcome, message };
}

function ownParkEnded(state: RunState, phase: 'queue' | 'provision', park: ParkResult): RunTransition {
  const lease = state.lease as LeaseGlimpse;
  if (state.end !== null) return beginCleanup(state, state.end);
  if (park.outcome === 'lease_lost') return beginCleanup(state, lost(phase, lease));
  if (park.outcome === 'deferred')
    return to(state, { phase: 'queue' }, { type: 'park', phase: 'queue', lease_id: lease.lease_id });
  if (park.outcome !== 'matched') return beginCleanup(state, parkEnd(phase, park));
  if (phase === 'queue' && lease.state !== 'active') {
    return to(state, { phase: 'provision' }, { type: 'park', phase: 'provision', lease_id: lease.lease_id });
  }
  return to(state, { phase: 'confirm' }, { type: 'read_lease' });
}

/** Only an active lease with a connection starts the child; what was read decides, whatever the park believed. */
function confirmed(state: RunState, read: LeaseGlimpse | null): RunTransition {
  if (state.end !== null) return beginCleanup(state, state.end);
  const lease = read ?? (state.lease as LeaseGlimpse);
  const next = { ...state, lease };
  if (lease.state === 'queued')
    return to(next, { phase: 'queue' }, { type: 'park', phase: 'queue', lease_id: lease.lease_id });
  if (lease.state === 'provisioning') {
    return to(next, { phase: 'provision' }, { type: 'park', phase: 'provision', lease_id: lease.lease_id });
  }
  if (lease.state !== 'active' || !lease.has_connection) return beginCleanup(next, lost('provision', lease));
  if (state.options.command === 'up') return finish(next, { by: 'ready' });
  return to(next, { phase: 'child', childRunning: true }, { type: 'start_child' });
}

function childExited(state: RunState, exitCode: number | null, signal: string | null): RunTransition {
  if (state.phase !== 'child') return stay(state);
  const end: RunEnd = state.end ?? { by: 'child', exit_code: exitCode, signal };
  return beginCleanup({ ...state, childRunning: false }, end);
}

function fenced(state: RunState, code: string, message: string): RunTransition {
  if (state.phase !== 'child' || state.end !== null) return stay(state);
  return to(state, { end: { by: 'fence', code, message } }, { type: 'stop_child', signal: 'SIGTERM' });
}

function signalled(state: RunState, signal: string): RunTransition {
  const end: RunEnd = state.end ?? { by: 'signal', signal };
  switch (state.phase) {
    case 'child':
      return to(state, { end }, { type: 'stop_child', signal });
    case 'queue':
    case 'provision':
    case 'slot_park':
      return to(state, { end }, { type: 'end_park' });
    default:
      return to(state, { end: isCleaning(state) ? state.end : end });
  }
}

const isCleaning = (state: RunState): boolean =>
  state.phase === 'release' || state.phase === 'proof' || state.phase === 'claims';

/** Gives the lease back as the options wish; a run that never became active is reaped whatever they say. */
function beginCleanup(state: RunState, end: RunEnd): RunTransition {
  const lease = state.lease as LeaseGlimpse;
  const ended = { ...state, end: state.end ?? end, childRunning: false };
  if (state.options.command === 'up' && ended.end.by !== 'signal') return finish(ended, end);
  if (lease.state === 'reaped') return proven(ended, lease);
  const wasActive =
    lease.state === 'active' && (ended.end.by === 'child' || ended.end.by === 'hard_ttl' || ended.end.by === 'signal');
  const idle = state.options.cleanup === 'idle' && wasActive;
  const disposition: Disposition = state.options.cleanup === 'stop' ? 'stop' : 'destroy';
  return to(
    ended,
    { phase: 'release' },
    { type: 'release', lease_id: lease.lease_id, how: idle ? 'idle' : 'reap', disposition },
  );
}

function released(state: RunState, lease: LeaseGlimpse): RunTransition {
  if (state.phase === 'slot_release') return parkForSlot(state, lease.lease_id);
  if (state.phase !== 'release') return stay(state);
  const next = { ...state, lease };
  switch (lease.state) {
    case 'idle':
      return to(next, { phase: 'claims', cleanup: { kind: 'idle' } }, { type: 'mark_claims_idle' });
    case 'reaped':
      return proven(next, lease);
    case 'reap_failed':
      return unproven(next, lease.error_class ?? 'lease_cleanup_failed', lease.error ?? 'the reap failed');
    default:
      return to(next, { phase: 'proof' }, { type: 'park', phase: 'proof', lease_id: lease.lease_id });
  }
}

function releaseFailed(state: RunState, code: string, message: string): RunTransition {
  if (state.phase === 'slot_release') return finish(state, { by: 'failure', code, message });
  return state.phase === 'release' ? unproven(state, code, message) : stay(state);
}

function proofParkEnded(state: RunState, park: ParkResult): RunTransition {
  const lease = state.lease as LeaseGlimpse;
  if (lease.state === 'reaped') return proven(state, lease);
  if (lease.state === 'reap_failed') {
    return unproven(state, lease.error_class ?? 'lease_cleanup_failed', lease.error ?? 'the reap failed');
  }
  return unproven(state, park.code ?? 'cleanup_unproven', park.message ?? 'no proof of the cleanup came in time');
}

const PROVES: Record<CleanupProof, (receiptId: string | null) => boolean> = {
  signed_reap: (receiptId) => receiptId !== null,
  never_provisioned: () => true,
  local_exec_teardown: () => true,
  pre_driver_absence: () => true,
};

/** A `reaped` row alone is no proof: it has to be verified, and by one of the known proofs. */
function proven(state: RunState, lease: LeaseGlimpse): RunTransition {
  const proof = lease.cleanup_proof;
  if (lease.cleanup_verified !== true || proof === null || !PROVES[proof](lease.cleanup_receipt_id)) {
    return unproven({ ...state, lease }, 'cleanup_unproven', 'the lease is reaped without a proof');
  }
  const cleanup: CleanupState = { kind: 'proven', proof, receipt_id: lease.cleanup_receipt_id };
  const next = { ...state, lease, cleanup };
  return state.claim === 'lost'
    ? finish(next, next.end as RunEnd)
    : to(next, { phase: 'claims' }, { type: 'release_claims' });
}

function unproven(state: RunState, code: string, message: string): RunTransition {
  const cleanup: CleanupState = { kind: 'unproven', code, message };
  const next: RunState = {
    ...state,
    cleanup,
    claim: state.claim === 'bound' ? 'kept' : state.claim,
    claimReason: 'cleanup_unproven',
  };
  return finish(next, next.end as RunEnd);
}

function claimsReleased(state: RunState, isReleased: boolean, reason: KeptReason | null): RunTransition {
  const kept: KeptReason | null = state.cleanup.kind === 'idle' ? 'idle' : reason;
  return finish({ ...state, claim: isReleased ? 'released' : 'kept', claimReason: kept }, state.end as RunEnd);
}

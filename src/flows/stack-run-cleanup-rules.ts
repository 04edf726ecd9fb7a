/** The way out of a run: release, proof, claims. Doubt ends as `unproven`, and an unproven run keeps its claims. */
import type { KeptReason } from '../protocol/claim.ts';
import type { CleanupProof, Disposition } from '../protocol/records.ts';
import {
  type CleanupState,
  finish,
  type LeaseGlimpse,
  type ParkResult,
  type RunEnd,
  type RunState,
  type RunTransition,
  stay,
  to,
} from './stack-run-model.ts';

/** Gives the lease back as the options wish; a run that never became active is reaped whatever they say. */
export function beginCleanup(state: RunState, end: RunEnd): RunTransition {
  const lease = state.lease as LeaseGlimpse;
  const ended = { ...state, end: state.end ?? end, childRunning: false };
  if (state.options.command === 'up' && ended.end.by === 'park') return finish(ended, end);
  if (lease.state === 'reaped') return proven(ended, lease);
  const wasActive = lease.state === 'active' && ended.end.by !== 'fence';
  const idle = state.options.cleanup === 'idle' && wasActive;
  const disposition: Disposition = state.options.cleanup === 'stop' ? 'stop' : 'destroy';
  return to(
    ended,
    { phase: 'release' },
    { type: 'release', lease_id: lease.lease_id, how: idle ? 'idle' : 'reap', disposition },
  );
}

export function released(state: RunState, lease: LeaseGlimpse, changed: boolean): RunTransition {
  if (state.phase !== 'release') return stay(state);
  const next = { ...state, lease, end: changed ? state.end : endOfTakenLease(state.end, lease) };
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

/** A lease that was taken from the run before it ended: what its command came to says nothing about the script. */
function endOfTakenLease(end: RunEnd | null, lease: LeaseGlimpse): RunEnd | null {
  if (end?.by !== 'child' || lease.state === 'idle') return end;
  return {
    by: 'fence',
    code: 'LEASE_LOST',
    message: `the lease was lost before the command ended: ${lease.reap_reason}`,
  };
}

export function releaseFailed(state: RunState, code: string, message: string): RunTransition {
  return state.phase === 'release' ? unproven(state, code, message) : stay(state);
}

export function proofParkEnded(state: RunState, park: ParkResult): RunTransition {
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

export function unproven(state: RunState, code: string, message: string): RunTransition {
  const cleanup: CleanupState = { kind: 'unproven', code, message };
  const next: RunState = {
    ...state,
    cleanup,
    claim: state.claim === 'bound' ? 'kept' : state.claim,
    claimReason: 'cleanup_unproven',
  };
  return finish(next, next.end as RunEnd);
}

export function claimsReleased(state: RunState, isReleased: boolean, reason: KeptReason | null): RunTransition {
  const kept: KeptReason | null = state.cleanup.kind === 'idle' ? 'idle' : reason;
  return finish({ ...state, claim: isReleased ? 'released' : 'kept', claimReason: kept }, state.end as RunEnd);
}

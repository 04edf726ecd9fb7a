/**
 * The life of one `stack run` (and of `up`, which ends before the child) as a pure machine: which phase comes next,
 * which end wins, when and how cleanup runs. First reason wins; cleanup runs at most once; only a proof, an idle
 * stack or a lease that was never asked for lets the run end without a fence.
 * Must not: know time, processes or the wire. The loop in `stack-run.ts` and the simulation carry out its actions.
 * Read next: `stack-run-ends.ts` (exit codes), `stack-run.ts`.
 */
import {
  beginCleanup,
  claimsReleased,
  proofParkEnded,
  released,
  releaseFailed,
  unproven,
} from './stack-run-cleanup-rules.ts';
import {
  finish,
  type LeaseGlimpse,
  type ParkResult,
  type RunAction,
  type RunEnd,
  type RunEvent,
  type RunOptions,
  type RunRefusal,
  type RunState,
  type RunTransition,
  stay,
  to,
} from './stack-run-model.ts';

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

/** One step. An event that its phase does not expect changes nothing: it came late. */
export function runStep(state: RunState, event: RunEvent): RunTransition {
  if (state.phase === 'finished') return stay(state);
  switch (event.type) {
    case 'claimed':
      return state.phase === 'claim' ? claimed({ ...state, claim: 'held' }) : stay(state);
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
      return state.phase === 'slot_release'
        ? predecessorReleased(state, event.lease.lease_id)
        : released(state, event.lease, event.changed);
    case 'release_failed':
      if (state.phase === 'slot_release')
        return finish(state, { by: 'failure', code: event.code, message: event.message });
      return releaseFailed(state, event.code, event.message);
    case 'claims_released':
      return state.phase === 'claims' ? claimsReleased(state, event.released, event.reason) : stay(state);
  }
}

/** A claim that no lease came to carry goes; one that a lease may carry stays. */
function finishUnadmitted(state: RunState, end: RunEnd): RunTransition {
  const abandon: RunAction[] = state.claim === 'held' ? [{ type: 'abandon_claim' }] : [];
  return to(state, { phase: 'finished', end: state.end ?? end, claim: 'none' }, ...abandon, { type: 'finish' });
}

function claimed(state: RunState): RunTransition {
  if (state.end !== null) return finishUnadmitted(state, state.end);
  return to(state, { phase: 'request' }, { type: 'request' });
}

function predecessorReleased(state: RunState, leaseId: string): RunTransition {
  return state.end === null ? parkForSlot(state, leaseId) : finish(state, state.end);
}

function failed(state: RunState, code: string, message: string): RunTransition {
  const end: RunEnd = { by: 'failure', code, message };
  if (state.phase === 'child') return beginCleanup(state, end);
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

/** Only an active lease with a connection starts the child; what was read decides, whatever the park believed; no answer parks again. */
function confirmed(state: RunState, read: LeaseGlimpse | null): RunTransition {
  if (state.end !== null) return beginCleanup(state, state.end);
  const park: RunAction = { type: 'park', phase: 'provision', lease_id: (state.lease as LeaseGlimpse).lease_id };
  if (read === null) return to(state, { phase: 'provision' }, park);
  const lease = read;
  const next = { ...state, lease };
  if (lease.state === 'queued')
    return to(next, { phase: 'queue' }, { type: 'park', phase: 'queue', lease_id: lease.lease_id });
  if (lease.state === 'provisioning') return to(next, { phase: 'provision' }, park);
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

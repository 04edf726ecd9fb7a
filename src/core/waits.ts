/**
 * Waits belong to the coordinator, not to the client that made them. Level-triggered: what holds at registration
 * matches at once; afterwards every move of a lease is judged in the input that moved it, so nothing falls between.
 * A wait has exactly one outcome.
 */
import { BOUNDS } from './bounds.ts';
import type { WaitDeadlineReason } from './deadlines.ts';
import { type Draft, refuse } from './draft.ts';
import type { Input, Replies } from './inputs.ts';
import type { EndedWait, Lease, State, Wait, WaitOutcome } from './model.ts';
import { judgeLeaseCondition, type LeaseCondition, leaseEndState } from './wait-matching.ts';

type EndState = EndedWait['state'];

export function registerWait(draft: Draft, input: Extract<Input, { type: 'register_wait' }>): Replies['register_wait'] {
  const { state } = draft;
  const known = state.waits.get(input.wait.wait_session_id);
  if (known !== undefined) {
    if (known.tenant === input.wait.tenant && known.principal === input.wait.principal)
      return { wait: known, ended: null };
    refuse('WAIT_NOT_FOUND', `wait ${known.wait_session_id} belongs to another principal`);
  }
  if (
    state.waits.size >= BOUNDS.waitsPerPrincipalMax &&
    openWaitsOf(state, input.wait.principal) >= BOUNDS.waitsPerPrincipalMax
  ) {
    refuse('TOO_MANY_WAITS', `a principal has at most ${BOUNDS.waitsPerPrincipalMax} open waits`);
  }
  if (input.wait.conditions.length === 0 || input.wait.conditions.length > BOUNDS.conditionsPerWaitMax) {
    refuse('INVALID_CONDITION', `a wait has 1 to ${BOUNDS.conditionsPerWaitMax} conditions`);
  }
  for (const condition of input.wait.conditions) {
    if (condition.type !== 'lease') continue;
    const lease = state.leases.get(condition.lease_id) ?? input.archived[condition.lease_id];
    if (lease === undefined || lease.tenant !== input.wait.tenant || lease.principal !== input.wait.principal) {
      refuse('LEASE_NOT_FOUND', `there is no lease ${condition.lease_id}`, { lease_id: condition.lease_id });
    }
  }
  const wait: Wait = { ...input.wait, registered_at: draft.now, cursor_start: 0, matched: [] };
  draft.emit({ type: 'wait_registered', wait });
  const registered = state.waits.get(wait.wait_session_id) ?? wait;
  const ended = judgeAll(draft, registered, (id) => state.leases.get(id) ?? input.archived[id]);
  return { wait: registered, ended };
}

function openWaitsOf(state: State, principal: string): number {
  let open = 0;
  for (const wait of state.waits.values()) if (wait.principal === principal) open += 1;
  return open;
}

/** Looks at the waits of every lease that moved; each is judged against the lease as it is now. */
export function settleWaits(draft: Draft): void {
  for (const [leaseId, lease] of draft.moved) {
    draft.moved.delete(leaseId);
    for (const waitId of [...(draft.state.index.waitsByLease.get(leaseId) ?? [])]) {
      const wait = draft.state.waits.get(waitId);
      if (wait !== undefined) judgeAll(draft, wait, (id) => (id === leaseId ? lease : draft.state.leases.get(id)));
    }
  }
}

function judgeAll(draft: Draft, wait: Wait, leaseOf: (id: string) => Lease | undefined): EndedWait | null {
  for (const [index, condition] of wait.conditions.entries()) {
    if (wait.matched.some((match) => match.condition === index)) continue;
    if (condition.type === 'timer') {
      if (condition.at <= draft.now) noteMatch(draft, wait, index, 'timer');
    } else {
      const lease = leaseOf(condition.lease_id);
      if (lease === undefined) continue;
      const ended = judgeOne(draft, wait, index, condition, lease);
      if (ended !== null) return ended;
    }
    const ended = endIfComplete(draft, wait, {});
    if (ended !== null) return ended;
  }
  return null;
}

function judgeOne(draft: Draft, wait: Wait, index: number, condition: LeaseCondition, lease: Lease): EndedWait | null {
  const verdict = judgeLeaseCondition(condition, lease);
  if (verdict === 'pending') return null;
  const state = leaseEndState(condition, lease, verdict);
  if (verdict !== 'matched') return endWait(draft, wait, verdict, state);
  noteMatch(draft, wait, index, `lease:${lease.lease_id}`);
  return endIfComplete(draft, wait, state);
}

function noteMatch(draft: Draft, wait: Wait, condition: number, subject: string): void {
  const match = { condition, seq: draft.state.seq, subject };
  draft.emit({ type: 'wait_matched', wait_session_id: wait.wait_session_id, match });
}

function endIfComplete(draft: Draft, wait: Wait, state: EndState): EndedWait | null {
  const needed = wait.mode === 'any' ? 1 : wait.conditions.length;
  return wait.matched.length >= needed ? endWait(draft, wait, 'matched', state) : null;
}

function endWait(draft: Draft, wait: Wait, outcome: WaitOutcome, state: EndState): EndedWait {
  draft.emit({ type: 'wait_ended', wait_session_id: wait.wait_session_id, outcome, state });
  const ended: EndedWait = {
    wait_session_id: wait.wait_session_id,
    outcome,
    matched: wait.matched,
    state,
    ended_at: draft.now,
  };
  draft.archive.push({ kind: 'wait', id: wait.wait_session_id, body: { wait, ended } });
  return ended;
}

export function endWaitByTime(draft: Draft, wait: Wait, reason: WaitDeadlineReason): void {
  switch (reason) {
    case 'timer':
      judgeAll(draft, wait, (id) => draft.state.leases.get(id));
      return;
    case 'deadline':
      endWait(draft, wait, 'timeout', {});
      return;
    case 'abandoned':
      endWait(draft, wait, 'abandoned', { status: 'abandoned', reason: 'no_live_stream' });
      return;
  }
}

export function cancelWait(draft: Draft, input: Extract<Input, { type: 'cancel_wait' }>): Replies['cancel_wait'] {
  const wait = draft.state.waits.get(input.wait_session_id);
  if (wait === undefined || wait.tenant !== input.by.tenant || wait.principal !== input.by.principal) {
    return refuse('WAIT_NOT_FOUND', `there is no open wait ${input.wait_session_id}`);
  }
  return { ended: endWait(draft, wait, 'abandoned', { status: input.reason, reason: input.reason }) };
}

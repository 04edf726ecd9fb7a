/** The moves of a park that several of its rules share: registering, backing off, reading, ending. Pure. */
import type { EndedWait, LeaseView } from '../protocol/records.ts';
import { isOpen, type Trouble, troubleKind, withFailure, withRecovery } from './incident-rules.ts';
import { goalEndState, judgeGoal, type LeaseGoal } from './lease-goal-rules.ts';
import type { Moment, ParkAction, ParkEnding, ParkOutcome, ParkState, ParkStep } from './park-model.ts';

/** A mint that failed so will fail again: no budget is spent on it. */
const DEFINITIVE_AUTH_CODES: ReadonlySet<string> = new Set([
  'session_identity_mismatch',
  'client_key_required',
  'tenant_binding_required',
  'session_token_malformed',
  'agent_tenant_immutable',
  'agent_name_conflict',
]);

export const stay = (state: ParkState): ParkStep => ({ state, actions: [] });

const closing = (state: ParkState): ParkAction[] => (state.streamOpen ? [{ type: 'close_stream' }] : []);

type EndDetails = Partial<Pick<ParkEnding, 'code' | 'error' | 'state' | 'matched'>>;

export function end(state: ParkState, outcome: ParkOutcome, details: EndDetails = {}): ParkStep {
  const parkEnd: ParkEnding = {
    outcome,
    code: details.code ?? null,
    error: details.error ?? null,
    state: details.state ?? {},
    matched: details.matched ?? [],
    lease: state.lease,
    incident: state.incident,
    warnings: state.warnings,
    cursor: state.cursor,
    waitId: state.waitId,
    waitLeftOpen: state.standing === 'registered' || (state.phase === 'registering' && state.standing !== 'over'),
  };
  const actions: ParkAction[] = [...closing(state), { type: 'end', end: parkEnd }];
  return { state: { ...state, phase: 'ended', streamOpen: false }, actions };
}

export function timeOut(state: ParkState): ParkStep {
  const { incident } = state;
  if (incident === null || incident.recovered) {
    return end(state, 'timeout', { code: 'timeout', error: 'the deadline passed' });
  }
  const error = `the deadline passed during an incident, so what was waited for was never observed: ${incident.last_error}`;
  return end(state, 'timeout', { code: incident.reason, error });
}

/** A direct look at the lease stands before every time-out; one that is on its way is used for it. */
export function conclude(state: ParkState): ParkStep {
  if (state.phase === 'reading' || state.phase === 'checking') return stay({ ...state, phase: 'concluding' });
  return readRound(state, 'concluding', timeOut);
}

export function register(state: ParkState, at: Moment): ParkStep {
  const timeoutMs = Math.ceil(state.deadlineMs - at.nowMs);
  // Not `conclude`: the read that led here is used up, and would be waited for for ever.
  if (timeoutMs <= 0) return readRound(state, 'concluding', timeOut);
  const registrations = state.registrations + 1;
  const { waitId, conditions } = state;
  return {
    state: { ...state, phase: 'registering', registrations, streamOpen: false },
    actions: [
      ...closing(state),
      { type: 'register', waitId, conditions, timeoutMs, idempotencyKey: `${waitId}.${registrations}` },
    ],
  };
}

/** Arms the same conditions as another wait, since the old one is over. */
export function rearm(state: ParkState, at: Moment): ParkStep {
  return register({ ...state, waitId: successorId(state.waitId), standing: 'unknown', cursor: null }, at);
}

const LAST_GROUP = /[0-9a-f]{12}$/i;

/** Another id, the same on every replay. */
export function successorId(id: string): string {
  const group = LAST_GROUP.exec(id)?.[0];
  if (group === undefined) return `${id}+`;
  const next = (Number.parseInt(group, 16) + 1) % 2 ** 48;
  return id.slice(0, -12) + next.toString(16).padStart(12, '0');
}

export function openStream(state: ParkState): ParkStep {
  const unlisted = state.standing === 'unlisted' ? state.goals[0] : undefined;
  const query = unlisted === undefined ? { wait: state.waitId } : { lease: unlisted.lease_id };
  return {
    state: { ...state, phase: 'opening', streamOpen: true },
    actions: [{ type: 'open_stream', query, cursor: state.cursor }],
  };
}

export function recovered(state: ParkState): ParkState {
  return { ...state, incident: withRecovery(state.incident), lastTrouble: null, authSpentMs: 0, authFailedAtMs: null };
}

/** Keeps the incident and the auth budget; decides nothing. */
export function noted(state: ParkState, trouble: Trouble, kind: 'auth' | 'unreachable', at: Moment): ParkState {
  const incident = withFailure(state.incident, kind, trouble, at.wallMs);
  if (kind === 'unreachable') return { ...state, incident, lastTrouble: kind, authFailedAtMs: null };
  const spentMs = state.authFailedAtMs === null ? 0 : at.nowMs - state.authFailedAtMs;
  const authSpentMs = state.authSpentMs + spentMs;
  return { ...state, incident, lastTrouble: kind, authSpentMs, authFailedAtMs: at.nowMs };
}

/** A failure that passes: back off, never past the deadline. `refused` troubles do not come here. */
export function blip(before: ParkState, trouble: Trouble, at: Moment, cut = false): ParkStep {
  const kind = troubleKind(trouble) === 'auth' ? 'auth' : 'unreachable';
  const state = noted(before, trouble, kind, at);
  const definitive = kind === 'auth' && trouble.code !== null && DEFINITIVE_AUTH_CODES.has(trouble.code);
  if (definitive || (kind === 'auth' && state.authSpentMs >= state.authBudgetMs)) {
    return end(state, 'error', { code: 'platform_auth_unavailable', error: trouble.message });
  }
  const remainingMs = state.deadlineMs - at.nowMs;
  if (remainingMs <= 0) return conclude({ ...state, phase: 'backing_off' });
  const baseMs = Math.min(state.backoff.firstMs * 2 ** state.blips, state.backoff.maxMs);
  const spreadMs = cut ? at.jitter * baseMs : baseMs * (0.5 + at.jitter / 2);
  return {
    state: { ...state, phase: 'backing_off', blips: state.blips + 1, streamOpen: false },
    actions: [...closing(state), { type: 'back_off', ms: Math.min(spreadMs, remainingMs) }],
  };
}

/** Begins to read every lease of the goals, one after the other; `otherwise` when there is none. */
export function readRound(
  state: ParkState,
  phase: 'reading' | 'checking' | 'concluding',
  otherwise: (state: ParkState) => ParkStep,
): ParkStep {
  const toRead = [...new Set(state.goals.map((goal) => goal.lease_id))];
  const [first] = toRead;
  if (first === undefined) return otherwise(state);
  return { state: { ...state, phase, toRead, met: [] }, actions: [{ type: 'read_lease', leaseId: first }] };
}

export const startReading = (state: ParkState, at: Moment): ParkStep =>
  readRound(state, 'reading', (next) => register(next, at));

/** Keeps what was seen of the lease; a deferral ends the park. */
export function seen(state: ParkState, lease: LeaseView): ParkStep {
  const next = lease.lease_id === state.leaseId ? { ...state, lease } : state;
  const deferred =
    state.endsWhenDeferred &&
    lease.state === 'queued' &&
    state.goals.some((goal) => goal.lease_id === lease.lease_id && goal.state === 'active');
  return deferred ? end(next, 'deferred') : stay(next);
}

/** Judges the goals on a lease that was read directly: ends the park, or keeps the goals that it meets. */
export function judged(state: ParkState, lease: LeaseView): ParkStep {
  const met: LeaseGoal[] = [...state.met];
  for (const goal of state.goals) {
    if (goal.lease_id !== lease.lease_id) continue;
    const verdict = judgeGoal(goal, lease);
    if (verdict === 'lease_lost' || verdict === 'lease_cleanup_failed') {
      const code = verdict === 'lease_lost' ? 'LEASE_LOST' : verdict;
      return end(state, verdict, {
        code,
        error: lease.error ?? `the lease is ${lease.state}`,
        state: goalEndState(goal, lease, verdict),
      });
    }
    if (verdict === 'matched') met.push(goal);
    if (verdict === 'matched' && (state.mode === 'any' || met.length === state.conditions.length)) {
      return end(state, 'matched', { state: goalEndState(goal, lease, verdict) });
    }
  }
  return stay({ ...state, met });
}

/** After one lease of a round: the next one, or what follows the round. */
export function nextRead(state: ParkState, follow: (state: ParkState) => ParkStep): ParkStep {
  const toRead = state.toRead.slice(1);
  const [first] = toRead;
  const next = { ...state, toRead };
  return first === undefined ? follow(next) : { state: next, actions: [{ type: 'read_lease', leaseId: first }] };
}

/** The coordinator says that the wait is over. */
export function afterEnded(before: ParkState, ended: EndedWait, at: Moment): ParkStep {
  const duringIncident = isOpen(before.incident);
  const state = recovered({ ...before, standing: 'over' });
  const details = { state: ended.state, matched: ended.matched };
  switch (ended.outcome) {
    case 'matched':
      return end(state, 'matched', details);
    case 'lease_lost':
      return end(state, 'lease_lost', {
        ...details,
        code: 'LEASE_LOST',
        error: state.lease?.error ?? 'the lease was lost',
      });
    case 'lease_cleanup_failed':
      return end(state, 'lease_cleanup_failed', {
        ...details,
        code: 'lease_cleanup_failed',
        error: state.lease?.error ?? 'the cleanup failed',
      });
    case 'timeout':
      return duringIncident && at.nowMs < state.deadlineMs ? rearm(state, at) : conclude(state);
    case 'abandoned':
      return duringIncident && ended.state['reason'] === 'no_live_stream' && at.nowMs < state.deadlineMs
        ? rearm(state, at)
        : end(state, 'abandoned', { ...details, code: 'wait_abandoned', error: 'the wait was abandoned' });
  }
}

/**
 * When a held lease is touched, and when it counts as lost: state x event -> state and what to do. A refusal that says
 * so fences at once; silence is ridden out for one TTL since the last touch that was answered. After a suspend, or a
 * timer that came late, silence proves nothing: the lease is asked about first, and gets one beat to answer.
 * Pure: both clocks and chance arrive in the events. Its loop is heartbeat.ts.
 */
import { type PlatformIncident, type Trouble, troubleKind, withFailure, withRecovery } from './incident-rules.ts';

export interface HeartbeatMoment {
  /** Awake time. */
  nowMs: number;
  /** Time since the boot, suspended time included. */
  uptimeMs: number;
  wallMs: number;
  /** Random, in [0, 1). */
  jitter: number;
}

export type HeartbeatEvent = { at: HeartbeatMoment } & (
  | { type: 'started' }
  | { type: 'timer' }
  | { type: 'answered' }
  | { type: 'failed'; trouble: Trouble }
);

export interface LeaseLoss {
  code: 'LEASE_LOST' | 'LEASE_NOT_FOUND' | 'heartbeat_unanswered';
  message: string;
}

export type HeartbeatAction =
  | { type: 'touch' }
  /** Replaces the timer that was set before. */
  | { type: 'set_timer'; ms: number }
  | { type: 'lost'; loss: LeaseLoss };

export interface HeartbeatState {
  everyMs: number;
  ttlMs: number;
  retryMsFirst: number;
  phase: 'waiting' | 'asking' | 'lost';
  /** When the last touch that was answered had been sent. */
  aliveAtMs: number;
  askedAtMs: number;
  /** When the next touch is due; while one is under way the answer decides. */
  dueAtMs: number;
  timerAtMs: number;
  /** Suspended time so far. */
  sleptMs: number;
  /** Silence proves nothing before this. */
  graceUntilMs: number;
  failures: number;
  incident: PlatformIncident | null;
}

export interface HeartbeatStep {
  state: HeartbeatState;
  actions: readonly HeartbeatAction[];
}

/** How much a suspend takes to be one. */
const SLEPT_MS_MIN = 1_000;
const RETRY_MS_FIRST = 1_000;
/** Of the interval: an outage that ends just before the TTL must still be noticed. */
const RETRY_SHARE_MAX = 0.25;

export function initialHeartbeat(options: { everyMs: number; ttlMs: number; retryMsFirst?: number }): HeartbeatState {
  return {
    everyMs: options.everyMs,
    ttlMs: options.ttlMs,
    retryMsFirst: options.retryMsFirst ?? RETRY_MS_FIRST,
    phase: 'waiting',
    aliveAtMs: 0,
    askedAtMs: 0,
    dueAtMs: 0,
    timerAtMs: 0,
    sleptMs: 0,
    graceUntilMs: 0,
    failures: 0,
    incident: null,
  };
}

export function heartbeatStep(state: HeartbeatState, event: HeartbeatEvent): HeartbeatStep {
  if (state.phase === 'lost') return { state, actions: [] };
  switch (event.type) {
    case 'started':
      return touch({ ...state, aliveAtMs: event.at.nowMs, sleptMs: event.at.uptimeMs - event.at.nowMs }, event.at);
    case 'timer':
      return onTimer(state, event.at);
    case 'answered':
      return onAnswered(awake(state, event.at), event.at);
    case 'failed':
      return onFailed(awake(state, event.at), event.trouble, event.at);
  }
}

const lossAtMs = (state: HeartbeatState): number => Math.max(state.aliveAtMs + state.ttlMs, state.graceUntilMs);

/** Notices that this process or this machine stood still. */
function awake(state: HeartbeatState, at: HeartbeatMoment): HeartbeatState {
  const sleptMs = at.uptimeMs - at.nowMs;
  const lateMs = at.nowMs - state.timerAtMs;
  const stoodStill = sleptMs - state.sleptMs >= SLEPT_MS_MIN || lateMs >= state.everyMs / 2;
  if (!stoodStill) return state;
  return { ...state, sleptMs, timerAtMs: at.nowMs, graceUntilMs: at.nowMs + state.everyMs, dueAtMs: at.nowMs };
}

function onTimer(before: HeartbeatState, at: HeartbeatMoment): HeartbeatStep {
  const state = awake(before, at);
  if (at.nowMs >= lossAtMs(state)) return unanswered(state);
  if (state.phase === 'waiting' && at.nowMs >= state.dueAtMs) return touch(state, at);
  return setTimer(state, at);
}

function touch(state: HeartbeatState, at: HeartbeatMoment): HeartbeatStep {
  const next = setTimer({ ...state, phase: 'asking', askedAtMs: at.nowMs }, at);
  return { state: next.state, actions: [{ type: 'touch' }, ...next.actions] };
}

/** For whatever comes first: the next touch, or the loss. */
function setTimer(state: HeartbeatState, at: HeartbeatMoment): HeartbeatStep {
  const nextMs = state.phase === 'asking' ? lossAtMs(state) : Math.min(state.dueAtMs, lossAtMs(state));
  const ms = Math.max(0, nextMs - at.nowMs);
  return { state: { ...state, timerAtMs: at.nowMs + ms }, actions: [{ type: 'set_timer', ms }] };
}

function onAnswered(state: HeartbeatState, at: HeartbeatMoment): HeartbeatStep {
  const next: HeartbeatState = {
    ...state,
    phase: 'waiting',
    aliveAtMs: state.askedAtMs,
    dueAtMs: Math.max(at.nowMs, state.askedAtMs + state.everyMs),
    failures: 0,
    incident: withRecovery(state.incident),
  };
  return setTimer(next, at);
}

function onFailed(before: HeartbeatState, trouble: Trouble, at: HeartbeatMoment): HeartbeatStep {
  if (trouble.code === 'LEASE_LOST' || trouble.code === 'LEASE_NOT_FOUND') {
    return lose(before, { code: trouble.code, message: trouble.message });
  }
  const kind = troubleKind(trouble) === 'auth' ? 'auth' : 'unreachable';
  const baseMs = Math.min(before.retryMsFirst * 2 ** before.failures, before.everyMs * RETRY_SHARE_MAX);
  const askedAsleep = before.askedAtMs < before.graceUntilMs - before.everyMs;
  const state: HeartbeatState = {
    ...before,
    phase: 'waiting',
    failures: before.failures + 1,
    incident: withFailure(before.incident, kind, trouble, at.wallMs),
    dueAtMs: askedAsleep ? at.nowMs : at.nowMs + baseMs * (0.5 + at.jitter / 2),
  };
  return at.nowMs >= lossAtMs(state) ? unanswered(state) : setTimer(state, at);
}

function unanswered(state: HeartbeatState): HeartbeatStep {
  const last = state.incident === null ? 'none came at all' : `the last error was: ${state.incident.last_error}`;
  const message = `no heartbeat was answered for ${Math.round(state.ttlMs / 1_000)} s, so the lease may be lost; ${last}`;
  return lose(state, { code: 'heartbeat_unanswered', message });
}

const lose = (state: HeartbeatState, loss: LeaseLoss): HeartbeatStep => ({
  state: { ...state, phase: 'lost' },
  actions: [{ type: 'lost', loss }],
});

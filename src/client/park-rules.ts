/**
 * How a park goes on: state x event -> state and actions. A wait is registered, its stream is read, and only a terminal
 * cause ends it: what passes by itself is backed off from, looked around, and registered anew.
 * Pure: time and chance arrive in the events. Its loop (park.ts, or the simulation) reports only what belongs to the
 * last action of a kind: nothing of a stream that it was told to close, one read and one registration at a time.
 * Read next: park-model.ts for the words, _park-move-rules.ts for the moves.
 */
import { outcomeOf } from '../protocol/outcomes.ts';
import type { Frame } from '../protocol/stream-frames.ts';
import {
  afterEnded,
  blip,
  conclude,
  end,
  judged,
  nextRead,
  noted,
  openStream,
  readRound,
  recovered,
  register,
  seen,
  startReading,
  stay,
  timeOut,
} from './_park-move-rules.ts';
import { type Trouble, troubleKind } from './incident-rules.ts';
import { leaseGoals } from './lease-goal-rules.ts';
import type { Moment, ParkEvent, ParkEventType, ParkOptions, ParkPhase, ParkState, ParkStep } from './park-model.ts';

/** The first pause after a blip and the longest one. */
export const BACKOFF = { firstMs: 2_000, maxMs: 60_000 } as const;
const AUTH_BUDGET_MS = 300_000;

export function initialPark(options: ParkOptions): ParkState {
  const goals = leaseGoals(options.conditions);
  const only = goals.length === 1 ? goals[0] : undefined;
  return {
    phase: 'ready',
    mode: options.mode,
    deadlineMs: options.deadlineMs,
    backoff: options.backoff ?? BACKOFF,
    authBudgetMs: options.authBudgetMs ?? AUTH_BUDGET_MS,
    endsWhenDeferred: options.endsWhenDeferred ?? options.leaseId !== undefined,
    leaseId: options.leaseId ?? only?.lease_id ?? null,
    goals,
    waitId: options.waitId,
    conditions: options.conditions,
    registrations: 0,
    standing: 'unknown',
    forgotten: false,
    cursor: null,
    streamOpen: false,
    streamSinceMs: 0,
    blips: 0,
    lastTrouble: null,
    authSpentMs: 0,
    authFailedAtMs: null,
    toRead: [],
    met: [],
    lease: null,
    incident: null,
    warnings: [],
  };
}

type EventOf<E extends ParkEventType> = Extract<ParkEvent, { type: E }>;
type Rule<E extends ParkEventType> = (state: ParkState, event: EventOf<E>) => ParkStep;

const ignore = (state: ParkState): ParkStep => stay(state);

/** Goes on with the step that follows, unless the first one ended the park. */
const unlessEnded = (step: ParkStep, follow: (state: ParkState) => ParkStep): ParkStep =>
  step.state.phase === 'ended' ? step : follow(step.state);

const start: Rule<'started'> = (state, { at }) => register(state, at);

const onRegistered: Rule<'registered'> = (before, { wait, at }) => {
  const conditions = wait.conditions.length === before.conditions.length ? wait.conditions : before.conditions;
  const state: ParkState = { ...before, conditions, standing: 'registered', cursor: before.cursor ?? wait.cursor };
  return wait.ended === null ? openStream(recovered(state)) : afterEnded(state, wait.ended, at);
};

/** The deadline came first: only a real end counts. */
const onRegisteredLate: Rule<'registered'> = (state, { wait, at }) => {
  const outcome = wait.ended?.outcome;
  if (wait.ended === null || outcome === 'timeout' || outcome === 'abandoned') return stay(state);
  return afterEnded(state, wait.ended, at);
};

const onRegistrationFailed: Rule<'registration_failed'> = (before, { trouble, at }) => {
  if (troubleKind(trouble) !== 'refused') return blip(before, trouble, at);
  const state = recovered(before);
  if (state.goals.length !== 1 || state.conditions.length !== 1) return endRefused(state, trouble);
  const warning = `the wait could not be registered and will not be listed: ${trouble.message}`;
  const warnings = state.warnings.length === 0 ? [warning] : state.warnings;
  return openStream({ ...state, standing: 'unlisted', cursor: null, warnings });
};

function endRefused(state: ParkState, trouble: Trouble): ParkStep {
  return end(state, 'error', { code: trouble.code ?? 'internal', error: trouble.message });
}

const onStreamOpened: Rule<'stream_opened'> = (before, { at }) => {
  const state: ParkState = { ...recovered(before), phase: 'streaming', streamSinceMs: at.nowMs, forgotten: false };
  return state.standing === 'unlisted' ? readRound(state, 'checking', stay) : stay(state);
};

const onFrame: Rule<'frame'> = (before, { frame, at }) => {
  const state = frame.id === null ? before : { ...before, cursor: frame.id };
  switch (frame.type) {
    case 'open':
      return stay({ ...state, cursor: state.cursor ?? frame.data.cursor });
    case 'lease':
      return unlessEnded(seen(state, frame.data.lease), (next) =>
        next.standing === 'unlisted' ? judged(next, frame.data.lease) : stay(next),
      );
    case 'wait_ended':
      return state.phase === 'concluding' ? lateEnd(state, frame, at) : afterEnded(state, frame.data.ended, at);
    case 'cursor_expired':
      return onCursorExpired({ ...state, cursor: frame.data.cursor }, frame, at);
    case 'error':
      return onErrorFrame(state, frame, at);
    case 'farewell':
    case 'host_work':
      return stay(state);
  }
};

function lateEnd(state: ParkState, frame: Extract<Frame, { type: 'wait_ended' }>, at: Moment): ParkStep {
  const { outcome } = frame.data.ended;
  if (outcome === 'timeout' || outcome === 'abandoned') return stay({ ...state, standing: 'over' });
  return afterEnded(state, frame.data.ended, at);
}

/** What was missed between the two cursors is in the snapshot. */
function onCursorExpired(before: ParkState, frame: Extract<Frame, { type: 'cursor_expired' }>, at: Moment): ParkStep {
  let step = stay(before);
  for (const lease of frame.data.leases) {
    step = unlessEnded(step, (state) =>
      unlessEnded(seen(state, lease), (next) => (next.standing === 'unlisted' ? judged(next, lease) : stay(next))),
    );
  }
  return unlessEnded(step, (state) => {
    const ended = frame.data.wait?.ended ?? null;
    if (ended !== null && state.phase !== 'concluding') return afterEnded(state, ended, at);
    const unknown = frame.data.wait === null && state.standing === 'registered' && state.phase !== 'concluding';
    return unknown ? register({ ...state, standing: 'unknown', cursor: null }, at) : stay(state);
  });
}

function onErrorFrame(state: ParkState, frame: Extract<Frame, { type: 'error' }>, at: Moment): ParkStep {
  const { code, message, fields } = frame.data;
  const status = outcomeOf(code).status;
  if (code !== 'wait_abandoned') return onStreamTrouble(state, { status, code, message }, at);
  const words = (name: string, otherwise: string) =>
    typeof fields[name] === 'string' ? String(fields[name]) : otherwise;
  const reason = { status: words('status', 'abandoned'), reason: words('reason', 'no_live_stream') };
  return end({ ...state, standing: 'over' }, 'abandoned', { code, error: message, state: reason });
}

function onStreamTrouble(state: ParkState, trouble: Trouble, at: Moment): ParkStep {
  if (state.phase === 'concluding') return noteOnly(state, trouble, at);
  if (troubleKind(trouble) !== 'refused') return blip(afterLongStream(state, at), trouble, at);
  if (trouble.code === 'WAIT_NOT_FOUND' && state.standing === 'registered' && !state.forgotten) {
    return register({ ...state, standing: 'unknown', cursor: null, forgotten: true }, at);
  }
  return endRefused(recovered(state), trouble);
}

/** A stream that lived longer than the back-off before it was no part of the same trouble. */
function afterLongStream(state: ParkState, at: Moment): ParkState {
  const lastBackoffMs = Math.min(state.backoff.firstMs * 2 ** state.blips, state.backoff.maxMs);
  const lived = state.phase !== 'opening' && at.nowMs - state.streamSinceMs >= lastBackoffMs;
  return lived ? { ...state, blips: 0 } : state;
}

const onStreamClosed: Rule<'stream_closed'> = (before, { message, at }) => {
  const state = { ...before, streamOpen: false };
  const trouble = { status: null, code: null, message };
  if (state.phase === 'concluding') return noteOnly(state, trouble, at);
  return blip(afterLongStream(state, at), trouble, at, true);
};

const onStreamFailed: Rule<'stream_failed'> = (state, { trouble, at }) =>
  onStreamTrouble({ ...state, streamOpen: false }, trouble, at);

/** While the last look is under way a failure is kept for the receipt, and decides nothing. */
function noteOnly(state: ParkState, trouble: Trouble, at: Moment): ParkStep {
  const kind = troubleKind(trouble);
  return stay(kind === 'refused' ? state : noted(state, trouble, kind, at));
}

const noteFailed: Rule<'registration_failed'> = (state, { trouble, at }) => noteOnly(state, trouble, at);

const onBackoffElapsed: Rule<'backoff_elapsed'> = (state, { at }) => {
  if (at.nowMs >= state.deadlineMs) return conclude(state);
  if (state.lastTrouble !== 'auth') return startReading(state, at);
  return { state: { ...state, phase: 'refreshing' }, actions: [{ type: 'refresh_credential' }] };
};

const onCredential: Rule<'credential_checked'> = (state, { verdict, at }) =>
  verdict.type === 'ready' ? startReading(state, at) : blip(state, verdict.trouble, at);

const looked = (before: ParkState, event: EventOf<'lease_read'>, follow: (state: ParkState) => ParkStep): ParkStep =>
  unlessEnded(seen(recovered(before), event.lease), (state) =>
    unlessEnded(judged(state, event.lease), (next) => nextRead(next, follow)),
  );

const onLeaseRead: Rule<'lease_read'> = (state, event) => looked(state, event, (next) => register(next, event.at));
const onLeaseChecked: Rule<'lease_read'> = (state, event) =>
  looked(state, event, (next) => stay({ ...next, phase: 'streaming' }));
const onLastLook: Rule<'lease_read'> = (state, event) => looked(state, event, timeOut);

const onReadFailed: Rule<'lease_read_failed'> = (state, { trouble, at }) =>
  troubleKind(trouble) === 'refused'
    ? nextRead(recovered(state), (next) => register(next, at))
    : blip(state, trouble, at);

const onCheckFailed: Rule<'lease_read_failed'> = (state, { trouble, at }) =>
  troubleKind(trouble) === 'refused' ? endRefused(recovered(state), trouble) : blip(state, trouble, at);

const onLastLookFailed: Rule<'lease_read_failed'> = (state, { trouble, at }) =>
  nextRead(noteOnly(state, trouble, at).state, timeOut);

const onDeadline: Rule<'deadline_reached'> = (state) => conclude(state);
const onInterrupt: Rule<'interrupted'> = (state) =>
  end(state, 'interrupted', { code: 'interrupted', error: 'interrupted by a signal' });

/** Every pair of event and phase; `ignore` marks what came too late. */
const RULES: { readonly [E in ParkEventType]: Readonly<Record<ParkPhase, Rule<E>>> } = {
  started: { ...everywhere(ignore), ready: start },
  registered: { ...everywhere(ignore), registering: onRegistered, concluding: onRegisteredLate },
  registration_failed: { ...everywhere(ignore), registering: onRegistrationFailed, concluding: noteFailed },
  stream_opened: { ...everywhere(ignore), opening: onStreamOpened },
  frame: { ...everywhere(ignore), opening: onFrame, streaming: onFrame, checking: onFrame, concluding: onFrame },
  stream_closed: {
    ...everywhere(ignore),
    opening: onStreamClosed,
    streaming: onStreamClosed,
    checking: onStreamClosed,
    concluding: onStreamClosed,
  },
  stream_failed: {
    ...everywhere(ignore),
    opening: onStreamFailed,
    streaming: onStreamFailed,
    checking: onStreamFailed,
    concluding: onStreamFailed,
  },
  backoff_elapsed: { ...everywhere(ignore), backing_off: onBackoffElapsed },
  credential_checked: { ...everywhere(ignore), refreshing: onCredential },
  lease_read: { ...everywhere(ignore), reading: onLeaseRead, checking: onLeaseChecked, concluding: onLastLook },
  lease_read_failed: {
    ...everywhere(ignore),
    reading: onReadFailed,
    checking: onCheckFailed,
    concluding: onLastLookFailed,
  },
  deadline_reached: { ...everywhere(onDeadline), concluding: ignore, ended: ignore },
  interrupted: { ...everywhere(onInterrupt), ended: ignore },
};

function everywhere<E extends ParkEventType>(rule: Rule<E>): Record<ParkPhase, Rule<E>> {
  return {
    ready: rule,
    registering: rule,
    opening: rule,
    streaming: rule,
    checking: rule,
    backing_off: rule,
    refreshing: rule,
    reading: rule,
    concluding: rule,
    ended: rule,
  };
}

export function parkStep(state: ParkState, event: ParkEvent): ParkStep {
  const rules: Readonly<Record<ParkPhase, unknown>> = RULES[event.type];
  return (rules[state.phase] as Rule<typeof event.type>)(state, event as never);
}

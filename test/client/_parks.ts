/** Hand-made parks, events and views for the tests of this folder. */
import type { ParkEvent, ParkOptions, ParkPhase, ParkState, ParkStep } from '../../src/client/park-model.ts';
import { initialPark, parkStep } from '../../src/client/park-rules.ts';
import type { EndedWait, LeaseView, WaitOutcome } from '../../src/protocol/records.ts';
import type { WaitView } from '../../src/protocol/tool-calls.ts';

export const LEASE = '11111111-1111-4111-8111-111111111111';
export const OTHER = '22222222-2222-4222-8222-222222222222';
export const WAIT = '33333333-3333-4333-8333-333333333333';
export const DEADLINE_MS = 100_000;

export function leaseView(changes: Partial<LeaseView> = {}): LeaseView {
  return {
    lease_id: LEASE,
    tenant: 'local',
    state: 'queued',
    mode: 'attached',
    slot: 'slot',
    project: 'bb-local-x',
    host_id: 'host',
    host_key: 'host',
    worktree_root: '/w',
    stack_path: '.',
    units: 1,
    priority: 0,
    blocks: [],
    claim_token: 'token',
    plan_digest: 'digest',
    ttl_ms: 60_000,
    since: 0,
    requested_at: 0,
    fencing_token: null,
    created_fencing_token: null,
    queue_position: null,
    queue_reason: null,
    queue_deadline_at: null,
    placement_reason: null,
    provision_defer_reason: null,
    connection: null,
    reused: null,
    reprovisioned: null,
    idle_since: null,
    idle_reason: null,
    idle_ttl_ms: 0,
    reap_requested_at: null,
    reap_reason: null,
    reap_disposition: 'destroy',
    reap_failed_at: null,
    last_reap_outcome: null,
    error: null,
    error_class: null,
    cleanup_proof: null,
    cleanup_receipt_id: null,
    ...changes,
  } as LeaseView;
}

export function endedWait(outcome: WaitOutcome, state: EndedWait['state'] = {}): EndedWait {
  return { wait_session_id: WAIT, outcome, matched: [], state, ended_at: 1 };
}

export function waitView(ended: EndedWait | null = null, cursor = 'e.1'): WaitView {
  const status = ended === null ? 'pending' : 'ended';
  const conditions = [`lease:id=${LEASE},state=active`];
  const times = { deadline_at: 1, registered_at: 1 };
  return { wait_session_id: WAIT, conditions, mode: 'all', ...times, cursor, status, ended };
}

type WithoutMoment<E> = E extends unknown ? Omit<E, 'at'> : never;
export type Happening = WithoutMoment<ParkEvent>;

export const UNREACHABLE = { status: null, code: null, message: 'no answer' };
export const REFUSED = { status: 404, code: 'LEASE_NOT_FOUND', message: 'there is no such lease' };
export const REJECTED = { status: 401, code: 'unauthenticated', message: 'not known here' };

/** A park driven by hand: remembers its state and everything that it asked for. */
export class DrivenPark {
  state: ParkState;
  nowMs = 0;
  jitter = 0.5;
  last: ParkStep['actions'] = [];
  asked: string[] = [];

  constructor(options: Partial<ParkOptions> = {}) {
    const conditions = [`lease:id=${LEASE},state=active`];
    this.state = initialPark({
      waitId: WAIT,
      conditions,
      mode: 'all',
      deadlineMs: DEADLINE_MS,
      leaseId: LEASE,
      ...options,
    });
  }

  on(...happenings: Happening[]): this {
    for (const happening of happenings) {
      const at = { nowMs: this.nowMs, wallMs: 1_000_000 + this.nowMs, jitter: this.jitter };
      const step = parkStep(this.state, { ...happening, at } as ParkEvent);
      this.state = step.state;
      this.last = step.actions;
      this.asked.push(...step.actions.map(({ type }) => type));
    }
    return this;
  }

  /** One word a step: the phase, and what was asked for. */
  get glimpse(): string {
    const actions = this.last.map((action) => (action.type === 'end' ? `end ${action.end.outcome}` : action.type));
    return [this.state.phase, ...actions].join(' ');
  }

  get end() {
    const action = this.last.find(({ type }) => type === 'end');
    return action?.type === 'end' ? action.end : null;
  }

  get backoffMs(): number {
    const action = this.last.find(({ type }) => type === 'back_off');
    return action?.type === 'back_off' ? action.ms : Number.NaN;
  }
}

/** A park that has come into the phase by the shortest way. */
export function parkIn(phase: ParkPhase, options: Partial<ParkOptions> = {}): DrivenPark {
  const park = new DrivenPark(options);
  const ways: Record<ParkPhase, Happening[]> = {
    ready: [],
    registering: [{ type: 'started' }],
    opening: [{ type: 'started' }, { type: 'registered', wait: waitView() }],
    streaming: [{ type: 'started' }, { type: 'registered', wait: waitView() }, { type: 'stream_opened' }],
    checking: [{ type: 'started' }, { type: 'registration_failed', trouble: REFUSED }, { type: 'stream_opened' }],
    backing_off: [{ type: 'started' }, { type: 'registration_failed', trouble: UNREACHABLE }],
    refreshing: [{ type: 'started' }, { type: 'registration_failed', trouble: REJECTED }, { type: 'backoff_elapsed' }],
    reading: [{ type: 'started' }, { type: 'registration_failed', trouble: UNREACHABLE }, { type: 'backoff_elapsed' }],
    concluding: [{ type: 'started' }, { type: 'deadline_reached' }],
    ended: [{ type: 'interrupted' }],
  };
  return park.on(...ways[phase]);
}

import { describe, expect, test } from 'bun:test';
import { BOUNDS } from '../../src/core/bounds.ts';
import { type Deadline, jobDeadline, leaseDeadline, nextDeadline, waitDeadline } from '../../src/core/deadlines.ts';
import { LEASE_STATES, type Lease, type LeaseMode, type LeaseState } from '../../src/core/model.ts';
import { emptyState } from '../../src/core/state.ts';
import { Machine } from './machine.ts';

const SINCE = 1_000;
const TTL = 60;
const IDLE = 500;
const unseen = () => 0;

const lease = (state: LeaseState, mode: LeaseMode, changes: Partial<Lease> = {}): Lease => {
  const machine = new Machine();
  machine.host(1);
  return {
    ...machine.active('slot'),
    state,
    mode,
    since: SINCE,
    ttl_ms: TTL,
    idle_ttl_ms: IDLE,
    queue_deadline_at: null,
    active_at: SINCE,
    idle_since: SINCE,
    reap_deadline_at: SINCE + 9,
    ...changes,
  };
};

const told = (deadline: Deadline<{ action: string; reap_reason?: string }> | null) =>
  deadline === null ? null : [deadline.at, deadline.reason.reap_reason ?? deadline.reason.action];

describe('the deadline of a lease', () => {
  const ROWS: Record<LeaseState, Record<LeaseMode, [number, string] | null>> = {
    queued: { attached: [SINCE + TTL, 'heartbeat_lost'], detached: null },
    provisioning: {
      attached: [SINCE + TTL, 'heartbeat_lost'],
      detached: [SINCE + BOUNDS.detachedProvisionMs, 'host_lost'],
    },
    active: { attached: [SINCE + TTL, 'heartbeat_lost'], detached: [SINCE + IDLE, 'idle_ttl'] },
    idle: { attached: [SINCE + IDLE, 'idle_ttl'], detached: [SINCE + IDLE, 'idle_ttl'] },
    reaping: { attached: [SINCE + 9, 'give_up_reap'], detached: [SINCE + 9, 'give_up_reap'] },
    reap_failed: { attached: null, detached: null },
    reaped: { attached: null, detached: null },
  };
  for (const state of LEASE_STATES) {
    for (const mode of ['attached', 'detached'] as const) {
      test(`${mode}, ${state}: ${ROWS[state][mode]?.join(', ') ?? 'none'}`, () => {
        expect(told(leaseDeadline(lease(state, mode), unseen))).toEqual(ROWS[state][mode]);
      });
    }
  }

  for (const mode of ['attached', 'detached'] as const) {
    test(`in the queue, ${mode}, is its queue deadline where that comes first`, () => {
      const queued = lease('queued', mode, { queue_deadline_at: SINCE + 10 });
      expect(told(leaseDeadline(queued, unseen))).toEqual([SINCE + 10, 'queue_deadline']);
    });
  }

  test('moves with what was last heard of its owner, never back behind its own state', () => {
    expect(told(leaseDeadline(lease('active', 'attached'), () => SINCE + 7))).toEqual([
      SINCE + 7 + TTL,
      'heartbeat_lost',
    ]);
    expect(told(leaseDeadline(lease('active', 'detached'), () => SINCE + 7))).toEqual([SINCE + 7 + IDLE, 'idle_ttl']);
    expect(told(leaseDeadline(lease('active', 'attached'), () => 5))).toEqual([SINCE + TTL, 'heartbeat_lost']);
  });

  test('once idle does not move with a touch', () => {
    expect(told(leaseDeadline(lease('idle', 'attached'), () => SINCE + 400))).toEqual([SINCE + IDLE, 'idle_ttl']);
  });

  test('by hard TTL leaves the client one TTL to end its command itself', () => {
    const hard = lease('active', 'attached', { hard_ttl_ms: 100, ttl_ms: TTL });
    expect(told(leaseDeadline(hard, () => SINCE + 150))).toEqual([SINCE + 100 + TTL, 'hard_ttl']);
  });

  test('while provisioning detached never comes before its idle TTL', () => {
    const long = lease('provisioning', 'detached', { idle_ttl_ms: 3 * BOUNDS.detachedProvisionMs });
    expect(told(leaseDeadline(long, unseen))).toEqual([SINCE + 3 * BOUNDS.detachedProvisionMs, 'host_lost']);
  });
});

describe('the deadline of a job', () => {
  const job = (state: 'open' | 'claimed' | 'waiting') => ({
    job_id: 'j',
    kind: 'reap_stack' as const,
    lease_id: 'l',
    host_id: 'h',
    state,
    job_token: 1,
    claimed_by: 'x',
    claimed_at: SINCE,
    attempts: 1,
    not_before: SINCE + 5,
    opened_at: 0,
  });
  test('open: none', () => expect(jobDeadline(job('open'), unseen)).toBeNull());
  test('claimed: the claim TTL after the last renewal', () => {
    const at = SINCE + BOUNDS.jobClaimTtlMs;
    expect(jobDeadline(job('claimed'), unseen)).toEqual({ at, reason: 'claim_lapsed', graced: true });
    expect(jobDeadline(job('claimed'), () => SINCE + 3)?.at).toBe(at + 3);
  });
  test('waiting: its next try', () => {
    expect(jobDeadline(job('waiting'), unseen)).toEqual({ at: SINCE + 5, reason: 'retry', graced: false });
  });
});

describe('the deadline of a wait', () => {
  const wait = (deadline_at: number, timers: number[], matched: number[] = []) => ({
    wait_session_id: 'w',
    tenant: 't',
    principal: 'p',
    agent: 'a',
    conditions: timers.map((at) => ({ type: 'timer' as const, at })),
    mode: 'all' as const,
    deadline_at,
    registered_at: SINCE,
    cursor_start: 1,
    matched: matched.map((condition) => ({ condition, seq: 1, subject: 'timer' })),
  });
  const rows: readonly [string, ReturnType<typeof wait>, number, string][] = [
    ['the earliest timer', wait(SINCE + 900, [SINCE + 50, SINCE + 20]), SINCE + 20, 'timer'],
    ['the next timer once the first matched', wait(SINCE + 900, [SINCE + 50, SINCE + 20], [1]), SINCE + 50, 'timer'],
    ['its own deadline', wait(SINCE + 10, [SINCE + 50]), SINCE + 10, 'deadline'],
    ['abandonment', wait(SINCE + 1e9, [SINCE + 1e9]), SINCE + BOUNDS.waitAbandonedAfterMs, 'abandoned'],
  ];
  for (const [name, of, at, reason] of rows) {
    test(`is ${name} where that comes first`, () => {
      expect(waitDeadline(of, unseen)).toMatchObject({ at, reason, graced: reason !== 'timer' });
    });
  }
});

describe('the next deadline', () => {
  test('of an empty state is none', () => expect(nextDeadline(emptyState())).toBeNull());
  test('names what it is about', () => {
    const machine = new Machine();
    const lease = machine.request('a');
    expect(nextDeadline(machine.state)).toEqual({ at: machine.now + lease.ttl_ms, reason: `lease ${lease.lease_id}` });
  });
});

import { describe, expect, test } from 'bun:test';
import { LEASE_MOVES, type LeaseMove, RELEASE_ACTION, SLOT_ANSWER, TOUCH_ANSWER } from '../../src/core/lease-table.ts';
import { LEASE_STATES, type Lease, type LeaseState } from '../../src/core/model.ts';
import { BY, Machine, statementOf } from './machine.ts';

/** The edges of the design's table of lease states; whatever is not listed must be impossible. */
const EDGES: readonly (readonly [LeaseState, LeaseMove, LeaseState])[] = [
  ['queued', 'grant', 'provisioning'],
  ['queued', 'reap', 'reaping'],
  ['provisioning', 'activate', 'active'],
  ['provisioning', 'defer', 'queued'],
  ['provisioning', 'reap', 'reaping'],
  ['active', 'idle', 'idle'],
  ['active', 'reap', 'reaping'],
  ['idle', 'readopt', 'provisioning'],
  ['idle', 'reap', 'reaping'],
  ['reaping', 'reaped', 'reaped'],
  ['reaping', 'reap_failed', 'reap_failed'],
  ['reap_failed', 'reap', 'reaping'],
];

describe('the moves of a lease', () => {
  for (const state of LEASE_STATES) {
    for (const move of Object.keys(LEASE_MOVES[state]) as LeaseMove[]) {
      const edge = EDGES.find(([from, by]) => from === state && by === move);
      test(`${state} on ${move}: ${edge?.[2] ?? 'impossible'}`, () => {
        expect(LEASE_MOVES[state][move]).toBe(edge?.[2] ?? 'impossible');
      });
    }
  }

  test('every state but reaped has a way out', () => {
    const stuck = LEASE_STATES.filter((state) => Object.values(LEASE_MOVES[state]).every((to) => to === 'impossible'));
    expect(stuck).toEqual(['reaped']);
  });
});

/** One lease of `slot` brought into a state through inputs alone. */
const BRING: Record<LeaseState, (machine: Machine) => Lease> = {
  queued: (machine) => {
    machine.active('other', { units: 2 });
    return machine.request('slot');
  },
  provisioning: (machine) => machine.request('slot'),
  active: (machine) => machine.active('slot'),
  idle: (machine) => machine.idle('slot'),
  reaping: (machine) => {
    const lease = machine.active('slot');
    machine.release(lease, 'reap');
    return lease;
  },
  reap_failed: (machine) => {
    const lease = machine.active('slot');
    machine.release(lease, 'reap');
    return machine.failReap(lease);
  },
  reaped: (machine) => {
    const lease = machine.active('slot');
    machine.release(lease, 'reap');
    return machine.reap(lease);
  },
};

function inState(state: LeaseState): { machine: Machine; lease: Lease } {
  const machine = new Machine();
  machine.host(2);
  const lease = BRING[state](machine);
  expect(lease.state).toBe(state);
  return { machine, lease };
}

describe('a touch', () => {
  const ANSWERS: Record<LeaseState, 'renewed' | 'fenced'> = {
    queued: 'renewed',
    provisioning: 'renewed',
    active: 'renewed',
    idle: 'fenced',
    reaping: 'fenced',
    reap_failed: 'fenced',
    reaped: 'fenced',
  };
  for (const state of LEASE_STATES) {
    test(`of a lease in ${state} is ${ANSWERS[state]}`, () => {
      expect(TOUCH_ANSWER[state]).toBe(ANSWERS[state]);
      const { machine, lease } = inState(state);
      const answer = machine.submit('touch_lease', { lease_id: lease.lease_id, by: BY, fencing_token: null });
      expect(answer.ok).toBe(ANSWERS[state] === 'renewed');
      if (!answer.ok) expect(answer.refusal.code).toBe(state === 'reaped' ? 'LEASE_NOT_FOUND' : 'LEASE_LOST');
      expect(answer.events).toEqual([]);
    });
  }
});

describe('a release', () => {
  const ACTIONS: Record<LeaseState, [idle: string, idleState: LeaseState, reap: string, reapState: LeaseState]> = {
    queued: ['reap', 'reaped', 'reap', 'reaped'],
    provisioning: ['reap', 'reaped', 'reap', 'reaped'],
    active: ['go_idle', 'idle', 'reap', 'reaping'],
    idle: ['keep', 'idle', 'reap', 'reaping'],
    reaping: ['keep', 'reaping', 'keep', 'reaping'],
    reap_failed: ['keep', 'reap_failed', 'retry_reap', 'reaping'],
    reaped: ['keep', 'reaped', 'keep', 'reaped'],
  };
  for (const state of LEASE_STATES) {
    const [idleAction, idleState, reapAction, reapState] = ACTIONS[state];
    for (const [how, action, after] of [
      ['idle', idleAction, idleState],
      ['reap', reapAction, reapState],
    ] as const) {
      test(`${how} of a lease in ${state}: ${action}, so it is ${after}`, () => {
        expect(RELEASE_ACTION[state][how] as string).toBe(action);
        const { machine, lease } = inState(state);
        const reply = machine.release(lease, how);
        expect(machine.lease(lease.lease_id).state).toBe(after);
        expect(reply.changed).toBe(action !== 'keep');
        expect(reply.retried).toBe(action === 'retry_reap');
        expect(reply.budget_reset).toBe(action === 'retry_reap');
      });
    }
  }
});

describe('a request for a slot', () => {
  const LIVE = LEASE_STATES.filter((state) => state !== 'reaped');
  const OWN: Record<(typeof LIVE)[number], string> = {
    queued: 'STACK_CONTEXT_ALREADY_BOUND',
    provisioning: 'STACK_CONTEXT_ALREADY_BOUND',
    active: 'STACK_CONTEXT_ALREADY_BOUND',
    idle: 'readopted',
    reaping: 'SLOT_REAPING',
    reap_failed: 'SLOT_REAPING',
  };
  for (const state of LIVE) {
    test(`whose own lease is ${state}: ${OWN[state]}`, () => {
      const { machine, lease } = inState(state);
      const answer = machine.submit('request_lease', { request: machine.asking('slot', { blocks: lease.blocks }) });
      expect(answer.ok).toBe(OWN[state] === 'readopted');
      if (answer.ok) {
        expect(SLOT_ANSWER[state].own).toBe('readopt');
        expect(answer.reply).toMatchObject({
          reused: 'idle',
          lease: { lease_id: lease.lease_id, state: 'provisioning' },
        });
      } else {
        expect(answer.refusal.code).toBe(OWN[state]);
        const { lease_id, claim_token } = lease;
        expect(answer.refusal.fields).toMatchObject({ lease_id, state, own: true, claim_token });
      }
    });

    test(`that another agent holds in ${state}: SLOT_HELD, naming the lease and since when`, () => {
      const { machine, lease } = inState(state);
      expect(SLOT_ANSWER[state].other).toBe('held');
      const refusal = machine.refused('request_lease', { request: machine.asking('slot', { agent: 'someone else' }) });
      expect(refusal.code).toBe('SLOT_HELD');
      expect(refusal.fields).toMatchObject({ lease_id: lease.lease_id, state, since: lease.since, own: false });
      expect(refusal.fields).not.toHaveProperty('claim_token');
    });
  }

  test('whose last lease is reaped gets a new lease', () => {
    const { machine, lease } = inState('reaped');
    expect(machine.request('slot').lease_id).not.toBe(lease.lease_id);
  });
});

describe('the way out of every state', () => {
  for (const state of LEASE_STATES) {
    test(`a lease in ${state} whose owner asks for its end is reaped once a Helper proves it`, () => {
      const { machine, lease } = inState(state);
      machine.release(lease, 'reap');
      const now = machine.lease(lease.lease_id);
      if (now.state === 'reaping') {
        machine.ask('complete_job', {
          ...machine.claim(now),
          connection: null,
          reprovisioned: null,
          statement: statementOf(now),
        });
      }
      expect(machine.lease(lease.lease_id).state).toBe('reaped');
      expect(machine.state.index.leaseBySlot.has('slot')).toBe(false);
    });
  }

  for (const mode of ['attached', 'detached'] as const) {
    for (const state of ['queued', 'provisioning', 'active', 'idle'] as const) {
      test(`a ${mode} lease in ${state} that nobody ever speaks of again does not stay`, () => {
        const machine = new Machine();
        machine.host(2);
        if (state === 'queued') machine.active('other', { units: 2, mode: 'detached', idle_ttl_ms: 90_000_000 });
        const bring = { queued: 'request', provisioning: 'request', active: 'active', idle: 'idle' } as const;
        const lease = machine[bring[state]]('slot', { mode });
        expect(lease.state).toBe(state);
        machine.pass(4_000_000);
        expect(['reaping', 'reaped', 'reap_failed']).toContain(machine.lease(lease.lease_id).state);
      });
    }
  }
});

import { describe, expect, test } from 'bun:test';
import { type AdmissionVerdict, judgeAdmission, rankedQueue, unitsTaken } from '../../src/core/admission.ts';
import { BOUNDS } from '../../src/core/bounds.ts';
import { type Host, LEASE_STATES, type Lease, UNIT_HOLDING } from '../../src/core/model.ts';
import { HOST, Machine } from './machine.ts';

const stateOf = (machine: Machine, lease: Lease) => machine.lease(lease.lease_id).state;

describe('the rule of capacity', () => {
  const host = (units: number, ready = true) => ({ capacity_units: units, ready }) as Host;
  const rows: readonly [string, number, Host | undefined, number, AdmissionVerdict][] = [
    ['an unknown host is starting', 1, undefined, 0, 'host_starting'],
    ['a host before its first beacon is starting', 1, host(4, false), 0, 'host_starting'],
    ['more than the host has in all is over capacity', 5, host(4), 0, 'over_capacity'],
    ['what fits is admitted', 1, host(4), 3, 'admit'],
    ['what just fills the host is admitted', 4, host(4), 0, 'admit'],
    ['one unit too many waits', 2, host(4), 3, 'capacity'],
    ['a full host makes wait', 1, host(4), 4, 'capacity'],
    ['a host that shrank under its leases makes wait', 1, host(2), 4, 'capacity'],
  ];
  for (const [name, units, of, taken, verdict] of rows) {
    test(name, () => expect(judgeAdmission({ units } as Lease, of, taken)).toBe(verdict));
  }

  test('every state between grant and proof holds its units, no other does', () => {
    const holding = LEASE_STATES.filter((state) => UNIT_HOLDING[state]);
    expect(holding).toEqual(['provisioning', 'active', 'idle', 'reaping', 'reap_failed']);
  });
});

describe('the queue', () => {
  test('grants in the order of arrival', () => {
    const machine = new Machine();
    machine.host(1);
    const holder = machine.active('holder');
    const waiting = ['a', 'b', 'c'].map((slot) => machine.request(slot));
    machine.release(holder, 'reap');
    machine.reap(holder);
    expect(waiting.map((lease) => stateOf(machine, lease))).toEqual(['provisioning', 'queued', 'queued']);
  });

  test('grants a higher priority before an earlier arrival', () => {
    const machine = new Machine();
    machine.host(1);
    const holder = machine.active('holder');
    const early = machine.request('early');
    const urgent = machine.request('urgent', { priority: 3 });
    machine.release(holder, 'reap');
    machine.reap(holder);
    expect([stateOf(machine, early), stateOf(machine, urgent)]).toEqual(['queued', 'provisioning']);
  });

  test('ages: who waited longer than the priority is worth goes first, and the order never flips meanwhile', () => {
    const machine = new Machine();
    machine.host(1);
    machine.active('holder', { mode: 'detached', idle_ttl_ms: 1e9 });
    const patient = machine.request('patient', { mode: 'detached', queue_timeout_ms: 1e9 });
    machine.pass(3 * BOUNDS.ageingStepMs + 1_000);
    const urgent = machine.request('urgent', { mode: 'detached', queue_timeout_ms: 1e9, priority: 3 });
    const more = machine.request('more', { mode: 'detached', queue_timeout_ms: 1e9, priority: 4 });
    for (let i = 0; i < 20; i += 1) {
      const order = rankedQueue(machine.state, HOST).map((lease) => lease.lease_id);
      expect(order).toEqual([more.lease_id, patient.lease_id, urgent.lease_id]);
      machine.pass(BOUNDS.ageingStepMs / 7);
    }
  });

  test('a holder that asks again goes behind those who wait', () => {
    const machine = new Machine();
    machine.host(1);
    const first = machine.active('a');
    const other = machine.request('b');
    machine.release(first, 'reap');
    machine.reap(first);
    const again = machine.request('a');
    expect([stateOf(machine, other), stateOf(machine, again)]).toEqual(['provisioning', 'queued']);
    machine.provision(other);
    machine.release(other, 'reap');
    machine.reap(other);
    expect(stateOf(machine, again)).toBe('provisioning');
  });

  test('a large lease that is next holds back the small ones behind it', () => {
    const machine = new Machine();
    machine.host(4);
    const a = machine.active('a', { units: 2 });
    const b = machine.active('b', { units: 1 });
    const large = machine.request('large', { units: 4 });
    const small = machine.request('small', { units: 1 });
    expect([stateOf(machine, large), stateOf(machine, small)]).toEqual(['queued', 'queued']);
    for (const lease of [a, b]) {
      machine.release(lease, 'reap');
      machine.reap(lease);
    }
    expect([stateOf(machine, large), stateOf(machine, small)]).toEqual(['provisioning', 'queued']);
  });

  test('a lease larger than a host that shrank holds nobody back and ends by its deadline', () => {
    const machine = new Machine();
    machine.host(4);
    const holder = machine.active('holder', { mode: 'detached', units: 3 });
    const large = machine.request('large', { mode: 'detached', units: 4, queue_timeout_ms: 500_000 });
    const small = machine.request('small', { mode: 'detached', units: 1, queue_timeout_ms: 1e9 });
    machine.host(3, { incarnation: 'helper-2' });
    expect(stateOf(machine, small)).toBe('queued');
    machine.release(holder, 'reap');
    machine.ask('complete_job', {
      ...machine.claim(holder, 'helper-2'),
      connection: null,
      reprovisioned: null,
      statement: null,
    });
    machine.pass(1e6);
    expect(machine.lease(large.lease_id)).toMatchObject({ state: 'reaped', reap_reason: 'queue_deadline' });
  });

  test('a host that shrinks under its leases grants nothing until it has room, and evicts nobody', () => {
    const machine = new Machine();
    machine.host(3);
    const held = ['a', 'b', 'c'].map((slot) => machine.active(slot));
    machine.ask('host_beacon', { host_id: HOST, incarnation: 'helper-1', capacity_units: 1 });
    const waiting = machine.request('d');
    expect(held.map((lease) => stateOf(machine, lease))).toEqual(['active', 'active', 'active']);
    for (const [freed, lease] of held.entries()) {
      expect(stateOf(machine, waiting)).toBe('queued');
      machine.release(lease, 'reap');
      machine.reap(lease);
      expect(unitsTaken(machine.state, HOST)).toBe(freed === 2 ? 1 : 2 - freed);
    }
    expect(stateOf(machine, waiting)).toBe('provisioning');
  });

  test('nothing is granted before the first beacon of a Helper, and all that fits after it', () => {
    const machine = new Machine();
    const before = machine.request('a');
    machine.host(2, { beacon: false });
    const between = machine.request('b');
    expect([stateOf(machine, before), stateOf(machine, between)]).toEqual(['queued', 'queued']);
    machine.ask('host_beacon', { host_id: HOST, incarnation: 'helper-1', capacity_units: 2 });
    expect([stateOf(machine, before), stateOf(machine, between)]).toEqual(['provisioning', 'provisioning']);
  });

  test('hosts have queues of their own', () => {
    const machine = new Machine();
    machine.host(1);
    machine.host(1, { host_id: 'host-2' });
    machine.active('a');
    expect(stateOf(machine, machine.request('b'))).toBe('queued');
    expect(stateOf(machine, machine.request('c', { host_id: 'host-2' }))).toBe('provisioning');
  });

  test('units of a lease that is being reaped, or whose reap failed, stay taken', () => {
    const machine = new Machine();
    machine.host(1);
    const first = machine.active('a');
    const next = machine.request('b', { mode: 'detached' });
    machine.release(first, 'reap');
    expect(stateOf(machine, next)).toBe('queued');
    machine.failReap(first);
    expect([stateOf(machine, first), stateOf(machine, next)]).toEqual(['reap_failed', 'queued']);
    machine.release(first, 'reap');
    machine.reap(first);
    expect(stateOf(machine, next)).toBe('provisioning');
  });
});

describe('idle stacks', () => {
  test('make room for a ranked lease, the oldest first, no more of them than it needs', () => {
    const machine = new Machine();
    machine.host(3);
    const idle = ['a', 'b', 'c'].map((slot) => {
      machine.now += 1_000;
      return machine.idle(slot);
    });
    machine.request('wants', { units: 2 });
    expect(idle.map((lease) => stateOf(machine, lease))).toEqual(['reaping', 'reaping', 'idle']);
    expect(machine.lease('lease-1').reap_reason).toBe('preempted_idle');
  });

  test('are left alone by a second lease that wants what is already on its way out', () => {
    const machine = new Machine();
    machine.host(2);
    const [a, b] = [machine.idle('a'), machine.idle('b')];
    machine.request('c');
    expect([stateOf(machine, a), stateOf(machine, b)]).toEqual(['reaping', 'idle']);
    machine.request('d');
    expect([stateOf(machine, a), stateOf(machine, b)]).toEqual(['reaping', 'idle']);
    machine.reap(a);
    expect([stateOf(machine, a), stateOf(machine, b)]).toEqual(['reaped', 'reaping']);
  });

  test('whose reap fails are quarantined, and the next one is taken', () => {
    const machine = new Machine();
    machine.host(2);
    const [a, b] = [machine.idle('a'), machine.idle('b')];
    machine.request('c', { mode: 'detached' });
    machine.failReap(a);
    expect([stateOf(machine, a), stateOf(machine, b)]).toEqual(['reap_failed', 'reaping']);
  });

  test('keep the disposition of their release when they are preempted', () => {
    const machine = new Machine();
    machine.host(1);
    const lease = machine.active('a');
    machine.release(lease, 'idle', { disposition: 'stop' });
    machine.request('b');
    expect(machine.lease(lease.lease_id)).toMatchObject({ state: 'reaping', reap_disposition: 'stop' });
  });

  test('are preempted at once when they become idle while somebody waits', () => {
    const machine = new Machine();
    machine.host(1);
    const lease = machine.active('a');
    machine.request('b');
    machine.release(lease, 'idle');
    expect(machine.lease(lease.lease_id)).toMatchObject({ state: 'reaping', reap_reason: 'preempted_idle' });
  });

  test('are not touched for a lease that fits beside them', () => {
    const machine = new Machine();
    machine.host(2);
    const idle = machine.idle('a');
    expect(stateOf(machine, machine.request('b'))).toBe('provisioning');
    expect(stateOf(machine, idle)).toBe('idle');
  });
});

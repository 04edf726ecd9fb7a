import { describe, expect, test } from 'bun:test';
import { hasAnythingAlive, hostLedger, leaseView } from '../../src/core/views.ts';
import { HOST, Machine } from './machine.ts';

const standing = (machine: Machine, leaseId: string) => {
  const view = leaseView(machine.state, machine.lease(leaseId));
  return [view.queue_position, view.queue_reason];
};

describe('the place in the queue', () => {
  test('counts from one in the order of rank, and is null outside the queue', () => {
    const machine = new Machine();
    machine.host(1);
    const holder = machine.active('a');
    const [b, c] = [machine.request('b'), machine.request('c', { priority: 5 })];
    expect(standing(machine, holder.lease_id)).toEqual([null, null]);
    expect(standing(machine, c.lease_id)).toEqual([1, 'capacity']);
    expect(standing(machine, b.lease_id)).toEqual([2, 'capacity']);
  });

  test('is null with a reason while the host starts', () => {
    const machine = new Machine();
    const lease = machine.request('a');
    expect(standing(machine, lease.lease_id)).toEqual([null, 'host_starting']);
  });

  test('is null for what the host can never hold, and nobody stands behind that', () => {
    const machine = new Machine();
    machine.host(3);
    machine.active('a', { units: 2 });
    const large = machine.request('large', { units: 3, mode: 'detached' });
    const small = machine.request('small', { units: 2, mode: 'detached' });
    machine.ask('host_beacon', { host_id: HOST, incarnation: 'helper-1', capacity_units: 2 });
    expect(standing(machine, large.lease_id)).toEqual([null, 'over_capacity']);
    expect(standing(machine, small.lease_id)).toEqual([1, 'capacity']);
  });
});

describe('the view of a lease', () => {
  test('leaves the judgement of its cleanup out until there is one', () => {
    const machine = new Machine();
    machine.host(1);
    const lease = machine.active('a');
    machine.release(lease, 'reap');
    expect(leaseView(machine.state, machine.lease(lease.lease_id))).not.toHaveProperty('cleanup_verified');
    machine.reap(lease);
    expect(leaseView(machine.state, machine.lease(lease.lease_id))).toMatchObject({
      cleanup_verified: true,
      cleanup_proof: 'signed_reap',
      last_reap_outcome: 'succeeded',
      host_key: HOST,
    });
  });
});

describe('the ledger of a host', () => {
  test('tells who holds its units since when, and of other tenants no names', () => {
    const machine = new Machine();
    machine.host(3);
    const own = machine.active('a');
    machine.now += 1_000;
    machine.active('b', { tenant: 'others', units: 2 });
    machine.request('c', { units: 3 });
    const ledger = hostLedger(machine.state, HOST, 'local');
    expect(ledger).toMatchObject({
      host_key: HOST,
      capacity_units: 3,
      verdict: 'HOST_CAPACITY_WAIT',
      capacity: { free_slots: 0, budget_free_slots: 0 },
      queued: 1,
    });
    expect(ledger?.leases).toEqual([
      expect.objectContaining({ lease_id: own.lease_id, slot: 'a', project: 'bb-a', tenant_id: 'local', units: 1 }),
      expect.objectContaining({ lease_id: null, slot: null, project: null, tenant_id: 'others', units: 2 }),
    ]);
  });

  test('of an unknown host is none, of a starting one says so, and free units are never negative', () => {
    const machine = new Machine();
    expect(hostLedger(machine.state, HOST, 'local')).toBeNull();
    machine.host(2);
    machine.active('a', { units: 2 });
    machine.host(1, { incarnation: 'helper-2', beacon: false });
    expect(hostLedger(machine.state, HOST, 'local')).toMatchObject({
      verdict: 'HOST_STARTING',
      capacity: { free_slots: 0 },
    });
  });
});

describe('what keeps a coordinator up', () => {
  test('any lease, idle ones too, and any wait; nothing else', () => {
    const machine = new Machine();
    machine.host(1);
    expect(hasAnythingAlive(machine.state)).toBe(false);
    const lease = machine.idle('a');
    expect(hasAnythingAlive(machine.state)).toBe(true);
    machine.release(lease, 'reap');
    machine.reap(lease);
    expect(hasAnythingAlive(machine.state)).toBe(false);
    machine.wait('w', [{ type: 'timer', at: machine.now + 1_000 }]);
    expect(hasAnythingAlive(machine.state)).toBe(true);
  });
});

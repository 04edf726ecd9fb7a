import { describe, expect, test } from 'bun:test';
import { BOUNDS } from '../../src/core/bounds.ts';
import { nextDeadline } from '../../src/core/deadlines.ts';
import { Machine } from './machine.ts';

function machineWith(units: number): Machine {
  const machine = new Machine();
  machine.host(units);
  return machine;
}

describe('a tick', () => {
  test('before any deadline changes nothing', () => {
    const machine = machineWith(1);
    machine.active('a');
    machine.now += 59_999;
    expect(machine.submit('tick', {}).events).toEqual([]);
  });

  test('takes a lease whose owner fell silent to reaping, with the reason', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.pass(lease.ttl_ms);
    expect(machine.lease(lease.lease_id)).toMatchObject({ state: 'reaping', reap_reason: 'heartbeat_lost' });
  });

  test('spares a lease whose owner was heard of, until a TTL after that', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.pass(50_000);
    machine.see('lease', lease.lease_id);
    machine.pass(59_999);
    expect(machine.lease(lease.lease_id).state).toBe('active');
    machine.pass(1);
    expect(machine.lease(lease.lease_id).state).toBe('reaping');
  });

  test('that comes late does all that is overdue, each once', () => {
    const machine = machineWith(3);
    const leases = ['a', 'b', 'c'].map((slot) => machine.active(slot));
    machine.now += 1e8;
    expect(machine.ask('tick', {}).fired).toBe(3);
    for (const lease of leases) expect(machine.lease(lease.lease_id).reap_reason).toBe('heartbeat_lost');
    expect(machine.ask('tick', {}).fired).toBe(0);
  });

  test('with a clock that went back does nothing and keeps the time of the log', () => {
    const machine = machineWith(1);
    machine.active('a');
    const { at } = machine.state;
    machine.now -= 1e7;
    expect(machine.submit('tick', {}).events).toEqual([]);
    expect(machine.request('b').requested_at).toBe(at);
  });

  test('never leaves a deadline behind that would fire again at once', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.now += lease.ttl_ms;
    machine.see('lease', lease.lease_id);
    machine.ask('tick', {});
    expect(nextDeadline(machine.state)?.at).toBe(machine.now + lease.ttl_ms);
  });
});

describe('the grace after a downtime, a jump of the clock or a suspend', () => {
  const after = (machine: Machine, ms: number, grace: number) => {
    machine.now += ms;
    machine.graceUntil = machine.now + grace;
    machine.ask('tick', {});
  };

  test('spares leases, jobs and waits until it ends', () => {
    const machine = machineWith(2);
    const lease = machine.active('a');
    const provisioning = machine.request('b');
    const held = machine.claim(provisioning);
    machine.wait('w', [{ type: 'lease', lease_id: lease.lease_id, state: 'reaped' }]);
    after(machine, 1e8, 60_000);
    expect(machine.lease(lease.lease_id).state).toBe('active');
    expect(machine.jobOf(provisioning).job_token).toBe(held.job_token);
    expect(machine.state.waits.has('w')).toBe(true);
    machine.pass(59_999);
    expect(machine.lease(lease.lease_id).state).toBe('active');
    machine.pass(1);
    expect(machine.lease(lease.lease_id)).toMatchObject({ state: 'reaping', reap_reason: 'heartbeat_lost' });
    expect(machine.endOf('w')?.outcome).toBe('abandoned');
  });

  test('is enough for an owner that comes back', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    after(machine, 24 * 3_600_000, 60_000);
    machine.pass(30_000);
    machine.see('lease', lease.lease_id);
    machine.pass(59_000);
    expect(machine.lease(lease.lease_id).state).toBe('active');
  });

  test('spares the deadline of a reap', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.release(lease, 'reap');
    after(machine, BOUNDS.reapDeadlineMs + 1, 60_000);
    expect(machine.lease(lease.lease_id).state).toBe('reaping');
    expect(machine.reap(lease).state).toBe('reaped');
  });

  test('does not hold back a timer or the next try of a reap', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.release(lease, 'reap');
    machine.ask('fail_job', { ...machine.claim(lease), error: 'x', error_class: 'x', statement: null });
    machine.wait('w', [{ type: 'timer', at: machine.now + 1_000 }]);
    after(machine, 10_000, 60_000);
    expect(machine.jobOf(lease).state).toBe('open');
    expect(machine.endOf('w')?.outcome).toBe('matched');
  });
});

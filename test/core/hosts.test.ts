import { describe, expect, test } from 'bun:test';
import { HOST, Machine } from './machine.ts';

const register = (changes: object = {}) => ({
  host_id: HOST,
  host_key: HOST,
  capacity_units: 2,
  protocol_version: 4,
  helper_version: '1.0.0',
  incarnation: 'helper-1',
  key_id: 'key-1',
  public_key: 'public-1',
  ...changes,
});

describe('a host', () => {
  test('that registers again in the same life changes nothing', () => {
    const machine = new Machine();
    machine.host(2);
    expect(machine.submit('register_host', register()).events).toEqual([]);
    expect(machine.state.hosts.get(HOST)?.ready).toBe(true);
  });

  test('whose Helper starts anew is closed until its first beacon, and the old life may do nothing more', () => {
    const machine = new Machine();
    machine.host(2);
    machine.ask('register_host', register({ incarnation: 'helper-2' }));
    expect(machine.state.hosts.get(HOST)?.ready).toBe(false);
    expect(machine.request('a').state).toBe('queued');
    const old = machine.refused('host_beacon', { host_id: HOST, incarnation: 'helper-1', capacity_units: 2 });
    expect(old.code).toBe('HELPER_SUPERSEDED');
    machine.ask('host_beacon', { host_id: HOST, incarnation: 'helper-2', capacity_units: 2 });
    expect(machine.lease('lease-1').state).toBe('provisioning');
  });

  test('whose Helper starts anew takes back the jobs of the old life only', () => {
    const machine = new Machine();
    machine.host(2);
    machine.host(2, { host_id: 'host-2' });
    const here = machine.request('a');
    const there = machine.request('b', { host_id: 'host-2' });
    const mine = machine.claim(here);
    const foreign = machine.claim(there);
    machine.host(2, { incarnation: 'helper-2' });
    expect(machine.jobOf(here)).toMatchObject({ state: 'open', job_token: null });
    expect(machine.jobOf(there)).toMatchObject({ state: 'claimed', job_token: foreign.job_token });
    expect(machine.claim(here, 'helper-2').job_token).toBeGreaterThan(mine.job_token);
  });

  test('keeps its old keys and never changes one', () => {
    const machine = new Machine();
    machine.host(2);
    machine.ask('register_host', register({ incarnation: 'helper-2', key_id: 'key-2', public_key: 'public-2' }));
    expect(machine.state.hosts.get(HOST)?.keys).toEqual({ 'key-1': 'public-1', 'key-2': 'public-2' });
    const forged = register({ incarnation: 'helper-3', key_id: 'key-1', public_key: 'forged' });
    expect(machine.refused('register_host', forged).code).toBe('HOST_KEY_MISMATCH');
    expect(machine.state.hosts.get(HOST)?.incarnation).toBe('helper-2');
  });

  test('that is unknown cannot beacon', () => {
    const machine = new Machine();
    const refusal = machine.refused('host_beacon', { host_id: HOST, incarnation: 'x', capacity_units: 1 });
    expect(refusal.code).toBe('HOST_NOT_FOUND');
  });

  test('a beacon that says nothing new is no event, a new capacity is one', () => {
    const machine = new Machine();
    machine.host(2);
    const beacon = (capacity_units: number) =>
      machine.submit('host_beacon', { host_id: HOST, incarnation: 'helper-1', capacity_units }).events.length;
    expect([beacon(2), beacon(3), beacon(3)]).toEqual([0, 1, 0]);
  });

  test('that grows admits at once', () => {
    const machine = new Machine();
    machine.host(1);
    machine.active('a');
    const waiting = machine.request('b');
    machine.ask('host_beacon', { host_id: HOST, incarnation: 'helper-1', capacity_units: 2 });
    expect(machine.lease(waiting.lease_id).state).toBe('provisioning');
  });
});

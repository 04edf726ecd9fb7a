import { describe, expect, test } from 'bun:test';
import { BY, Machine } from './machine.ts';

function activeOn(units = 1) {
  const machine = new Machine();
  machine.host(units);
  return { machine, lease: machine.active('slot') };
}

describe('giving a lease back', () => {
  test('to idle keeps its connection, units and ports and notes since when and why', () => {
    const { machine, lease } = activeOn();
    machine.now += 10_000;
    machine.release(lease, 'idle', { disposition: 'stop', idle_ttl_ms: 77_000, reason: 'run ended' });
    expect(machine.lease(lease.lease_id)).toMatchObject({
      state: 'idle',
      idle_since: machine.now,
      idle_reason: 'run ended',
      idle_ttl_ms: 77_000,
      reap_disposition: 'stop',
      connection: { host: '127.0.0.1' },
    });
  });

  test('to a reap says why and since when', () => {
    const { machine, lease } = activeOn();
    machine.release(lease, 'reap', { disposition: 'stop' });
    expect(machine.lease(lease.lease_id)).toMatchObject({
      state: 'reaping',
      reap_reason: 'released',
      reap_requested_at: machine.now,
      reap_disposition: 'stop',
    });
  });

  test('by an earlier command does not end the lease that a later one has taken over', () => {
    const { machine, lease } = activeOn();
    const earlier = lease.claim_token;
    machine.release(lease, 'idle');
    machine.request('slot', { blocks: lease.blocks });
    const now = machine.provision(machine.lease(lease.lease_id));
    for (const how of ['idle', 'reap'] as const) {
      const refusal = machine.refused('release_lease', {
        lease_id: lease.lease_id,
        by: BY,
        claim_token: earlier,
        how,
        disposition: 'destroy',
        idle_ttl_ms: null,
        reason: 'late',
        archived: null,
      });
      expect(refusal.code).toBe('OLD_GENERATION');
    }
    expect(machine.lease(lease.lease_id).state).toBe('active');
    machine.release(now, 'reap', { claim_token: now.claim_token });
    expect(machine.lease(lease.lease_id).state).toBe('reaping');
  });

  test('of a predecessor, by the invocation that a refusal named, spares who took it over meanwhile', () => {
    const { machine, lease } = activeOn();
    machine.release(lease, 'idle');
    const asked = machine.asking('slot', { blocks: [{ port_base: 25_000, size: 20 }] });
    const { code, fields } = machine.refused('request_lease', { request: asked });
    expect(code).toBe('IDLE_STACK_DIFFERS');
    machine.request('slot', { blocks: lease.blocks });
    const late = machine.submit('release_lease', {
      lease_id: lease.lease_id,
      by: BY,
      claim_token: String(fields['claim_token']),
      how: 'reap',
      disposition: 'destroy',
      idle_ttl_ms: null,
      reason: 'late',
      archived: null,
    });
    expect(late).toMatchObject({ ok: false, refusal: { code: 'OLD_GENERATION' } });
    expect(machine.lease(lease.lease_id).state).toBe('provisioning');
  });

  test('by a person who names the lease needs no claim token', () => {
    const { machine, lease } = activeOn();
    expect(machine.release(lease, 'reap', { claim_token: null }).changed).toBe(true);
  });

  test('again while it is reaped changes nothing and keeps the first reason', () => {
    const { machine, lease } = activeOn();
    machine.release(lease, 'idle');
    machine.pass(1_900_000);
    const seq = machine.state.seq;
    machine.release(lease, 'reap');
    expect(machine.state.seq).toBe(seq);
    expect(machine.lease(lease.lease_id).reap_reason).toBe('idle_ttl');
  });

  test('after a failed reap resets the budget, and the lease no longer says that its reap failed', () => {
    const { machine, lease } = activeOn();
    machine.release(lease, 'reap');
    machine.failReap(lease);
    expect(machine.lease(lease.lease_id)).toMatchObject({ state: 'reap_failed', last_reap_outcome: 'failed' });
    const reply = machine.release(lease, 'reap');
    expect(reply).toMatchObject({ retried: true, budget_reset: true, changed: true });
    expect(machine.lease(lease.lease_id)).toMatchObject({
      state: 'reaping',
      reap_failed_at: null,
      last_reap_outcome: null,
      reap_reason: 'released',
    });
    expect(machine.jobOf(lease)).toMatchObject({ kind: 'reap_stack', attempts: 0, state: 'open' });
    expect(machine.reap(lease).cleanup_verified).toBe(true);
  });

  test('that is reaped and archived answers with its end', () => {
    const { machine, lease } = activeOn();
    machine.release(lease, 'reap');
    machine.reap(lease);
    const reply = machine.release(lease, 'reap');
    expect(reply).toMatchObject({ changed: false, lease: { state: 'reaped', cleanup_proof: 'signed_reap' } });
  });

  const strangers = [
    { principal: 'owner', tenant: 'other' },
    { principal: 'other', tenant: 'local' },
  ];
  for (const by of strangers) {
    test(`of another is refused to ${by.principal} of tenant ${by.tenant}, archived or not`, () => {
      const { machine, lease } = activeOn();
      const ask = () =>
        machine.submit('release_lease', {
          lease_id: lease.lease_id,
          by,
          claim_token: null,
          how: 'reap',
          disposition: 'destroy',
          idle_ttl_ms: null,
          reason: 'mine',
          archived: machine.archived(lease.lease_id) ?? null,
        });
      expect(ask().ok).toBe(false);
      machine.release(lease, 'reap');
      machine.reap(lease);
      expect(ask()).toMatchObject({ ok: false, refusal: { code: 'LEASE_NOT_FOUND' } });
    });
  }
});

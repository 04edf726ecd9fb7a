import { describe, expect, test } from 'bun:test';
import { BOUNDS } from '../../src/core/bounds.ts';
import { proofWithoutLook } from '../../src/core/reaping.ts';
import { HOST, Machine, statementOf } from './machine.ts';

function machineWith(units: number): Machine {
  const machine = new Machine();
  machine.host(units);
  return machine;
}

describe('absence that is known without a look', () => {
  test('a lease whose job no Helper ever claimed was never provisioned', () => {
    const machine = machineWith(1);
    const lease = machine.request('a');
    expect(lease.state).toBe('provisioning');
    machine.release(lease, 'reap');
    expect(machine.lease(lease.lease_id)).toMatchObject({
      state: 'reaped',
      cleanup_verified: true,
      cleanup_proof: 'never_provisioned',
      cleanup_receipt_id: null,
    });
    expect(machine.state.jobs.size).toBe(0);
  });

  test('a claim by a Helper ends that for good, even when nothing was ever reported', () => {
    const machine = machineWith(1);
    const lease = machine.request('a');
    machine.claim(lease);
    machine.pass(50_000);
    machine.release(lease, 'reap');
    expect(machine.lease(lease.lease_id).state).toBe('reaping');
    expect(machine.jobOf(lease).kind).toBe('reap_stack');
  });

  test('a queued lease whose roll-back was proven is reaped by that receipt', () => {
    const machine = machineWith(1);
    const lease = machine.request('a');
    const held = machine.claim(lease);
    machine.host(1, { incarnation: 'helper-2', beacon: false });
    const again = machine.claim(lease, 'helper-2');
    expect(again.job_token).toBeGreaterThan(held.job_token);
    machine.ask('defer_job', { ...again, reason: 'draining', statement: statementOf(lease, { kind: 'rollback' }) });
    expect(machine.lease(lease.lease_id).state).toBe('queued');
    machine.release(lease, 'reap');
    expect(machine.lease(lease.lease_id)).toMatchObject({
      state: 'reaped',
      cleanup_proof: 'signed_reap',
      cleanup_receipt_id: `receipt-of-${lease.lease_id}`,
    });
  });

  test('the receipt of a roll-back is worth nothing after the next grant', () => {
    const machine = machineWith(1);
    const lease = machine.request('a');
    machine.ask('defer_job', {
      ...machine.claim(lease),
      reason: 'draining',
      statement: statementOf(lease, { kind: 'rollback' }),
    });
    const granted = machine.lease(lease.lease_id);
    expect(granted).toMatchObject({ state: 'provisioning', rollback_receipt_id: null });
    expect(proofWithoutLook(granted)).toBeNull();
    machine.release(granted, 'reap');
    expect(machine.lease(lease.lease_id).state).toBe('reaping');
  });

  for (const [state, claimed, receipt, proof] of [
    ['queued', false, null, 'never_provisioned'],
    ['provisioning', false, null, 'never_provisioned'],
    ['queued', true, 'r', 'signed_reap'],
    ['queued', true, null, null],
    ['provisioning', true, 'r', null],
    ['active', true, 'r', null],
    ['idle', true, 'r', null],
  ] as const) {
    test(`${state}, ${claimed ? '' : 'never '}claimed, ${receipt === null ? 'no receipt' : 'a receipt'}: ${proof}`, () => {
      const machine = machineWith(1);
      const lease = { ...machine.request('a'), state, ever_claimed: claimed, rollback_receipt_id: receipt };
      expect(proofWithoutLook(lease)?.proof ?? null).toBe(proof);
    });
  }
});

describe('the budget of a reap', () => {
  test('is a fixed number of tries with growing pauses, then the lease is fenced', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.release(lease, 'reap');
    for (let attempt = 1; attempt < BOUNDS.reapAttemptsMax; attempt += 1) {
      machine.ask('fail_job', { ...machine.claim(lease), error: 'engine', error_class: 'engine', statement: null });
      const job = machine.jobOf(lease);
      expect(job).toMatchObject({ state: 'waiting', attempts: attempt, job_token: null });
      expect(job.not_before).toBe(machine.now + BOUNDS.reapBackoffMs * attempt);
      machine.pass(BOUNDS.reapBackoffMs * attempt - 1);
      expect(machine.jobOf(lease).state).toBe('waiting');
      machine.pass(1);
      expect(machine.jobOf(lease)).toMatchObject({ state: 'open', attempts: attempt });
    }
    machine.ask('fail_job', { ...machine.claim(lease), error: 'last words', error_class: 'engine', statement: null });
    expect(machine.lease(lease.lease_id)).toMatchObject({
      state: 'reap_failed',
      last_reap_outcome: 'failed',
      reap_failed_at: machine.now,
      error: 'last words',
      error_class: 'engine',
    });
    expect(machine.lease(lease.lease_id).cleanup_verified).toBeUndefined();
    expect(machine.state.jobs.size).toBe(0);
  });

  test('has a deadline of its own, whatever its Helper does or does not do', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.release(lease, 'reap');
    machine.pass(BOUNDS.reapDeadlineMs - 1);
    expect(machine.lease(lease.lease_id).state).toBe('reaping');
    machine.pass(1);
    expect(machine.lease(lease.lease_id)).toMatchObject({ state: 'reap_failed', error_class: 'reap_deadline' });
  });

  test('a claim that lapses costs no try', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.release(lease, 'reap');
    machine.claim(lease);
    machine.pass(BOUNDS.jobClaimTtlMs);
    expect(machine.jobOf(lease)).toMatchObject({ state: 'open', attempts: 0 });
  });

  test('a fenced lease keeps units, slot and ports until a proof', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.release(lease, 'reap');
    machine.failReap(lease);
    machine.pass(1e9);
    expect(machine.lease(lease.lease_id).state).toBe('reap_failed');
    expect(machine.request('b').state).toBe('queued');
    const clash = machine.asking('c', { blocks: lease.blocks });
    expect(machine.refused('request_lease', { request: clash }).code).toBe('PORT_BLOCK_TAKEN');
  });
});

describe('a hand-back of a provision job', () => {
  test('with a proven roll-back keeps the place in the queue', () => {
    const machine = machineWith(1);
    const first = machine.request('a');
    machine.request('b');
    machine.ask('defer_job', {
      ...machine.claim(first),
      reason: 'draining',
      statement: statementOf(first, { kind: 'pre_driver' }),
    });
    const events = machine.typesSince(0);
    expect(events.slice(-4)).toEqual(['job_closed', 'lease_deferred', 'lease_granted', 'job_opened']);
    expect(machine.lease(first.lease_id).state).toBe('provisioning');
    expect(machine.lease(first.lease_id).fencing_token).toBeGreaterThan(0);
  });

  for (const [name, changes] of [
    ['without a statement', null],
    ['with an unproven one', { kind: 'rollback', looked_for: [] }],
    ['with one of an older grant', { kind: 'rollback', fencing_token: 0 }],
  ] as const) {
    test(`${name} goes to reaping, not to the queue`, () => {
      const machine = machineWith(1);
      const lease = machine.request('a');
      const statement = changes === null ? null : statementOf(lease, changes);
      machine.ask('defer_job', { ...machine.claim(lease), reason: 'draining', statement });
      expect(machine.lease(lease.lease_id)).toMatchObject({
        state: 'reaping',
        reap_reason: 'provision_failed',
        error_class: 'rollback_unproven',
      });
    });
  }

  test('of a reap is refused', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.release(lease, 'reap');
    const refusal = machine.refused('defer_job', { ...machine.claim(lease), reason: 'no', statement: null });
    expect(refusal.code).toBe('JOB_NOT_DEFERRABLE');
    expect(machine.state.hosts.get(HOST)?.ready).toBe(true);
  });
});

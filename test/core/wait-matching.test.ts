import { describe, expect, test } from 'bun:test';
import { LEASE_STATES, type Lease, type LeaseState } from '../../src/core/model.ts';
import {
  type ConditionVerdict,
  judgeLeaseCondition,
  type LeaseCondition,
  leaseEndState,
} from '../../src/core/wait-matching.ts';
import { Machine } from './machine.ts';

const base: Lease = (() => {
  const machine = new Machine();
  machine.host(1);
  return machine.active('slot');
})();

const leaseIn = (state: LeaseState, changes: Partial<Lease> = {}): Lease => ({ ...base, state, ...changes });
const waitingFor = (state: LeaseCondition['state']): LeaseCondition => ({
  type: 'lease',
  lease_id: base.lease_id,
  state,
});

const P = 'pending';
const M = 'matched';
const L = 'lease_lost';

/** Rows: what is waited for; columns: the lease's state. A reaped lease here is proven, a failed reap is known as failed. */
const VERDICTS: Record<'admitted' | 'provisioning' | 'active' | 'reaped', Record<LeaseState, ConditionVerdict>> = {
  admitted: { queued: P, provisioning: M, active: M, idle: M, reaping: L, reaped: L, reap_failed: L },
  provisioning: { queued: P, provisioning: M, active: P, idle: P, reaping: L, reaped: L, reap_failed: L },
  active: { queued: P, provisioning: P, active: M, idle: P, reaping: L, reaped: L, reap_failed: L },
  reaped: {
    queued: P,
    provisioning: P,
    active: P,
    idle: P,
    reaping: P,
    reaped: M,
    reap_failed: 'lease_cleanup_failed',
  },
};

describe('the verdict on a lease condition', () => {
  for (const [waited, row] of Object.entries(VERDICTS)) {
    for (const state of LEASE_STATES) {
      const condition = waitingFor(waited === 'admitted' ? null : (waited as 'active'));
      test(`waiting for ${waited}, the lease is ${state}: ${row[state]}`, () => {
        const lease = leaseIn(state, {
          ...(state === 'reaped' ? { cleanup_verified: true } : {}),
          last_reap_outcome: state === 'reap_failed' ? 'failed' : null,
        });
        expect(judgeLeaseCondition(condition, lease)).toBe(row[state]);
      });
    }
  }

  test('a reaped lease without a judgement of its cleanup keeps waiting', () => {
    expect(judgeLeaseCondition(waitingFor('reaped'), leaseIn('reaped'))).toBe('pending');
  });

  test('a reaped lease that was marked strictly unverified is lost', () => {
    const lease = leaseIn('reaped', { cleanup_verified: false });
    expect(judgeLeaseCondition(waitingFor('reaped'), lease)).toBe('lease_lost');
    expect(leaseEndState(waitingFor('reaped'), lease, 'lease_lost')).toMatchObject({ cleanup_unverified: true });
  });
});

describe('what the waiter is told', () => {
  test('of a match: lease and state', () => {
    const said = leaseEndState(waitingFor('active'), leaseIn('active'), 'matched');
    expect(said).toEqual({ lease_id: base.lease_id, lease_state: 'active' });
  });

  test('of a proven cleanup: the proof and its receipt', () => {
    const lease = leaseIn('reaped', {
      cleanup_verified: true,
      cleanup_proof: 'signed_reap',
      cleanup_receipt_id: 'r-1',
    });
    expect(leaseEndState(waitingFor('reaped'), lease, 'matched')).toEqual({
      lease_id: base.lease_id,
      lease_state: 'reaped',
      reap_disposition: 'destroy',
      cleanup_proof: 'signed_reap',
      cleanup_receipt_id: 'r-1',
    });
  });

  test('of a loss: the reason, with the error class where active was waited for', () => {
    const lease = leaseIn('reaping', { reap_reason: 'provision_failed', error_class: 'prepare_failed' });
    expect(leaseEndState(waitingFor('active'), lease, 'lease_lost')).toMatchObject({
      reap_reason: 'provision_failed',
      error_class: 'prepare_failed',
    });
    const other = leaseEndState(waitingFor('provisioning'), lease, 'lease_lost');
    expect(other).not.toHaveProperty('error_class');
    expect(other).not.toHaveProperty('cleanup_unverified');
  });
});

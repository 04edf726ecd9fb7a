import { describe, expect, test } from 'bun:test';
import { goalEndState, judgeGoal, leaseGoals } from '../../src/client/lease-goal-rules.ts';
import { LEASE_STATES, type Lease } from '../../src/core/model.ts';
import { judgeLeaseCondition, leaseEndState } from '../../src/core/wait-matching.ts';
import { LEASE, leaseView } from './_parks.ts';

describe('a goal', () => {
  for (const state of [null, 'provisioning', 'active', 'reaped'] as const) {
    for (const leaseState of LEASE_STATES) {
      test(`${state ?? 'admitted'} is judged on a lease that is ${leaseState} as the coordinator judges it`, () => {
        for (const cleanup_verified of [undefined, true, false]) {
          for (const last_reap_outcome of [null, 'failed', 'succeeded'] as const) {
            for (const error_class of [null, 'x']) {
              const verified = cleanup_verified === undefined ? {} : { cleanup_verified };
              const view = leaseView({ state: leaseState, last_reap_outcome, error_class, ...verified });
              const condition = { type: 'lease' as const, lease_id: LEASE, state };
              const verdict = judgeGoal({ lease_id: LEASE, state }, view);
              expect(verdict).toBe(judgeLeaseCondition(condition, view as unknown as Lease));
              if (verdict === 'pending') continue;
              const expected = leaseEndState(condition, view as unknown as Lease, verdict);
              expect(goalEndState({ lease_id: LEASE, state }, view, verdict)).toEqual(expected);
            }
          }
        }
      });
    }
  }

  test('is read from the conditions of a park, whatever else stands there', () => {
    const id = LEASE.toUpperCase();
    expect(leaseGoals([`lease:id=${id},state=active`, 'timer:in=5m', 'nonsense'])).toEqual([
      { lease_id: LEASE, state: 'active' },
    ]);
  });
});

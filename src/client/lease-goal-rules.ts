/**
 * What a park waits for of a lease, judged on the lease as its owner sees it: the coordinator judges the same
 * conditions on its own record. Pure.
 */
import { parseCondition } from '../protocol/conditions.ts';
import type { EndedWait, LeaseState, LeaseView } from '../protocol/records.ts';

export interface LeaseGoal {
  lease_id: string;
  /** null: the lease leaves the queue. */
  state: 'provisioning' | 'active' | 'reaped' | null;
}

export type GoalVerdict = 'pending' | 'matched' | 'lease_lost' | 'lease_cleanup_failed';

/** The lease conditions among a park's conditions. */
export function leaseGoals(conditions: readonly string[]): LeaseGoal[] {
  return conditions.flatMap((text) => {
    const parsed = parseCondition(text, 0);
    if (!parsed.ok || parsed.condition.type !== 'lease') return [];
    return [{ lease_id: parsed.condition.lease_id, state: parsed.condition.state }];
  });
}

const ON_ITS_WAY_OUT: Readonly<Record<LeaseState, boolean>> = {
  queued: false,
  provisioning: false,
  active: false,
  idle: false,
  reaping: true,
  reap_failed: true,
  reaped: true,
};

export function judgeGoal(goal: LeaseGoal, lease: LeaseView): GoalVerdict {
  if (goal.state === 'reaped') return judgeCleanup(lease);
  if (ON_ITS_WAY_OUT[lease.state]) return 'lease_lost';
  if (goal.state === null) return lease.state === 'queued' ? 'pending' : 'matched';
  return lease.state === goal.state ? 'matched' : 'pending';
}

function judgeCleanup(lease: LeaseView): GoalVerdict {
  if (lease.state === 'reaped') {
    if (lease.cleanup_verified === undefined) return 'pending';
    return lease.cleanup_verified ? 'matched' : 'lease_lost';
  }
  if (lease.state !== 'reap_failed') return 'pending';
  return lease.cleanup_verified === true || lease.last_reap_outcome === 'failed'
    ? 'lease_cleanup_failed'
    : 'lease_lost';
}

/** What the receipt of a wait says of the lease that ended it. */
export function goalEndState(goal: LeaseGoal, lease: LeaseView, verdict: GoalVerdict): EndedWait['state'] {
  const common = { lease_id: lease.lease_id, lease_state: lease.state };
  if (verdict === 'pending' || (verdict === 'matched' && goal.state !== 'reaped')) return common;
  if (verdict === 'lease_lost') {
    return {
      ...common,
      reap_reason: lease.reap_reason,
      ...(goal.state === 'active' && lease.error_class !== null ? { error_class: lease.error_class } : {}),
      ...(lease.cleanup_verified === false ? { cleanup_unverified: true } : {}),
    };
  }
  return {
    ...common,
    reap_disposition: lease.reap_disposition,
    cleanup_proof: lease.cleanup_proof,
    cleanup_receipt_id: lease.cleanup_receipt_id,
  };
}

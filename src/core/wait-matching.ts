/** When a `lease:` condition is met, lost or cannot be met any more. Source: the table of conditions. */
import type { Condition, Lease } from './model.ts';

export type ConditionVerdict = 'pending' | 'matched' | 'lease_lost' | 'lease_cleanup_failed';

export type LeaseCondition = Extract<Condition, { type: 'lease' }>;

export function judgeLeaseCondition(condition: LeaseCondition, lease: Lease): ConditionVerdict {
  switch (condition.state) {
    case null:
      return judgeAdmitted(lease);
    case 'provisioning':
    case 'active':
      if (lease.state === condition.state) return 'matched';
      return isOnItsWayOut(lease) ? 'lease_lost' : 'pending';
    case 'reaped':
      return judgeCleanup(lease);
  }
}

const isOnItsWayOut = (lease: Lease): boolean =>
  lease.state === 'reaping' || lease.state === 'reaped' || lease.state === 'reap_failed';

function judgeAdmitted(lease: Lease): ConditionVerdict {
  if (lease.state === 'queued') return 'pending';
  return isOnItsWayOut(lease) ? 'lease_lost' : 'matched';
}

function judgeCleanup(lease: Lease): ConditionVerdict {
  if (lease.state === 'reaped') {
    if (lease.cleanup_verified === undefined) return 'pending';
    return lease.cleanup_verified ? 'matched' : 'lease_lost';
  }
  if (lease.state === 'reap_failed') {
    return lease.cleanup_verified === true || lease.last_reap_outcome === 'failed'
      ? 'lease_cleanup_failed'
      : 'lease_lost';
  }
  return 'pending';
}

/** What a waiter is told of the lease that ended its wait. */
export function leaseEndState(
  condition: LeaseCondition,
  lease: Lease,
  verdict: ConditionVerdict,
): Record<string, string | number | boolean | null> {
  const common = { lease_id: lease.lease_id, lease_state: lease.state };
  if (verdict === 'matched' && condition.state !== 'reaped') return common;
  if (verdict === 'lease_lost') {
    return {
      ...common,
      reap_reason: lease.reap_reason,
      ...(condition.state === 'active' && lease.error_class !== null ? { error_class: lease.error_class } : {}),
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

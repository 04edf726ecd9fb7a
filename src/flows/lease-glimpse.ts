/** A lease's view as the rules of a run see it. */
import type { LeaseView } from '../protocol/records.ts';
import type { LeaseGlimpse } from './stack-run-model.ts';

export function glimpseOf(lease: LeaseView): LeaseGlimpse {
  return {
    lease_id: lease.lease_id,
    state: lease.state,
    has_connection: lease.connection !== null,
    fencing_token: lease.fencing_token,
    reap_reason: lease.reap_reason,
    error: lease.error,
    error_class: lease.error_class,
    cleanup_verified: lease.cleanup_verified ?? null,
    cleanup_proof: lease.cleanup_proof,
    cleanup_receipt_id: lease.cleanup_receipt_id,
  };
}

/** The same for the invocation with this token: what a later command took over is lost to it, whatever its state is. */
export function ownGlimpseOf(lease: LeaseView, claimToken: string): LeaseGlimpse {
  const glimpse = glimpseOf(lease);
  if (lease.claim_token === claimToken) return glimpse;
  return { ...glimpse, state: 'reaping', has_connection: false, error: 'a later command took the lease over' };
}

/** Giving a lease back: to idle, or to a reap. What a release does in each state stands in `lease-table.ts`. */
import { BOUNDS } from './bounds.ts';
import { type Draft, refuse } from './draft.ts';
import type { Input, Replies } from './inputs.ts';
import { ownLease } from './lease-request.ts';
import { RELEASE_ACTION } from './lease-table.ts';
import type { Lease } from './model.ts';
import { beginReaping, openJob } from './reaping.ts';

type Release = Extract<Input, { type: 'release_lease' }>;

export function releaseLease(draft: Draft, input: Release): Replies['release_lease'] {
  const lease =
    input.archived === null ? ownLease(draft, input.lease_id, input.by) : ownArchived(input, input.archived);
  if (input.claim_token !== null && input.claim_token !== lease.claim_token) {
    refuse('OLD_GENERATION', `lease ${lease.lease_id} was taken over by a later command`, { lease_id: lease.lease_id });
  }
  const action = RELEASE_ACTION[lease.state][input.how];
  switch (action) {
    case 'keep':
      return { lease, retried: false, budget_reset: false, changed: false };
    case 'go_idle':
      draft.emit({
        type: 'lease_idled',
        lease_id: lease.lease_id,
        idle_reason: input.reason,
        disposition: input.disposition,
        idle_ttl_ms: input.idle_ttl_ms ?? lease.idle_ttl_ms,
      });
      return { lease, retried: false, budget_reset: false, changed: true };
    case 'reap':
      beginReaping(draft, lease, { reason: 'released', disposition: input.disposition });
      return { lease, retried: false, budget_reset: false, changed: true };
    case 'retry_reap':
      draft.emit({
        type: 'lease_reaping',
        lease_id: lease.lease_id,
        reap_reason: lease.reap_reason ?? 'released',
        disposition: input.disposition,
        deadline_at: draft.now + BOUNDS.reapDeadlineMs,
        error: null,
        error_class: null,
      });
      openJob(draft, lease, 'reap_stack');
      return { lease, retried: true, budget_reset: true, changed: true };
  }
}

function ownArchived(input: Release, lease: Lease): Lease {
  if (lease.tenant !== input.by.tenant || lease.principal !== input.by.principal) {
    refuse('LEASE_NOT_FOUND', `there is no lease ${input.lease_id}`, { lease_id: input.lease_id });
  }
  return lease;
}

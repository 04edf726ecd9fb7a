import type { LeaseForHelper } from '../../src/protocol/tool-calls.ts';

/** A lease as a Helper sees it, with what the test cares about. */
export function leaseForHelper(over: Partial<LeaseForHelper> = {}): LeaseForHelper {
  return {
    lease_id: '11111111-1111-4111-8111-111111111111',
    tenant: 'local',
    slot: 'abcdefghijkl',
    project: 'bb-local-abcdefghijkl',
    state: 'reaping',
    mode: 'attached',
    blocks: [{ port_base: 21_000, size: 20 }],
    claim_token: 'token-1',
    plan_digest: 'digest',
    fencing_token: 7,
    created_fencing_token: 7,
    reap_disposition: 'destroy',
    reap_reason: null,
    ttl_ms: 60_000,
    idle_ttl_ms: 1_800_000,
    worktree_root: '/nowhere',
    stack_path: '.',
    ...over,
  };
}

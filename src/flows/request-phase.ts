/** The request for a lease, and what a typed no of the coordinator means for the run. */
import type { CoordinatorClient } from '../client/calls.ts';
import type { Failure } from '../platform/failure.ts';
import type { PortBlock } from '../protocol/claim.ts';
import { ownerOf } from '../protocol/claim.ts';
import { outcomeOf } from '../protocol/outcomes.ts';
import type { RequestStackLeaseArgs } from '../protocol/tool-calls.ts';
import { claimsOfLease, lifeOf } from '../stack/claim-registry.ts';
import type { StackContext } from './stack-context.ts';
import type { RunEvent, RunRefusal } from './stack-run-model.ts';
import type { RunRequest } from './stack-run-request.ts';

export function leaseRequestArgs(
  context: StackContext,
  request: RunRequest,
  claim: { token: string; blocks: PortBlock[]; planDigest: string },
): RequestStackLeaseArgs {
  return {
    agent: context.place.worktree_root,
    slot: context.slot.slot,
    project: context.slot.project,
    host_key: context.hostKey,
    machine_id: context.machineId,
    worktree_root: context.place.worktree_root,
    stack_path: context.place.stack_path,
    mode: request.mode,
    units: context.units,
    priority: request.priority,
    blocks: claim.blocks.map(({ port_base, size }) => ({ port_base, size })),
    claim_token: claim.token,
    plan_digest: claim.planDigest,
    ttl_ms: context.ttlMs,
    idle_ttl_ms: context.idleTtlMs,
    hard_ttl_ms: request.hardTtlMs,
    queue_timeout_ms: request.timeoutMs,
    labels: request.labels,
    idempotency_key: `${claim.token}.${claim.blocks.map(({ port_base }) => port_base).join('.')}`,
  };
}

/** No answer, and an answer that says nothing about the request, leave the admission unknown. */
export async function refusalOf(context: StackContext, client: CoordinatorClient, failure: Failure): Promise<RunEvent> {
  if (outcomeOf(failure.code).retryable || failure.code === 'unauthenticated') {
    return { type: 'admission_unknown', code: failure.code, message: failure.message };
  }
  const leaseId = textOf(failure.fields['lease_id']);
  const refusal: RunRefusal = {
    code: failure.code,
    message: failure.message,
    lease_id: leaseId,
    state: textOf(failure.fields['state']),
    own: failure.fields['own'] === true,
    reap_reason: textOf(failure.fields['reap_reason']),
    owner_dead: leaseId !== null && failure.fields['own'] === true && (await isOwnerDead(context, client, leaseId)),
  };
  return { type: 'refused', refusal };
}

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/**
 * Only an attached lease whose every claim names a dead process of the lease's own invocation is orphaned. A detached one
 * needs no living owner, and the claims of one that was just re-adopted still name the owner before.
 */
async function isOwnerDead(context: StackContext, client: CoordinatorClient, leaseId: string): Promise<boolean> {
  const claims = claimsOfLease(context.home, leaseId);
  if (claims.length === 0 || claims.some((claim) => lifeOf(ownerOf(claim)) === 'alive')) return false;
  try {
    const { lease } = await client.call('get_stack_lease', { lease_id: leaseId });
    const isOfItsOwner = claims.every((claim) => claim.idle === null && claim.invocation_token === lease.claim_token);
    return lease.mode === 'attached' && lease.state !== 'idle' && isOfItsOwner;
  } catch {
    return false;
  }
}

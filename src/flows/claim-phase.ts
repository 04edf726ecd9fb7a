/** The claim of a run: made before the request, bound when a lease is named, idle or released at the end. */
import type { CoordinatorClient } from '../client/calls.ts';
import { Failure } from '../platform/failure.ts';
import type { ProcessIdentity } from '../platform/processes.ts';
import type { Claim, LeaseFacts, PortBlock } from '../protocol/claim.ts';
import type { LeaseView } from '../protocol/records.ts';
import { bindClaims, markIdle } from '../stack/claim-binding.ts';
import { type ClaimHold, claimBlocks } from '../stack/claim-registry.ts';
import { type PortBlockReceipt, releaseClaims } from '../stack/claim-release.ts';
import { slotDirNameOf } from '../stack/slot.ts';
import type { StackContext } from './stack-context.ts';

const LOCK_WAIT_MS = 5_000;

/** What the coordinator says of the lease behind a claim; no answer is not a no. */
export async function leaseFactsOf(client: CoordinatorClient, claim: Claim): Promise<LeaseFacts | 'no_answer'> {
  try {
    if (claim.lease_id !== null) {
      const { lease } = await client.call('get_stack_lease', { lease_id: claim.lease_id });
      return { live: lease.state !== 'reaped', lease_id: lease.lease_id, state: lease.state };
    }
    const { leases } = await client.call('list_stack_leases', { claim_token: claim.invocation_token });
    const lease = leases[0];
    return { live: lease !== undefined, lease_id: lease?.lease_id ?? null, state: lease?.state ?? null };
  } catch (error) {
    if (error instanceof Failure && error.code === 'LEASE_NOT_FOUND')
      return { live: false, lease_id: claim.lease_id, state: null };
    return 'no_answer';
  }
}

export function claimForRun(
  context: StackContext,
  client: CoordinatorClient,
  { token, avoid }: { token: string; avoid: readonly PortBlock[] },
): Promise<ClaimHold> {
  return claimBlocks({
    home: context.home,
    slot: context.slot,
    host: context.hostKey,
    stackDir: context.place.stack_dir,
    portsNeeded: context.config.ports.length,
    owner: context.owner,
    invocationToken: token,
    leaseViewOf: (claim) => leaseFactsOf(client, claim),
    range: context.portRange,
    size: context.portBlockSize,
    avoid,
  });
}

export async function bindHold(context: StackContext, hold: ClaimHold, leaseId: string): Promise<void> {
  await bindClaims({ home: context.home, hold, leaseId, idleTtlMs: context.idleTtlMs });
}

export async function markHoldIdle(context: StackContext, leaseId: string): Promise<void> {
  await markIdle({ home: context.home, leaseId, idleTtlMs: context.idleTtlMs });
}

/** Who releases: this process, in this worktree, on this host. */
export interface ReleasingContext {
  readonly home: string;
  readonly hostKey: string;
  readonly owner: ProcessIdentity;
  readonly worktreeRoot: string;
}

/** Releases the claims of a lease of which we hold a proof. Whether they may go is decided by the claim rules. */
export async function releaseHold(
  context: ReleasingContext,
  client: CoordinatorClient,
  lease: LeaseView,
  options: { lockWaitMs?: number } = {},
): Promise<PortBlockReceipt> {
  const { leases } = await client.call('list_stack_leases', { slot: lease.slot });
  return releaseClaims({
    home: context.home,
    slotDirName: slotDirNameOf(lease.slot),
    lease: { ...lease, host: context.hostKey },
    proof: {
      lease_id: lease.lease_id,
      state: lease.state,
      cleanup_verified: lease.cleanup_verified ?? null,
      cleanup_proof: lease.cleanup_proof,
      cleanup_receipt_id: lease.cleanup_receipt_id,
    },
    otherLeaseOnSlot: leases.some(({ lease_id }) => lease_id !== lease.lease_id),
    caller: { kind: 'client', identity: context.owner, worktreeRoot: context.worktreeRoot },
    lockWaitMs: options.lockWaitMs ?? LOCK_WAIT_MS,
  });
}

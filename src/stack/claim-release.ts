/** The end of a claim: judged by the claim rules, carried out file by file, looked at again, and marked as released. */
import { relative, resolve } from 'node:path';
import { type Clock, systemClock } from '../platform/clock.ts';
import { pathExists } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import type { ProcessIdentity } from '../platform/processes.ts';
import { type Claim, type KeptReason, ownerOf, type ReleaseProof } from '../protocol/claim.ts';
import { allocationLock, projectLock } from './_claim-locks.ts';
import { readMarker, writeMarker } from './_marker.ts';
import { readInventory, removeClaim } from './claim-files.ts';
import { lifeOf } from './claim-registry.ts';
import { judgeRelease, markerAgrees, type ReleaseQuestion } from './claim-rules.ts';

export interface ReleasedLease {
  readonly lease_id: string;
  readonly state: string;
  readonly claim_token: string;
  readonly project: string;
  readonly slot: string;
  /** What the claim was made under; compared, never resolved. */
  readonly host: string;
  readonly worktree_root: string;
  readonly stack_path: string;
}

export type ReleaseCaller =
  | { readonly kind: 'client'; readonly identity: ProcessIdentity; readonly worktreeRoot: string }
  | { readonly kind: 'helper' };

export interface ReleaseRequest {
  readonly home: string;
  readonly slotDirName: string;
  readonly lease: ReleasedLease;
  readonly proof: ReleaseProof | null;
  /** Another lease of the slot that is not reaped, as the coordinator tells. */
  readonly otherLeaseOnSlot: boolean;
  readonly caller: ReleaseCaller;
  /** How long to wait for another command of the slot; 0 keeps the claim at once. */
  readonly lockWaitMs?: number;
  readonly clock?: Clock;
}

export interface PortBlockReceipt {
  released: boolean;
  reason: KeptReason | null;
  cleanup_proof: string | null;
  cleanup_receipt_id: string | null;
}

/** Never throws for a disk that does not obey: then the claim stays, and the receipt says so. */
export async function releaseClaims(request: ReleaseRequest): Promise<PortBlockReceipt> {
  const { proof } = request;
  const reason = await releaseOrKeep(request);
  return {
    released: reason === null,
    reason,
    cleanup_proof: reason === null ? (proof?.cleanup_proof ?? null) : null,
    cleanup_receipt_id: reason === null ? (proof?.cleanup_receipt_id ?? null) : null,
  };
}

async function releaseOrKeep(request: ReleaseRequest): Promise<KeptReason | null> {
  try {
    return await releaseUnderLocks(request);
  } catch (error) {
    if (error instanceof Failure) return 'removal_failed';
    throw error;
  }
}

async function releaseUnderLocks(request: ReleaseRequest): Promise<KeptReason | null> {
  const { home, lease } = request;
  using project = await projectLock(home, request.slotDirName, request.lockWaitMs ?? 0);
  if (project === null) return 'owner_alive';
  using _allocation = await allocationLock(home);
  const inventory = readInventory(home);
  const claims = inventory.claims.filter((claim) => isOf(claim, lease));
  const question = questionOf(request, claims, inventory.unknown.length);
  const verdict = judgeRelease(question);
  if (!verdict.release) return verdict.reason;
  const allGone = claims.map((claim) => removeClaim(home, claim)).every(Boolean);
  if (!allGone) return 'removal_failed';
  markReleased(question, request.clock ?? systemClock);
  return null;
}

function isOf(claim: Claim, lease: ReleasedLease): boolean {
  if (claim.lease_id === lease.lease_id) return true;
  return claim.lease_id === null && claim.invocation_token === lease.claim_token;
}

function questionOf(request: ReleaseRequest, claims: readonly Claim[], unknownFiles: number): ReleaseQuestion {
  const { lease, caller } = request;
  const stackDir = resolve(lease.worktree_root, lease.stack_path);
  return {
    lease: {
      lease_id: lease.lease_id,
      state: lease.state,
      claim_token: lease.claim_token,
      project_id: lease.project,
      slot: lease.slot,
      host: lease.host,
      stack_dir: stackDir,
      stack_path: lease.stack_path,
    },
    proof: request.proof,
    other_lease_on_slot: request.otherLeaseOnSlot,
    caller: callerOf(caller, lease),
    claims: claims.map((claim) => ({ claim, owner: ownerLife(claim, caller), child: lifeOf(claim.child) })),
    unknown_files: unknownFiles,
    marker: readMarker(stackDir),
    stack_dir_present: pathExists(stackDir),
  };
}

function callerOf(caller: ReleaseCaller, lease: ReleasedLease): ReleaseQuestion['caller'] {
  if (caller.kind === 'helper') return 'helper';
  return relative(lease.worktree_root, caller.worktreeRoot) === '' ? 'client_in_worktree' : 'client_elsewhere';
}

function ownerLife(claim: Claim, caller: ReleaseCaller): 'caller' | 'alive' | 'dead' {
  const owner = ownerOf(claim);
  const same = caller.kind === 'client' && owner.pid === caller.identity.pid;
  if (same && owner.started_at === caller.identity.started_at && owner.boot_id === caller.identity.boot_id)
    return 'caller';
  return lifeOf(owner);
}

/** The claims are gone already: a directory that cannot be written only keeps its old marker. */
function markReleased({ lease, marker }: ReleaseQuestion, clock: Clock): void {
  if (typeof marker === 'string' || !markerAgrees(marker, lease)) return;
  try {
    writeMarker({ ...marker, released_at: clock.wallMs() });
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
  }
}

/**
 * Every decision about port blocks and claims, as total functions over plain data: what is free, what may be taken
 * over, bound, renewed, released, and which marker may be written. No clock, file or process: the registry brings the
 * facts and carries out the answer, and the simulation runs this very file.
 * The rule behind all of them: doubt keeps. A claim goes by proof of exactly its lease, or by the end of everybody who
 * could still use it, never by the absence of a record. Read next: `claim-registry.ts`.
 */
import type { Claim, KeptReason, LeaseFacts, Marker, PortBlock, ReleaseProof } from '../protocol/claim.ts';

export type Life = 'alive' | 'dead';

const UNBOUND_RETENTION_MS = 10 * 60_000;
const BOUND_RETENTION_MS_MIN = 10 * 60_000;
const AFTER_IDLE_TTL_MS = 5 * 60_000;

/** Until when a claim is kept even though its owner is gone. */
export function retainUntil(now: number, idleTtlMs: number | null): number {
  if (idleTtlMs === null) return now + UNBOUND_RETENTION_MS;
  return now + Math.max(BOUND_RETENTION_MS_MIN, idleTtlMs + AFTER_IDLE_TTL_MS);
}

export const blocksOverlap = (a: PortBlock, b: PortBlock): boolean =>
  a.port_base < b.port_base + b.size && b.port_base < a.port_base + a.size;

export type BlockVerdict = 'free' | 'claimed' | 'unknown_file' | 'leased' | 'ports_busy';

export interface Occupancy {
  readonly claimed: readonly PortBlock[];
  /** What registry files that nobody can read may cover. */
  readonly unknown: readonly PortBlock[];
  /** Blocks of live leases, as far as the coordinator said so. */
  readonly leased: readonly PortBlock[];
  /** Bases whose ports could not be bound. */
  readonly busy_bases: ReadonlySet<number>;
}

export function judgeBlock(block: PortBlock, occupancy: Occupancy): BlockVerdict {
  const covers = (other: PortBlock) => blocksOverlap(block, other);
  if (occupancy.claimed.some(covers)) return 'claimed';
  if (occupancy.unknown.some(covers)) return 'unknown_file';
  if (occupancy.leased.some(covers)) return 'leased';
  if (occupancy.busy_bases.has(block.port_base)) return 'ports_busy';
  return 'free';
}

export interface BlockRange {
  readonly first: number;
  /** The last base, not the last port. */
  readonly last: number;
  readonly size: number;
}

/** The base that a slot gets wherever it is free: only a preference. */
export function wantedBase(slotNumber: number, { first, last, size }: BlockRange): number {
  const count = Math.floor((last - first) / size) + 1;
  return first + (Math.abs(Math.trunc(slotNumber)) % count) * size;
}

/** The first free block from the wanted base on, around the range; null when it is full. */
export function chooseBlock(wanted: number, range: BlockRange, occupancy: Occupancy): PortBlock | null {
  const { first, last, size } = range;
  const count = Math.floor((last - first) / size) + 1;
  const aligned = wanted >= first && wanted <= last && (wanted - first) % size === 0;
  const start = aligned ? (wanted - first) / size : 0;
  for (let step = 0; step < count; step += 1) {
    const block = { port_base: first + ((start + step) % count) * size, size };
    if (judgeBlock(block, occupancy) === 'free') return block;
  }
  return null;
}

export type OwnClaimVerdict = 'ours' | 'offer_idle' | 'leave';

export interface Asker {
  readonly invocation_token: string;
  readonly slot: string;
  readonly project_id: string;
  readonly host: string;
  readonly stack_dir: string;
}

/** What a new invocation does with a claim that it finds. An idle one is offered as it is, and changes only when bound. */
export function judgeFound(claim: Claim, asker: Asker): OwnClaimVerdict {
  if (!sameStack(claim, asker)) return 'leave';
  if (claim.invocation_token === asker.invocation_token) return 'ours';
  return claim.idle !== null ? 'offer_idle' : 'leave';
}

/** Whoever made a claim idle has given it up: from then on its life keeps nothing. */
export type TakeoverVerdict =
  | 'take'
  | 'unreadable'
  | 'owner_alive'
  | 'child_alive'
  | 'retained'
  | 'coordinator_silent'
  | 'lease_live';

export interface TakeoverQuestion {
  readonly claim: Claim | 'unreadable';
  readonly owner: Life;
  readonly child: Life;
  readonly now: number;
  readonly lease: LeaseFacts | 'no_answer';
}

export function judgeTakeover({ claim, owner, child, now, lease }: TakeoverQuestion): TakeoverVerdict {
  if (claim === 'unreadable') return 'unreadable';
  if (owner === 'alive' && claim.idle === null) return 'owner_alive';
  if (child === 'alive') return 'child_alive';
  if (now <= claim.retain_until) return 'retained';
  if (lease === 'no_answer') return 'coordinator_silent';
  return lease.live ? 'lease_live' : 'take';
}

export type BindVerdict =
  | { bind: 'write' | 'recreate' }
  | { bind: 'refused'; reason: 'claim_missing' | 'claim_unreadable' | 'claim_replaced' | 'bound_to_another_lease' };

export interface BindQuestion {
  readonly claim: Claim | 'absent' | 'unreadable';
  readonly asker: Asker;
  readonly lease_id: string;
  /** The token that an offered idle claim bore; null for a claim made by this invocation. */
  readonly seen_token: string | null;
  /** The client may make again what it claimed; a Helper only confirms what the client claimed. */
  readonly binder: 'client' | 'helper';
}

export function judgeBind({ claim, asker, lease_id, seen_token, binder }: BindQuestion): BindVerdict {
  if (claim === 'absent') {
    return binder === 'client' ? { bind: 'recreate' } : { bind: 'refused', reason: 'claim_missing' };
  }
  if (claim === 'unreadable') return { bind: 'refused', reason: 'claim_unreadable' };
  if (!sameStack(claim, asker)) return { bind: 'refused', reason: 'claim_replaced' };
  if (claim.invocation_token === asker.invocation_token) {
    const free = claim.lease_id === null || claim.lease_id === lease_id;
    return free ? { bind: 'write' } : { bind: 'refused', reason: 'bound_to_another_lease' };
  }
  const offered = claim.idle !== null && (claim.invocation_token === seen_token || claim.lease_id === lease_id);
  return offered ? { bind: 'write' } : { bind: 'refused', reason: 'claim_replaced' };
}

export type MarkerVerdict = 'write' | 'unreadable' | 'bound_elsewhere';

/** A marker of another project or directory is never rewritten while it binds; of the same ones it moves to a new token. */
export function judgeMarker(
  marker: Marker | 'absent' | 'unreadable',
  asker: Pick<Asker, 'project_id' | 'stack_dir'>,
): MarkerVerdict {
  if (marker === 'absent') return 'write';
  if (marker === 'unreadable') return 'unreadable';
  if (marker.released_at !== null) return 'write';
  return marker.project_id === asker.project_id && marker.stack_dir === asker.stack_dir ? 'write' : 'bound_elsewhere';
}

/** How a request for a lease was answered, where the claim never came to carry one. */
export type Answer = 'refused' | 'placed_elsewhere' | 'no_answer';

const ABANDONS: Readonly<Record<Answer, boolean>> = { refused: true, placed_elsewhere: true, no_answer: false };

/** An unbound claim may go by its own invocation after a plain no. No answer is not a no. */
export function judgeAbandon(claim: Claim, token: string, answer: Answer): boolean {
  return ABANDONS[answer] && claim.invocation_token === token && claim.lease_id === null && claim.child === null;
}

const PROOFS: readonly string[] = ['signed_reap', 'never_provisioned', 'local_exec_teardown', 'pre_driver_absence'];

export function isProofFor(leaseId: string, proof: ReleaseProof | null): boolean {
  if (proof === null || proof.lease_id !== leaseId) return false;
  if (proof.state !== 'reaped' || proof.cleanup_verified !== true) return false;
  if (proof.cleanup_proof === null || !PROOFS.includes(proof.cleanup_proof)) return false;
  return proof.cleanup_proof !== 'signed_reap' || Boolean(proof.cleanup_receipt_id);
}

export interface ReleaseQuestion {
  readonly lease: {
    readonly lease_id: string;
    readonly state: string;
    readonly claim_token: string;
    readonly project_id: string;
    readonly slot: string;
    readonly host: string;
    readonly stack_dir: string;
    readonly stack_path: string;
  };
  readonly proof: ReleaseProof | null;
  readonly other_lease_on_slot: boolean;
  /** A client must stand in the lease's own worktree; the Helper works from the home. */
  readonly caller: 'client_in_worktree' | 'client_elsewhere' | 'helper';
  /** Each claim that carries the lease's id, or is unbound and carries its token. */
  readonly claims: readonly { readonly claim: Claim; readonly owner: 'caller' | Life; readonly child: Life }[];
  /** Registry files that nobody can read: absence cannot be told. */
  readonly unknown_files: number;
  readonly marker: Marker | 'absent' | 'unreadable';
  readonly stack_dir_present: boolean;
}

export type ReleaseVerdict = { release: true } | { release: false; reason: KeptReason };

const kept = (reason: KeptReason): ReleaseVerdict => ({ release: false, reason });

/** The first reason that keeps the claims wins; no claim left counts as released. */
export function judgeRelease(question: ReleaseQuestion): ReleaseVerdict {
  const { lease, claims, marker } = question;
  if (lease.state === 'idle') return kept('idle');
  if (question.other_lease_on_slot) return kept('another_lease_on_slot');
  if (!isProofFor(lease.lease_id, question.proof)) return kept('cleanup_unproven');
  if (question.caller === 'client_elsewhere' || !isSafePath(lease.stack_path)) return kept('not_this_worktree');
  if (!/^[A-Za-z0-9_-]+$/.test(lease.project_id)) return kept('not_this_worktree');
  if (claims.length === 0) return question.unknown_files > 0 ? kept('removal_failed') : { release: true };
  if (!claims.every(({ claim }) => isOfLease(claim, lease))) return kept('claim_replaced');
  if (claims.some(({ claim, owner }) => owner === 'alive' && claim.idle === null)) return kept('owner_alive');
  if (claims.some(({ child }) => child === 'alive')) return kept('cleanup_unproven');
  if (marker === 'unreadable') return kept('marker_unreadable');
  if (marker !== 'absent' && marker.released_at === null && !markerAgrees(marker, lease)) return kept('claim_replaced');
  const exactlyBound = claims.every(({ claim }) => claim.lease_id === lease.lease_id);
  if (!question.stack_dir_present && !exactlyBound) return kept('not_this_worktree');
  return { release: true };
}

function isOfLease(claim: Claim, lease: ReleaseQuestion['lease']): boolean {
  return sameStack(claim, lease) && claim.invocation_token === lease.claim_token;
}

export function markerAgrees(marker: Marker, lease: ReleaseQuestion['lease']): boolean {
  const bound = marker.lease_id === null || marker.lease_id === lease.lease_id;
  const token = marker.invocation_token === lease.claim_token;
  return bound && token && marker.project_id === lease.project_id && marker.stack_dir === lease.stack_dir;
}

function isSafePath(path: string): boolean {
  return !path.startsWith('/') && !path.split('/').includes('..');
}

function sameStack(claim: Claim, of: Omit<Asker, 'invocation_token'>): boolean {
  return (
    claim.slot === of.slot &&
    claim.project_id === of.project_id &&
    claim.host === of.host &&
    claim.stack_dir === of.stack_dir
  );
}

/** The registry of port blocks of a simulated host: plain maps under the real claim rules, each change atomic as under its locks. */
import type { Claim, KeptReason, LeaseFacts, ReleaseProof } from '../../src/protocol/claim.ts';
import { ownerOf } from '../../src/protocol/claim.ts';
import type { LeaseView, PortBlock } from '../../src/protocol/records.ts';
import {
  type Asker,
  blocksOverlap,
  chooseBlock,
  judgeAbandon,
  judgeBind,
  judgeFound,
  judgeMarker,
  judgeRelease,
  judgeTakeover,
  type Life as LifeWord,
  markerAgrees,
  type ReleaseQuestion,
  retainUntil,
  wantedBase,
} from '../../src/stack/claim-rules.ts';
import { checkClaimGoes, checkTakeover } from './invariants.ts';
import { call } from './network.ts';
import type { Sim } from './sim.ts';
import type { Life } from './timeline.ts';
import type { SimHost } from './world.ts';

/** Few, so that slots get into each other's way. */
export const RANGE = { first: 20_000, last: 20_140, size: 20 } as const;

export interface Hold {
  readonly asker: Asker;
  readonly owner: Life;
  readonly claims: readonly Claim[];
  readonly blocks: readonly PortBlock[];
}

const lifeOf = (host: SimHost, identity: { pid: number; started_at: string; boot_id: string } | null): LifeWord =>
  identity !== null && host.isAlive(identity) ? 'alive' : 'dead';

const NOT_LIVE: LeaseFacts = { live: false, lease_id: null, state: null };

function judge(host: SimHost, claim: Claim | 'unreadable', lease: LeaseFacts | 'no_answer') {
  const owner = claim === 'unreadable' ? 'dead' : lifeOf(host, ownerOf(claim));
  const child = claim === 'unreadable' ? 'dead' : lifeOf(host, claim.child);
  return judgeTakeover({ claim, owner, child, now: host.machine.clock.wallMs(), lease });
}

export interface ClaimQuestion {
  readonly host: SimHost;
  readonly owner: Life;
  readonly asker: Asker;
  readonly blocksNeeded: number;
  readonly avoid: readonly PortBlock[];
}

/** Claims blocks for an invocation; null when the range is full. */
export function claimBlocks(sim: Sim, question: ClaimQuestion, done: (hold: Hold | null | 'marker') => void): void {
  const { host, asker, owner } = question;
  const marker = host.markers.get(asker.stack_dir) ?? 'absent';
  if (judgeMarker(marker, asker) !== 'write') {
    done('marker');
    return;
  }
  const found = foundClaims(question);
  if (found !== null) {
    done(holdOf(asker, owner, found));
    return;
  }
  const askedAt = sim.timeline.now;
  const stale = [...host.claims.values()].filter((claim) => judge(host, claim, NOT_LIVE) === 'take');
  askAll(sim, owner, stale as Claim[], (facts) => {
    const claims = allocate(sim, question, facts, askedAt);
    done(claims === null ? null : holdOf(asker, owner, claims));
  });
}

function holdOf(asker: Asker, owner: Life, claims: readonly Claim[]): Hold {
  return { asker, owner, claims, blocks: claims.map(({ port_base, size }) => ({ port_base, size })) };
}

function foundClaims({ host, asker, blocksNeeded, avoid }: ClaimQuestion): Claim[] | null {
  const judged = host.claimsWhere((claim) => !avoid.some((block) => blocksOverlap(block, claim)));
  const ours = judged.filter((claim) => judgeFound(claim, asker) === 'ours');
  if (ours.length >= blocksNeeded) return ours;
  const idle = judged.filter((claim) => judgeFound(claim, asker) === 'offer_idle');
  const newest = idle.toSorted((a, b) => b.created_at - a.created_at)[0];
  const offered = idle.filter((claim) => claim.lease_id === newest?.lease_id);
  return offered.length >= blocksNeeded ? offered : null;
}

type Facts = Map<string, LeaseFacts | 'no_answer'>;
const keyOf = (claim: Claim): string => `${claim.port_base} ${claim.invocation_token} ${claim.lease_id}`;

function askAll(sim: Sim, from: Life, claims: readonly Claim[], done: (facts: Facts) => void): void {
  const facts: Facts = new Map();
  if (claims.length === 0) {
    done(facts);
    return;
  }
  for (const claim of claims) {
    askLease(sim, from, claim, (answer) => {
      facts.set(keyOf(claim), answer);
      if (facts.size === claims.length) done(facts);
    });
  }
}

function askLease(sim: Sim, from: Life, claim: Claim, done: (facts: LeaseFacts | 'no_answer') => void): void {
  if (claim.lease_id !== null) {
    call(sim, from, 'get_stack_lease', { lease_id: claim.lease_id }, (answer) => {
      if (answer.ok) {
        const { lease } = answer.result;
        return done({ live: lease.state !== 'reaped', lease_id: lease.lease_id, state: lease.state });
      }
      done(answer.code === 'LEASE_NOT_FOUND' ? { live: false, lease_id: claim.lease_id, state: null } : 'no_answer');
    });
    return;
  }
  call(sim, from, 'list_stack_leases', { claim_token: claim.invocation_token }, (answer) => {
    if (!answer.ok) return done('no_answer');
    const lease = answer.result.leases[0];
    done({ live: lease !== undefined, lease_id: lease?.lease_id ?? null, state: lease?.state ?? null });
  });
}

function allocate(
  sim: Sim,
  { host, asker, owner, blocksNeeded, avoid }: ClaimQuestion,
  facts: Facts,
  askedAt: number,
): Claim[] | null {
  const stale = host.claimsWhere((claim) => judge(host, claim, facts.get(keyOf(claim)) ?? 'no_answer') === 'take');
  const claimed: PortBlock[] = host.claimsWhere((claim) => !stale.includes(claim));
  const unknown = [...host.claims]
    .filter(([, claim]) => claim === 'unreadable')
    .map(([port_base]) => ({ port_base, size: RANGE.size }));
  const busyBases = new Set<number>();
  const made: Claim[] = [];
  const slotNumber = [...asker.slot].reduce((sum, letter) => sum + letter.charCodeAt(0), 0);
  while (made.length < blocksNeeded) {
    const occupancy = { claimed, unknown, leased: avoid, busy_bases: busyBases };
    const block = chooseBlock(wantedBase(slotNumber, RANGE), RANGE, occupancy);
    if (block === null) break;
    if (host.portsInUse(block)) {
      busyBases.add(block.port_base);
      continue;
    }
    for (const old of stale) if (blocksOverlap(old, block)) takeOver(sim, host, old, askedAt);
    const claim = newClaim(host, asker, owner, block);
    host.claims.set(block.port_base, claim);
    made.push(claim);
    claimed.push(block);
  }
  if (made.length === blocksNeeded) return made;
  for (const claim of made) host.claims.delete(claim.port_base);
  return null;
}

function takeOver(sim: Sim, host: SimHost, claim: Claim, askedAt: number): void {
  if (host.claims.get(claim.port_base) !== claim) return;
  checkTakeover(sim, host, claim, askedAt);
  sim.tell(`takeover of ${claim.port_base} from ${claim.lease_id ?? claim.invocation_token}`);
  host.claims.delete(claim.port_base);
}

function newClaim(host: SimHost, asker: Asker, owner: Life, block: PortBlock): Claim {
  const now = host.machine.clock.wallMs();
  const { identity } = owner;
  return {
    schema: 1,
    ...asker,
    ...block,
    lease_id: null,
    created_at: now,
    retain_until: retainUntil(now, null),
    owner_pid: identity.pid,
    owner_started_at: identity.started_at,
    owner_boot_id: identity.boot_id,
    child: null,
    idle: null,
  };
}

export function abandonClaims(host: SimHost, token: string): void {
  for (const claim of host.claimsWhere((each) => judgeAbandon(each, token, 'refused')))
    host.claims.delete(claim.port_base);
}

/** The client binds its lease; null when it is done, else why it was refused. */
export function bindClaims(host: SimHost, hold: Hold, leaseId: string, idleTtlMs: number): string | null {
  const marker = host.markers.get(hold.asker.stack_dir) ?? 'absent';
  if (judgeMarker(marker, hold.asker) !== 'write') return 'marker';
  const bound: Claim[] = [];
  for (const [index, block] of hold.blocks.entries()) {
    const claim = host.claims.get(block.port_base) ?? 'absent';
    const seen_token = hold.claims[index]?.invocation_token ?? null;
    const verdict = judgeBind({ claim, asker: hold.asker, lease_id: leaseId, seen_token, binder: 'client' });
    if (verdict.bind === 'refused') return verdict.reason;
    if (verdict.bind === 'recreate' && host.claimsWhere((other) => blocksOverlap(other, block)).length > 0)
      return 'claim_replaced';
    const base = typeof claim === 'string' ? newClaim(host, hold.asker, hold.owner, block) : claim;
    const { pid, started_at, boot_id } = hold.owner.identity;
    bound.push({
      ...base,
      invocation_token: hold.asker.invocation_token,
      lease_id: leaseId,
      retain_until: retainUntil(host.machine.clock.wallMs(), idleTtlMs),
      owner_pid: pid,
      owner_started_at: started_at,
      owner_boot_id: boot_id,
      child: null,
      idle: null,
    });
  }
  for (const claim of bound) host.claims.set(claim.port_base, claim);
  mark(host, hold.asker, leaseId);
  return null;
}

/** The Helper confirms what the client claimed, and binds it if the client did not. */
export function confirmClaims(
  host: SimHost,
  asker: Asker,
  leaseId: string,
  blocks: readonly PortBlock[],
  idleTtlMs: number,
): boolean {
  const claims = blocks.map((block) => host.claims.get(block.port_base) ?? ('absent' as const));
  for (const claim of claims) {
    const verdict = judgeBind({ claim, asker, lease_id: leaseId, seen_token: null, binder: 'helper' });
    if (verdict.bind === 'refused') return false;
  }
  for (const claim of claims) {
    if (typeof claim === 'string') continue;
    const until = Math.max(claim.retain_until, retainUntil(host.machine.clock.wallMs(), idleTtlMs));
    const changes = { invocation_token: asker.invocation_token, lease_id: leaseId, retain_until: until, idle: null };
    host.claims.set(claim.port_base, { ...claim, ...changes });
  }
  mark(host, asker, leaseId);
  return true;
}

function mark(host: SimHost, asker: Asker, leaseId: string): void {
  const { invocation_token, project_id, stack_dir } = asker;
  host.markers.set(stack_dir, {
    schema: 1,
    invocation_token,
    lease_id: leaseId,
    project_id,
    stack_dir,
    released_at: null,
  });
}

export function editClaims(host: SimHost, edit: (claim: Claim) => Partial<Claim> | null): void {
  for (const [base, claim] of host.claims) {
    const changes = claim === 'unreadable' ? null : edit(claim);
    if (changes !== null) host.claims.set(base, { ...(claim as Claim), ...changes });
  }
}

/** The claim waits for the next command of its slot. */
export function markIdle(host: SimHost, leaseId: string, idleTtlMs: number): void {
  const now = host.machine.clock.wallMs();
  editClaims(host, (claim) => {
    if (claim.lease_id !== leaseId) return null;
    return { idle: { since_at: now }, child: null, retain_until: retainUntil(now, idleTtlMs) };
  });
}

export type ReleasedLease = Pick<
  LeaseView,
  'lease_id' | 'state' | 'claim_token' | 'project' | 'slot' | 'worktree_root' | 'stack_path'
>;

export interface ReleaseCaller {
  readonly kind: 'client' | 'helper';
  readonly life: Life;
  readonly worktreeRoot: string;
}

export function releaseClaims(
  sim: Sim,
  host: SimHost,
  options: { lease: ReleasedLease; proof: ReleaseProof | null; otherLeaseOnSlot: boolean; caller: ReleaseCaller },
): KeptReason | null {
  const { lease, caller } = options;
  const stackDir = lease.worktree_root;
  const claims = host.claimsWhere(
    (claim) =>
      claim.lease_id === lease.lease_id || (claim.lease_id === null && claim.invocation_token === lease.claim_token),
  );
  const question: ReleaseQuestion = {
    lease: {
      lease_id: lease.lease_id,
      state: lease.state,
      claim_token: lease.claim_token,
      project_id: lease.project,
      slot: lease.slot,
      host: host.key,
      stack_dir: stackDir,
      stack_path: lease.stack_path,
    },
    proof: options.proof,
    other_lease_on_slot: options.otherLeaseOnSlot,
    caller:
      caller.kind === 'helper'
        ? 'helper'
        : caller.worktreeRoot === stackDir
          ? 'client_in_worktree'
          : 'client_elsewhere',
    claims: claims.map((claim) => ({
      claim,
      owner: claim.owner_pid === caller.life.pid && caller.kind === 'client' ? 'caller' : lifeOf(host, ownerOf(claim)),
      child: lifeOf(host, claim.child),
    })),
    unknown_files: [...host.claims.values()].filter((claim) => claim === 'unreadable').length,
    marker: host.markers.get(stackDir) ?? 'absent',
    stack_dir_present: true,
  };
  const verdict = judgeRelease(question);
  if (!verdict.release) return verdict.reason;
  for (const claim of claims) {
    checkClaimGoes(sim, host, claim, lease.lease_id);
    host.claims.delete(claim.port_base);
  }
  const { marker } = question;
  if (typeof marker !== 'string' && markerAgrees(marker, question.lease)) {
    host.markers.set(stackDir, { ...marker, released_at: host.machine.clock.wallMs() });
  }
  return null;
}

export function proofIn(view: LeaseView): ReleaseProof | null {
  if (view.state !== 'reaped' || view.cleanup_verified !== true || view.cleanup_proof === null) return null;
  const { lease_id, state, cleanup_proof, cleanup_receipt_id } = view;
  return { lease_id, state, cleanup_verified: true, cleanup_proof, cleanup_receipt_id };
}

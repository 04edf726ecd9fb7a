/**
 * The thin shell around the claim rules: takes the locks, reads registry and marker, asks who is alive, carries out the
 * verdict. Owns `ports/*.json`; touches no stack. The coordinator is asked before the allocation lock is taken, so that
 * nobody waits for the network under it; the answer counts only for the very claim about which it was asked.
 * Read next: `claim-binding.ts`, `claim-release.ts`.
 */
import { type Clock, systemClock } from '../platform/clock.ts';
import { createExclusive, ensurePrivateDir } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { homePaths } from '../platform/paths.ts';
import { portIsFree } from '../platform/port-probe.ts';
import { isAlive, type ProcessIdentity } from '../platform/processes.ts';
import { sha256Hex } from '../platform/random.ts';
import { CLAIM_SCHEMA, type Claim, type LeaseFacts, ownerOf, type PortBlock } from '../protocol/claim.ts';
import { allocationLock, busy, projectLock } from './_claim-locks.ts';
import { markerFile, readMarker } from './_marker.ts';
import { claimFile, claimText, type Inventory, readInventory, removeClaim } from './claim-files.ts';
import {
  type Answer,
  type Asker,
  type BlockRange,
  blocksOverlap,
  chooseBlock,
  judgeAbandon,
  judgeFound,
  judgeMarker,
  judgeTakeover,
  type Life,
  retainUntil,
  wantedBase,
} from './claim-rules.ts';
import { type SlotIdentity, slotDirOf, slotPaths } from './slot.ts';

const HOLDERS_NAMED_MAX = 50;

export type AskLease = (claim: Claim) => Promise<LeaseFacts | 'no_answer'>;

export interface ClaimRequest {
  readonly home: string;
  readonly slot: SlotIdentity;
  readonly host: string;
  readonly stackDir: string;
  readonly portsNeeded: number;
  readonly owner: ProcessIdentity;
  readonly invocationToken: string;
  readonly leaseViewOf: AskLease;
  readonly range: { readonly first: number; readonly last: number };
  readonly size: number;
  /** Instead of the slot's own preference. */
  readonly preferred?: number;
  /** Blocks that the coordinator refused. */
  readonly avoid?: readonly PortBlock[];
  readonly clock?: Clock;
}

/** What an invocation claimed, or was offered of its slot's idle stack; `claims` are the files as they were seen. */
export interface ClaimHold {
  readonly asker: Asker;
  readonly owner: ProcessIdentity;
  readonly slot_dir_name: string;
  readonly claims: readonly Claim[];
  readonly blocks: readonly PortBlock[];
  readonly offered_idle: boolean;
  readonly wanted: number;
  readonly got: number;
}

export async function claimBlocks(request: ClaimRequest): Promise<ClaimHold> {
  const { home, slot } = request;
  ensurePrivateDir(home);
  ensurePrivateDir(homePaths(home).ports);
  ensurePrivateDir(homePaths(home).stacks);
  using _project =
    (await projectLock(home, slot.slot_dir_name)) ?? busy(slotPaths(slotDirOf(home, slot.slot_dir_name)).lock);
  const asker = askerOf(request);
  refuseForeignMarker(asker);
  const range: BlockRange = { ...request.range, size: request.size };
  const wanted = request.preferred ?? wantedBase(Number.parseInt(sha256Hex(slot.slot).slice(0, 8), 16), range);
  const found = foundClaims(request, asker, readInventory(home));
  if (found !== null) return holdOf(request, asker, wanted, found.claims, found.offered);
  const near = { port_base: wanted, size: request.size * blockCount(request) };
  for (const asks of [(claim: Claim) => blocksOverlap(claim, near), () => true]) {
    const facts = await factsOfStale(request, readInventory(home).claims.filter(asks));
    using _allocation = await allocationLock(home);
    const claims = allocate(request, asker, { wanted, range, facts });
    if (claims !== null) return holdOf(request, asker, wanted, claims, false);
  }
  throw rangeFull(request, readInventory(home));
}

/** Gives back what this invocation claimed and no lease came to carry. Returns the bases that are free now. */
export async function abandonClaims(options: { home: string; token: string; answer: Answer }): Promise<number[]> {
  using _allocation = await allocationLock(options.home);
  return readInventory(options.home)
    .claims.filter((claim) => judgeAbandon(claim, options.token, options.answer) && removeClaim(options.home, claim))
    .map((claim) => claim.port_base);
}

export function claimsOfSlot(home: string, slot: string): Claim[] {
  return readInventory(home).claims.filter((claim) => claim.slot === slot);
}

export function claimsOfLease(home: string, leaseId: string): Claim[] {
  return readInventory(home).claims.filter((claim) => claim.lease_id === leaseId);
}

export function lifeOf(identity: ProcessIdentity | null): Life {
  return identity !== null && isAlive(identity) ? 'alive' : 'dead';
}

function askerOf(request: ClaimRequest): Asker {
  return {
    invocation_token: request.invocationToken,
    slot: request.slot.slot,
    project_id: request.slot.project,
    host: request.host,
    stack_dir: request.stackDir,
  };
}

function refuseForeignMarker(asker: Asker): void {
  const marker = readMarker(asker.stack_dir);
  const verdict = judgeMarker(marker, asker);
  if (verdict === 'write') return;
  const file = markerFile(asker.stack_dir);
  if (verdict === 'unreadable' || typeof marker === 'string') {
    throw new Failure('STACK_CONTEXT_BIND_FAILED', `${file} cannot be read, so nobody knows what it binds`, {
      fields: { file, reason: 'marker_unreadable' },
    });
  }
  const { lease_id, project_id, stack_dir } = marker;
  throw new Failure('STACK_CONTEXT_ALREADY_BOUND', `${file} binds ${stack_dir} as ${project_id}, lease ${lease_id}`, {
    fields: { file, lease_id, project_id, stack_dir },
  });
}

function blockCount({ portsNeeded, size }: ClaimRequest): number {
  return Math.max(1, Math.ceil(portsNeeded / (size - 1)));
}

/** Claims of this very invocation, or the idle ones of its slot where they have room for its ports. */
function foundClaims(
  request: ClaimRequest,
  asker: Asker,
  inventory: Inventory,
): { claims: Claim[]; offered: boolean } | null {
  const avoided = (claim: Claim) => (request.avoid ?? []).some((block) => blocksOverlap(block, claim));
  const roomy = (claims: Claim[]) => claims.reduce((room, { size }) => room + size - 1, 0) >= request.portsNeeded;
  const judged = inventory.claims.filter((claim) => !avoided(claim));
  const ours = judged.filter((claim) => judgeFound(claim, asker) === 'ours');
  if (ours.length > 0 && roomy(ours)) return { claims: ours, offered: false };
  const idle = judged.filter((claim) => judgeFound(claim, asker) === 'offer_idle');
  const newest = idle.toSorted((a, b) => b.created_at - a.created_at)[0];
  const offered = idle.filter((claim) => claim.lease_id === newest?.lease_id);
  return offered.length > 0 && roomy(offered) ? { claims: offered, offered: true } : null;
}

type Facts = ReadonlyMap<string, LeaseFacts | 'no_answer'>;

const keyOf = (claim: Claim): string => JSON.stringify([claim.port_base, claim.invocation_token, claim.lease_id]);

/** Asks the coordinator about those claims that only its answer keeps. */
async function factsOfStale(request: ClaimRequest, claims: readonly Claim[]): Promise<Facts> {
  const notLive: LeaseFacts = { live: false, lease_id: null, state: null };
  const stale = claims.filter((claim) => takeover(request, claim, notLive) === 'take');
  const answers = stale.map(async (claim) => [keyOf(claim), await request.leaseViewOf(claim)] as const);
  return new Map(await Promise.all(answers));
}

function takeover(request: ClaimRequest, claim: Claim, lease: LeaseFacts | 'no_answer') {
  const now = (request.clock ?? systemClock).wallMs();
  return judgeTakeover({ claim, owner: lifeOf(ownerOf(claim)), child: lifeOf(claim.child), now, lease });
}

/** Under the allocation lock: the new claim files, or null when no block is left. */
function allocate(
  request: ClaimRequest,
  asker: Asker,
  { wanted, range, facts }: { wanted: number; range: BlockRange; facts: Facts },
): Claim[] | null {
  const { home } = request;
  const inventory = readInventory(home);
  const stale = inventory.claims.filter(
    (claim) => takeover(request, claim, facts.get(keyOf(claim)) ?? 'no_answer') === 'take',
  );
  const claimed: PortBlock[] = inventory.claims.filter((claim) => !stale.includes(claim));
  const unknown = inventory.unknown.flatMap(({ covers }) => covers);
  const busyBases = new Set<number>();
  const made: Claim[] = [];
  while (made.length < blockCount(request)) {
    const occupancy = { claimed, unknown, leased: request.avoid ?? [], busy_bases: busyBases };
    const block = chooseBlock(wanted, range, occupancy);
    if (block === null) break;
    if (!portsAreFree(block) || !clearStale(home, stale, block)) {
      busyBases.add(block.port_base);
      continue;
    }
    const claim = newClaim(request, asker, block);
    if (createExclusive(claimFile(home, block.port_base), claimText(claim))) made.push(claim);
    claimed.push(block);
  }
  if (made.length === blockCount(request)) return made;
  for (const claim of made) removeClaim(home, claim);
  return null;
}

function portsAreFree({ port_base, size }: PortBlock): boolean {
  return Array.from({ length: size }, (_, index) => port_base + index).every(portIsFree);
}

/** Takes over what stands on the block; false when a file would not go. */
function clearStale(home: string, stale: readonly Claim[], block: PortBlock): boolean {
  return stale.filter((claim) => blocksOverlap(claim, block)).every((claim) => removeClaim(home, claim));
}

export function newClaim(
  { owner, clock = systemClock }: { owner: ProcessIdentity; clock?: Clock },
  asker: Asker,
  { port_base, size }: PortBlock,
): Claim {
  const now = clock.wallMs();
  return {
    schema: CLAIM_SCHEMA,
    project_id: asker.project_id,
    host: asker.host,
    invocation_token: asker.invocation_token,
    slot: asker.slot,
    stack_dir: asker.stack_dir,
    port_base,
    size,
    lease_id: null,
    created_at: now,
    retain_until: retainUntil(now, null),
    owner_pid: owner.pid,
    owner_started_at: owner.started_at,
    owner_boot_id: owner.boot_id,
    child: null,
    idle: null,
  };
}

function holdOf(request: ClaimRequest, asker: Asker, wanted: number, claims: Claim[], offered: boolean): ClaimHold {
  const blocks = claims.map(({ port_base, size }) => ({ port_base, size }));
  return {
    asker,
    owner: request.owner,
    slot_dir_name: request.slot.slot_dir_name,
    claims,
    blocks,
    offered_idle: offered,
    wanted,
    got: blocks[0]?.port_base ?? wanted,
  };
}

function rangeFull(request: ClaimRequest, inventory: Inventory): Failure {
  const { first, last } = request.range;
  const holders = inventory.claims
    .slice(0, HOLDERS_NAMED_MAX)
    .map(({ port_base, slot, lease_id, owner_pid, stack_dir }) => {
      return { port_base, slot, lease_id, owner_pid, stack_dir };
    });
  const names = holders.slice(0, 5).map(({ port_base, stack_dir }) => `${port_base} ${stack_dir}`);
  const more = holders.length > names.length ? ` and ${holders.length - names.length} more` : '';
  const held = holders.length === 0 ? 'ports of other programs' : `${names.join(', ')}${more}`;
  return new Failure(
    'port_range_full',
    `no block of ${request.size} ports is free in ${first}-${last}; held by ${held}`,
    {
      fields: { first, last, size: request.size, holders, unknown_files: inventory.unknown.map(({ file }) => file) },
    },
  );
}

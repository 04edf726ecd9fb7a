/**
 * What happens to a claim while its lease lives: bound as soon as a lease is ours, given the child, renewed, made idle.
 * Each change is judged under the locks against what the file says now; all files of an invocation change, or none.
 */
import { type Clock, systemClock } from '../platform/clock.ts';
import { createExclusive, pathExists } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import type { ProcessIdentity } from '../platform/processes.ts';
import { CLAIM_SCHEMA, type Claim, type PortBlock } from '../protocol/claim.ts';
import { allocationLock, underClaimLocks } from './_claim-locks.ts';
import { markerFile, readMarker, writeMarker } from './_marker.ts';
import { claimFile, claimText, readClaim, readInventory, writeClaim } from './claim-files.ts';
import { type ClaimHold, newClaim } from './claim-registry.ts';
import { type Asker, judgeBind, judgeBlock, judgeMarker, retainUntil } from './claim-rules.ts';

/** A renewal that would gain less than this is not worth a write. */
const RENEWAL_MS_MIN = 60_000;

export interface BindRequest {
  readonly home: string;
  readonly hold: ClaimHold;
  readonly leaseId: string;
  readonly idleTtlMs: number;
  readonly clock?: Clock;
}

/** The client binds its lease. Refused as `STACK_CONTEXT_BIND_FAILED` when a file is not what was claimed any more. */
export async function bindClaims({
  home,
  hold,
  leaseId,
  idleTtlMs,
  clock = systemClock,
}: BindRequest): Promise<Claim[]> {
  return underClaimLocks(home, hold.slot_dir_name, () => {
    requireMarker(hold.asker, leaseId);
    const seen = new Map(hold.claims.map((claim) => [claim.port_base, claim]));
    const bound = hold.blocks.map((block) => {
      const claim = readClaim(home, block.port_base);
      const seenToken = seen.get(block.port_base)?.invocation_token ?? null;
      const question = {
        claim,
        asker: hold.asker,
        lease_id: leaseId,
        seen_token: seenToken,
        binder: 'client',
      } as const;
      const verdict = judgeBind(question);
      if (verdict.bind === 'refused') throw bindFailed(home, block, leaseId, verdict.reason);
      const base = typeof claim === 'string' ? newClaim({ owner: hold.owner, clock }, hold.asker, block) : claim;
      return {
        ...base,
        invocation_token: hold.asker.invocation_token,
        lease_id: leaseId,
        retain_until: retainUntil(clock.wallMs(), idleTtlMs),
        owner_pid: hold.owner.pid,
        owner_started_at: hold.owner.started_at,
        owner_boot_id: hold.owner.boot_id,
        child: null,
        idle: null,
      };
    });
    writeAll(home, bound, leaseId);
    bindMarker(hold.asker, leaseId);
    return bound;
  });
}

export interface ConfirmRequest {
  readonly home: string;
  readonly asker: Asker;
  readonly slotDirName: string;
  readonly leaseId: string;
  readonly blocks: readonly PortBlock[];
  readonly idleTtlMs: number;
  readonly clock?: Clock;
}

/** The Helper's look before it provisions: each block is claimed here by the lease's invocation; bound if the client did not. */
export async function confirmClaims(request: ConfirmRequest): Promise<Claim[]> {
  const { home, asker, leaseId, blocks, idleTtlMs, clock = systemClock } = request;
  return underClaimLocks(home, request.slotDirName, () => {
    const bound = blocks.map((block) => {
      const claim = readClaim(home, block.port_base);
      const verdict = judgeBind({ claim, asker, lease_id: leaseId, seen_token: null, binder: 'helper' });
      if (verdict.bind === 'refused') throw bindFailed(home, block, leaseId, verdict.reason);
      if (typeof claim === 'string' || claim.size !== block.size) {
        throw bindFailed(home, block, leaseId, 'claim_replaced');
      }
      const retained = Math.max(claim.retain_until, retainUntil(clock.wallMs(), idleTtlMs));
      return {
        ...claim,
        invocation_token: asker.invocation_token,
        lease_id: leaseId,
        retain_until: retained,
        idle: null,
      };
    });
    for (const claim of bound) writeClaim(home, claim);
    if (pathExists(asker.stack_dir) && judgeMarker(readMarker(asker.stack_dir), asker) === 'write') {
      bindMarker(asker, leaseId);
    }
    return bound;
  });
}

/** Notes the group of the command that `stack run` started; answers how many files name it now. */
export function recordChild(options: { home: string; token: string; child: ProcessIdentity | null }): Promise<number> {
  const { home, token, child } = options;
  return change(home, (claim) => (claim.invocation_token === token ? { ...claim, child } : null));
}

/** Keeps the claims of a living lease; answers how many there are. */
export async function renewClaims(options: {
  home: string;
  leaseId: string;
  idleTtlMs: number;
  clock?: Clock;
}): Promise<number> {
  const { home, leaseId, idleTtlMs, clock = systemClock } = options;
  const until = retainUntil(clock.wallMs(), idleTtlMs);
  const claims = readInventory(home).claims.filter((claim) => claim.lease_id === leaseId);
  if (claims.some((claim) => until - claim.retain_until >= RENEWAL_MS_MIN)) {
    await change(home, (claim) => {
      if (claim.lease_id !== leaseId) return null;
      return { ...claim, retain_until: Math.max(claim.retain_until, until) };
    });
  }
  return claims.length;
}

/** The lease was released without teardown: the claim waits for the next command of its slot. */
export function markIdle(options: {
  home: string;
  leaseId: string;
  idleTtlMs: number;
  clock?: Clock;
}): Promise<number> {
  const { home, leaseId, idleTtlMs, clock = systemClock } = options;
  const now = clock.wallMs();
  return change(home, (claim) => {
    if (claim.lease_id !== leaseId) return null;
    return { ...claim, idle: { since_at: now }, child: null, retain_until: retainUntil(now, idleTtlMs) };
  });
}

async function change(home: string, edit: (claim: Claim) => Claim | null): Promise<number> {
  using _allocation = await allocationLock(home);
  const edited = readInventory(home).claims.flatMap((claim) => edit(claim) ?? []);
  for (const claim of edited) writeClaim(home, claim);
  return edited.length;
}

function writeAll(home: string, bound: readonly Claim[], leaseId: string): void {
  const inventory = readInventory(home);
  const there = new Set(inventory.claims.map(({ port_base }) => port_base));
  const gone = bound.filter(({ port_base }) => !there.has(port_base));
  const occupancy = {
    claimed: inventory.claims,
    unknown: inventory.unknown.flatMap(({ covers }) => covers),
    leased: [],
    busy_bases: new Set<number>(),
  };
  for (const claim of gone) {
    const verdict = judgeBlock(claim, occupancy);
    if (verdict !== 'free') throw bindFailed(home, claim, leaseId, 'claim_replaced');
  }
  for (const claim of bound) {
    if (there.has(claim.port_base)) writeClaim(home, claim);
    else createExclusive(claimFile(home, claim.port_base), claimText(claim));
  }
}

function requireMarker(asker: Asker, leaseId: string): void {
  const verdict = judgeMarker(readMarker(asker.stack_dir), asker);
  if (verdict === 'write') return;
  const file = markerFile(asker.stack_dir);
  throw new Failure('STACK_CONTEXT_BIND_FAILED', `lease ${leaseId} cannot be bound: ${file} is ${verdict}`, {
    fields: {
      lease_id: leaseId,
      file,
      reason: verdict === 'unreadable' ? 'marker_unreadable' : 'marker_bound_elsewhere',
    },
  });
}

function bindMarker(asker: Asker, leaseId: string): void {
  writeMarker({
    schema: CLAIM_SCHEMA,
    invocation_token: asker.invocation_token,
    lease_id: leaseId,
    project_id: asker.project_id,
    stack_dir: asker.stack_dir,
    released_at: null,
  });
}

function bindFailed(home: string, block: PortBlock, leaseId: string, reason: string): Failure {
  const file = claimFile(home, block.port_base);
  return new Failure('STACK_CONTEXT_BIND_FAILED', `lease ${leaseId} cannot be bound to ${file}: ${reason}`, {
    fields: { lease_id: leaseId, file, port_base: block.port_base, reason },
  });
}

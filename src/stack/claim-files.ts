/**
 * The registry directory as it is read and written: one file a block, `<port_base>.json`. A file that is not exactly
 * that stays where it is and is reported with what it may cover.
 */
import { join } from 'node:path';
import { listDir, readTextIfPresent, removeDurable, writeFileDurable } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { homePaths } from '../platform/paths.ts';
import { type Claim, claimSchema, type PortBlock } from '../protocol/claim.ts';

export interface UnknownClaimFile {
  readonly file: string;
  readonly why: 'unreadable' | 'not_a_claim' | 'wrong_name';
  /** The blocks that it may stand for. */
  readonly covers: readonly PortBlock[];
}

export interface Inventory {
  readonly claims: readonly Claim[];
  readonly unknown: readonly UnknownClaimFile[];
}

/** How many ports a file is taken to cover when it does not tell. */
const ASSUMED_SIZE = 20;

export function claimFile(home: string, portBase: number): string {
  return join(homePaths(home).ports, `${portBase}.json`);
}

export function allocationLockFile(home: string): string {
  return join(homePaths(home).ports, 'allocation.lock');
}

export function readInventory(home: string): Inventory {
  const directory = homePaths(home).ports;
  const claims: Claim[] = [];
  const unknown: UnknownClaimFile[] = [];
  for (const name of listDir(directory)) {
    if (!name.endsWith('.json') || name.startsWith('.')) continue;
    const read = readNamed(join(directory, name), baseInName(name));
    if (read === 'absent') continue;
    if ('why' in read) unknown.push(read);
    else claims.push(read);
  }
  return { claims, unknown };
}

/** The claim of exactly this base, or why there is none. */
export function readClaim(home: string, portBase: number): Claim | 'absent' | 'unreadable' {
  const read = readNamed(claimFile(home, portBase), portBase);
  if (read === 'absent') return 'absent';
  return 'why' in read ? 'unreadable' : read;
}

export function claimText(claim: Claim): string {
  return `${JSON.stringify(claim)}\n`;
}

export function writeClaim(home: string, claim: Claim): void {
  writeFileDurable(claimFile(home, claim.port_base), claimText(claim));
}

/** False when somebody else's file or an error is in the way: never a reason to go on. */
export function removeClaim(home: string, claim: Claim): boolean {
  try {
    removeDurable(claimFile(home, claim.port_base));
    return readClaim(home, claim.port_base) === 'absent';
  } catch (error) {
    if (error instanceof Failure) return false;
    throw error;
  }
}

function readNamed(file: string, base: number | null): Claim | UnknownClaimFile | 'absent' {
  const named = base === null ? [] : [{ port_base: base, size: ASSUMED_SIZE }];
  let text: string | null;
  try {
    text = readTextIfPresent(file);
  } catch (error) {
    if (error instanceof Failure) return { file, why: 'unreadable', covers: named };
    throw error;
  }
  if (text === null) return 'absent';
  const parsed = claimSchema.safeParse(jsonOf(text));
  if (!parsed.success) return { file, why: 'not_a_claim', covers: named };
  const claim = parsed.data;
  if (claim.port_base === base) return claim;
  return { file, why: 'wrong_name', covers: [...named, { port_base: claim.port_base, size: claim.size }] };
}

function baseInName(name: string): number | null {
  const digits = /^([1-9]\d{0,4})\.json$/.exec(name)?.[1];
  return digits === undefined ? null : Number(digits);
}

export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

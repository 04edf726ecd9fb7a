/** Looking for everything of a lease on this host. Reads only; what cannot be told is `unknown`, never `absent`. */
import { pathExists } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { tryLock } from '../platform/kernel-lock.ts';
import { bootId } from '../platform/machine.ts';
import { portIsFree } from '../platform/port-probe.ts';
import { environmentsAreVisible } from '../platform/process-table.ts';
import { findMarked, isAlive, type ProcessIdentity } from '../platform/processes.ts';
import { type Creation, type Look, type StartedGroup, supervisorStateSchema } from '../protocol/stack-records.ts';
import { hasMembers } from './_groups.ts';
import { readRecord } from './_records.ts';
import { readInventory } from './claim-files.ts';
import type { Disposition } from './driver.ts';
import { type SlotPaths, slotPaths } from './slot.ts';
import { REAP_MARK } from './variables.ts';

export interface LookQuestion {
  readonly home: string;
  readonly slotDir: string;
  readonly leaseId: string;
  /** Null when nothing of this lease was ever created. */
  readonly creation: Creation | null;
  /** Ports to look at when nothing was created. */
  readonly ports: readonly number[];
  readonly disposition: Disposition;
}

export function lookForAll(question: LookQuestion): Look[] {
  const { creation, slotDir, disposition } = question;
  const looks: Look[] = [...lookForSupervisor(question), ...lookForGroups(question)];
  if (environmentsAreVisible) looks.push(lookForMarked(question.leaseId));
  looks.push(...lookForChildren(question));
  for (const port of creation?.ports ?? question.ports) {
    looks.push({ kind: 'port', id: String(port), seen: seenIf(() => !portIsFree(port)) });
  }
  if (creation !== null && disposition === 'destroy') {
    const path = slotPaths(slotDir).data;
    looks.push({ kind: 'directory', id: path, seen: seenIf(() => pathExists(path)) });
  }
  return looks;
}

/** A second look at a process that an earlier look found and whose record has gone since; its id alone tells which. */
export function lookAgain(earlier: Look): Look[] {
  const [, pid, startedAt] = /(?:^| )(\d+)@(.+)$/s.exec(earlier.id) ?? [];
  if (pid === undefined || startedAt === undefined) return [];
  const identity = { pid: Number(pid), started_at: startedAt, boot_id: bootId() };
  return [{ ...earlier, seen: seenIf(() => hasMembers(identity)) }];
}

/** The groups that the supervisor recorded for this lease, in the order in which they were started. */
export function recordedGroups(slotDir: string, leaseId: string): StartedGroup[] | 'unreadable' {
  const state = readRecord(slotPaths(slotDir).supervisor, supervisorStateSchema);
  if (state === 'unreadable') return 'unreadable';
  return state === null || state.lease_id !== leaseId ? [] : state.groups;
}

/** The children of `stack run` as the claims of the lease name them. */
export function recordedChildren(home: string, leaseId: string): ProcessIdentity[] {
  const claims = readInventory(home).claims.filter((claim) => claim.lease_id === leaseId);
  const children = claims.flatMap(({ child }) => child ?? []);
  return children.filter((child, index) => children.findIndex(({ pid }) => pid === child.pid) === index);
}

function lookForSupervisor({ slotDir, leaseId }: LookQuestion): Look[] {
  const paths = slotPaths(slotDir);
  const state = readRecord(paths.supervisor, supervisorStateSchema);
  if (state === 'unreadable') return [{ kind: 'supervisor', id: paths.supervisor, seen: 'unknown' }];
  const known = state !== null && state.lease_id === leaseId ? state.identity : null;
  const lives = () => (known !== null && isAlive(known)) || supervisorLives(paths);
  return [{ kind: 'supervisor', id: known === null ? paths.supervisorLock : idOf(known), seen: seenIf(lives) }];
}

/** One that was started and has written nothing yet shows by its lock. */
export function supervisorLives({ supervisorLock }: SlotPaths): boolean {
  if (!pathExists(supervisorLock)) return false;
  using lock = tryLock(supervisorLock);
  return lock === null;
}

function lookForGroups({ slotDir, leaseId }: LookQuestion): Look[] {
  const groups = recordedGroups(slotDir, leaseId);
  if (groups === 'unreadable') return [{ kind: 'group', id: slotPaths(slotDir).supervisor, seen: 'unknown' }];
  return groups.map(({ name, identity }) => {
    return { kind: 'group', id: `${name} ${idOf(identity)}`, seen: seenIf(() => hasMembers(identity)) };
  });
}

function lookForMarked(leaseId: string): Look {
  return {
    kind: 'marked',
    id: `${REAP_MARK}=${leaseId}`,
    seen: seenIf(() => findMarked(REAP_MARK, leaseId).length > 0),
  };
}

function lookForChildren({ home, leaseId }: LookQuestion): Look[] {
  const { claims, unknown } = readInventory(home);
  const claimed = claims.some((claim) => claim.lease_id === leaseId);
  if (!claimed && unknown.length > 0 && !environmentsAreVisible) {
    return [{ kind: 'child', id: unknown[0]?.file ?? 'ports', seen: 'unknown' }];
  }
  return recordedChildren(home, leaseId).map((child) => {
    return { kind: 'child', id: idOf(child), seen: seenIf(() => hasMembers(child)) };
  });
}

function idOf({ pid, started_at }: ProcessIdentity): string {
  return `${pid}@${started_at}`;
}

function seenIf(look: () => boolean): Look['seen'] {
  try {
    return look() ? 'present' : 'absent';
  } catch (error) {
    if (error instanceof Failure) return 'unknown';
    throw error;
  }
}

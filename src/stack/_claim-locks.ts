/** The two locks of the registry, always in this order: the project's, then the allocation's. */

import { Failure } from '../platform/failure.ts';
import { acquireLock, type KernelLock, tryLock } from '../platform/kernel-lock.ts';
import { allocationLockFile } from './claim-files.ts';
import { slotDirOf, slotPaths } from './slot.ts';

export const LOCK_WAIT_MS = 15_000;

/** Null when another command of the slot works on its claims and `timeoutMs` is 0. */
export async function projectLock(
  home: string,
  slotDirName: string,
  timeoutMs = LOCK_WAIT_MS,
): Promise<KernelLock | null> {
  const path = slotPaths(slotDirOf(home, slotDirName)).lock;
  return timeoutMs === 0 ? tryLock(path) : acquireLock(path, { timeoutMs });
}

export async function allocationLock(home: string): Promise<KernelLock> {
  const path = allocationLockFile(home);
  return (await acquireLock(path, { timeoutMs: LOCK_WAIT_MS })) ?? busy(path);
}

/** Runs `action` under both locks. */
export async function underClaimLocks<T>(home: string, slotDirName: string, action: () => T): Promise<T> {
  using _project = (await projectLock(home, slotDirName)) ?? busy(slotPaths(slotDirOf(home, slotDirName)).lock);
  using _allocation = await allocationLock(home);
  return action();
}

export function busy(path: string): never {
  throw new Failure('claim_lock_busy', `another command has held ${path} for ${LOCK_WAIT_MS / 1_000} s`, {
    fields: { path },
  });
}

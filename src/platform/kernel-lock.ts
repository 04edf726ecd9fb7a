/**
 * A lock that the kernel frees when its holder ends, however that happens.
 * An SQLite file is opened for nothing but its lock. Two things would free it early: losing the last reference to the
 * handle (so `held` keeps it), and closing any other descriptor of the same file in the holding process (so nothing
 * here opens the file by itself, and a path that this process holds is answered without being touched).
 * Lock files are never removed: whoever waits on a removed one would hold a lock that nobody else sees.
 */
import { Database } from 'bun:sqlite';
import { lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { ensurePrivateDir, unwritable } from './durable-files.ts';
import { errnoOf, Failure } from './failure.ts';
import { jitter } from './random.ts';
import { deadlineIn, sleepMs } from './timers.ts';

export interface KernelLock extends Disposable {
  readonly path: string;
  release(): void;
}

const PAUSE_MS_MIN = 2;
const PAUSE_MS_MAX = 50;

const held = new Map<string, Database>();

/** The lock, or null when another process (or another part of this one) holds it. */
export function tryLock(path: string): KernelLock | null {
  const key = lockKey(path);
  if (held.has(key)) return null;
  const database = openPrivately(key);
  try {
    database.run('PRAGMA locking_mode=EXCLUSIVE');
    database.run('BEGIN IMMEDIATE');
  } catch (error) {
    database.close();
    if (sqliteCode(error).startsWith('SQLITE_BUSY')) return null;
    throw lockFailure(path, error);
  }
  held.set(key, database);
  return heldLock(path, key, database);
}

/** The same with patience: null when it did not come free in time. */
export async function acquireLock(path: string, { timeoutMs }: { timeoutMs: number }): Promise<KernelLock | null> {
  const deadline = deadlineIn(timeoutMs);
  let pauseMs = PAUSE_MS_MIN;
  for (;;) {
    const lock = tryLock(path);
    if (lock !== null) return lock;
    if (deadline.expired()) return null;
    await sleepMs(Math.min(pauseMs + jitter(pauseMs), deadline.remainingMs()));
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX);
  }
}

function heldLock(path: string, key: string, database: Database): KernelLock {
  const release = () => {
    if (held.get(key) !== database) return;
    held.delete(key);
    try {
      database.run('ROLLBACK');
    } finally {
      database.close();
    }
  };
  return { path, release, [Symbol.dispose]: release };
}

function lockKey(path: string): string {
  const directory = dirname(path);
  try {
    return join(realpathSync(directory), basename(path));
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw unwritable(path, 'lock', error);
    ensurePrivateDir(directory);
    return join(realpathSync(directory), basename(path));
  }
}

function openPrivately(path: string): Database {
  const before = process.umask(0o077);
  try {
    return new Database(path, { create: true, readwrite: true });
  } catch (error) {
    throw lockFailure(path, error);
  } finally {
    process.umask(before);
  }
}

function lockFailure(path: string, cause: unknown): Failure {
  const errno = errnoOf(cause) ?? sqliteCode(cause);
  const kind = lockFileKind(path);
  return new Failure('state_unwritable', `cannot lock ${path} (${errno}${kind})`, { cause, fields: { path, errno } });
}

function lockFileKind(path: string): string {
  try {
    return lstatSync(path).isFile() ? '' : ', not a file';
  } catch {
    return ', missing';
  }
}

function sqliteCode(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unknown';
}

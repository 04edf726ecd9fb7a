/**
 * Files that survive power loss and never show half of their content.
 * Every error leaves as a `Failure` with path and errno. Missing files are an answer, unreadable ones are not.
 */
import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errnoOf, Failure } from './failure.ts';
import { newId } from './random.ts';

/** So much of a file's name goes into that of its temporary one, which must not get too long. */
const TEMPORARY_NAME_CHARS = 64;
const PRIVATE_FILE_MODE = 0o600;
const PRIVATE_DIR_MODE = 0o700;
/** The sticky bit: a place like /tmp, whose mode must stay as it is. */
const SHARED_BIT = 0o1000;

/** Replaces the file in one step: either the old content is there or the new, and the new is on the disk on return. */
export function writeFileDurable(path: string, data: string | Uint8Array, options: { mode?: number } = {}): void {
  withTemporary(path, data, options.mode ?? PRIVATE_FILE_MODE, (temporary) => renameSync(temporary, path));
}

/** Makes the file with its whole content, or answers false when the name is taken. */
export function createExclusive(path: string, data: string | Uint8Array): boolean {
  return withTemporary(path, data, PRIVATE_FILE_MODE, (temporary) => {
    try {
      linkSync(temporary, path);
      return true;
    } catch (error) {
      if (errnoOf(error) === 'EEXIST') return false;
      throw error;
    } finally {
      unlinkSync(temporary);
    }
  });
}

export function readTextIfPresent(path: string): string | null {
  return orNullWhenMissing(path, 'read', () => readFileSync(path, 'utf8'));
}

/** True when a file was there and its removal is on the disk. */
export function removeDurable(path: string): boolean {
  const removed = orNullWhenMissing(path, 'remove', () => {
    unlinkSync(path);
    return true;
  });
  if (removed === null) return false;
  syncDirectory(dirname(path));
  return true;
}

/** Removes a directory with all that it holds; a missing one is fine. */
export function removeTree(path: string): void {
  attempt(path, 'remove', () => rmSync(path, { recursive: true, force: true, maxRetries: 3 }));
}

/** Sorted names; a missing directory has none. */
export function listDir(path: string): string[] {
  return orNullWhenMissing(path, 'list', () => readdirSync(path).sort()) ?? [];
}

/** True for anything that has this name, a dangling link too. */
export function pathExists(path: string): boolean {
  return orNullWhenMissing(path, 'look at', () => lstatSync(path)) !== null;
}

/** The path without links; a missing one is a failure. */
export function realPath(path: string): string {
  return attempt(path, 'resolve', () => realpathSync(path));
}

/** A file-system failure in our words, with what a receipt needs. */
export function unwritable(path: string, verb: string, cause: unknown): Failure {
  if (cause instanceof Failure) return cause;
  const errno = errnoOf(cause) ?? 'unknown';
  return new Failure('state_unwritable', `cannot ${verb} ${path} (${errno})`, { cause, fields: { path, errno } });
}

export function syncDirectory(path: string): void {
  attempt(path, 'sync', () => {
    const handle = openSync(path, constants.O_RDONLY);
    try {
      fsyncSync(handle);
    } catch (error) {
      const errno = errnoOf(error);
      if (errno !== 'EINVAL' && errno !== 'ENOTSUP') throw error;
    } finally {
      closeSync(handle);
    }
  });
}

function withTemporary<T>(path: string, data: string | Uint8Array, mode: number, publish: (temporary: string) => T): T {
  const temporary = join(dirname(path), `.${basename(path).slice(0, TEMPORARY_NAME_CHARS)}.${newId()}.tmp`);
  return attempt(path, 'write', () => {
    try {
      writeWhole(temporary, typeof data === 'string' ? Buffer.from(data, 'utf8') : data, mode);
      const published = publish(temporary);
      syncDirectory(dirname(path));
      return published;
    } catch (error) {
      discard(temporary);
      throw error;
    }
  });
}

/** The first failure is the one to report. */
function discard(path: string): void {
  try {
    unlinkSync(path);
  } catch {}
}

function writeWhole(path: string, bytes: Uint8Array, mode: number): void {
  const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;
  const handle = openSync(path, flags, PRIVATE_FILE_MODE);
  try {
    fchmodSync(handle, mode);
    let offset = 0;
    while (offset < bytes.length) offset += writeSync(handle, bytes, offset);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

function orNullWhenMissing<T>(path: string, verb: string, action: () => T): T | null {
  try {
    return action();
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw unwritable(path, verb, error);
  }
}

function attempt<T>(path: string, verb: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw unwritable(path, verb, error);
  }
}

export function effectiveUserId(): number {
  return process.geteuid?.() ?? -1;
}

/** Makes the directory and what is missing above it, 0700 under any umask; refuses one that another user owns, or all share. */
export function ensurePrivateDir(path: string): void {
  try {
    makePrivate(path);
    const link = lstatSync(path);
    if (link.uid !== effectiveUserId()) throw foreign(path, link);
    const target = link.isSymbolicLink() ? statSync(path) : link;
    if (target.uid !== effectiveUserId()) throw foreign(path, target);
    if (!target.isDirectory()) {
      throw new Failure('state_unwritable', `${path} is not a directory`, { fields: { path, errno: 'ENOTDIR' } });
    }
    if ((target.mode & SHARED_BIT) !== 0) {
      throw new Failure('state_foreign', `${path} is shared with other users`, { fields: { path } });
    }
    if ((target.mode & 0o077) !== 0) chmodSync(path, PRIVATE_DIR_MODE);
  } catch (error) {
    throw unwritable(path, 'make the directory', error);
  }
}

function makePrivate(path: string): void {
  try {
    mkdirSync(path, { mode: PRIVATE_DIR_MODE });
    chmodSync(path, PRIVATE_DIR_MODE);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'EEXIST') return;
    if (errno !== 'ENOENT' || dirname(path) === path) throw error;
    makePrivate(dirname(path));
    makePrivate(path);
  }
}

function foreign(path: string, stats: Stats): Failure {
  return new Failure('state_foreign', `${path} belongs to another user (uid ${stats.uid})`, {
    fields: { path, owner_uid: stats.uid, own_uid: effectiveUserId() },
  });
}

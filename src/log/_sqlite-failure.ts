/** SQLite's own words as our failures, by its result code and never by its message. */
import { Failure } from '../platform/failure.ts';

const DISK = /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|PERM)/;
const DAMAGED = /^SQLITE_(CORRUPT|NOTADB|SCHEMA|FORMAT)/;

function sqliteCode(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unknown';
}

export function sqliteFailure(path: string, verb: string, cause: unknown): Failure {
  if (cause instanceof Failure) return cause;
  const errno = sqliteCode(cause);
  const options = { cause, fields: { path, errno } };
  if (DISK.test(errno)) return new Failure('state_unwritable', `cannot ${verb} ${path} (${errno})`, options);
  if (DAMAGED.test(errno)) return corrupt(path, `is damaged (${errno})`, cause);
  return new Failure('log_unavailable', `cannot ${verb} ${path} (${errno})`, options);
}

export function corrupt(path: string, what: string, cause?: unknown): Failure {
  return new Failure('log_corrupt', `the database ${path} ${what}; it is left as it is`, { cause, fields: { path } });
}

/** Runs one step on the database; what it throws leaves as a failure. */
export function onDatabase<T>(path: string, verb: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw sqliteFailure(path, verb, error);
  }
}

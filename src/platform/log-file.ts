import { closeSync, constants, copyFileSync, fstatSync, openSync, readSync, statSync, truncateSync } from 'node:fs';
import { dirname } from 'node:path';
import { ensurePrivateDir, unwritable } from './durable-files.ts';
import { errnoOf } from './failure.ts';
import { every } from './timers.ts';

const LOG_BYTES_MAX = 5 * 1024 * 1024;
const LOG_CHECK_MS = 60_000;

/** Keeps one older generation as `PATH.1`. Writers that append may go on: the file is emptied, not replaced. */
export function rotateLog(path: string, bytesMax = LOG_BYTES_MAX): void {
  try {
    ensurePrivateDir(dirname(path));
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
    if (size <= bytesMax) return;
    copyFileSync(path, `${path}.1`);
    truncateSync(path, 0);
  } catch (error) {
    throw unwritable(path, 'rotate', error);
  }
}

/** For a service that runs long: looks at its log every minute until the returned function is called. */
export function keepLogBounded(path: string, bytesMax = LOG_BYTES_MAX): () => void {
  return every(LOG_CHECK_MS, () => rotateLog(path, bytesMax));
}

/** The last complete lines of a file, at most `bytesMax` of it; null when there is no such file. */
export function readTail(path: string, bytesMax: number): string | null {
  try {
    const handle = openSync(path, constants.O_RDONLY);
    try {
      const size = fstatSync(handle).size;
      // One byte more tells whether the first line in reach is whole.
      const from = Math.max(0, size - bytesMax - 1);
      const buffer = Buffer.alloc(size - from);
      const count = readSync(handle, buffer, 0, buffer.length, from);
      const text = buffer.toString('utf8', 0, count);
      return size <= bytesMax ? text : text.slice(text.indexOf('\n') + 1);
    } finally {
      closeSync(handle);
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw unwritable(path, 'read', error);
  }
}

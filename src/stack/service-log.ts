/** Output of services and of the commands around them: one private file each, bounded, readable while they run. */
import { join } from 'node:path';
import { ensurePrivateDir, listDir } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { readTail, rotateLog } from '../platform/log-file.ts';
import { every } from '../platform/timers.ts';
import { slotPaths } from './slot.ts';

/** No service can be called so. */
export const SETUP_LOG = '_setup';
export const LINES_ON_A_RECEIPT = 20;

const LOG_BYTES_MAX = 10 * 1024 * 1024;
const LOG_CHECK_MS = 1_000;
const TAIL_BYTES_MAX = 64 * 1024;

/** One whole log at a time goes to `NAME.log.1`: what a new start writes stands alone. */
export function beginLog(slotDir: string, name: string): string {
  ensurePrivateDir(slotPaths(slotDir).logs);
  const path = serviceLogFile(slotDir, name);
  rotateLog(path, 0);
  return path;
}

export function serviceLogFile(slotDir: string, name: string): string {
  return join(slotPaths(slotDir).logs, `${name}.log`);
}

/** Services, and the set-up under its own name, as far as they have said anything. */
export function loggedNames(slotDir: string): string[] {
  return listDir(slotPaths(slotDir).logs)
    .filter((name) => name.endsWith('.log'))
    .map((name) => name.slice(0, -'.log'.length));
}

export function lastLines(slotDir: string, name: string, count = LINES_ON_A_RECEIPT): string[] {
  const text = readTail(serviceLogFile(slotDir, name), TAIL_BYTES_MAX) ?? '';
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.slice(-count);
}

/** Until the returned function is called; what is written between two looks may be more. */
export function keepLogsBounded(
  slotDir: string,
  onFailure: (failure: Failure) => void,
  bytesMax = LOG_BYTES_MAX,
): () => void {
  return every(LOG_CHECK_MS, () => {
    try {
      for (const name of loggedNames(slotDir)) rotateLog(serviceLogFile(slotDir, name), bytesMax);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      onFailure(error);
    }
  });
}

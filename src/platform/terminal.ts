import { writeSync } from 'node:fs';
import { isatty, type WriteStream } from 'node:tty';
import { errnoOf } from './failure.ts';

const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
const DESCRIPTORS = { stdin: STDIN, stdout: STDOUT, stderr: STDERR } as const;
const COLUMNS_DEFAULT = 80;
const FULL_PIPE_PAUSE_MS = 2;

export function isTTY(stream: 'stdin' | 'stdout' | 'stderr'): boolean {
  return isatty(DESCRIPTORS[stream]);
}

/** Columns of the terminal that a person reads, 80 where there is none. */
export function terminalWidth(): number {
  for (const descriptor of [STDERR, STDOUT]) {
    if (!isatty(descriptor)) continue;
    const columns = (descriptor === STDERR ? process.stderr : process.stdout) satisfies WriteStream;
    if (columns.columns > 0) return columns.columns;
  }
  return COLUMNS_DEFAULT;
}

/** Returns when all of it is in the pipe; a reader that went away is not an error. */
export function writeStdout(text: string): void {
  writeWhole(STDOUT, text);
}

export function writeStderr(text: string): void {
  writeWhole(STDERR, text);
}

function writeWhole(descriptor: number, text: string): void {
  const bytes = Buffer.from(text, 'utf8');
  let offset = 0;
  while (offset < bytes.length) {
    try {
      offset += writeSync(descriptor, bytes, offset);
    } catch (error) {
      const errno = errnoOf(error);
      if (errno === 'EAGAIN') pause(FULL_PIPE_PAUSE_MS);
      else if (errno === 'EPIPE' || errno === 'EBADF' || errno === 'EIO') return;
      else throw error;
    }
  }
}

function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

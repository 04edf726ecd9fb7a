import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { errnoOf } from './failure.ts';

const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
const DESCRIPTORS = { stdin: STDIN, stdout: STDOUT, stderr: STDERR } as const;
const COLUMNS_DEFAULT = 80;
const FULL_PIPE_PAUSE_MS = 2;
const NEWLINE = 0x0a;

export function isTTY(stream: 'stdin' | 'stdout' | 'stderr'): boolean {
  return isTerminal(DESCRIPTORS[stream]);
}

/** Columns of the terminal that a person reads, 80 where there is none. */
export function terminalWidth(): number {
  for (const descriptor of [STDERR, STDOUT]) {
    if (!isTerminal(descriptor)) continue;
    const { columns } = descriptor === STDERR ? process.stderr : process.stdout;
    if (columns > 0) return columns;
  }
  return COLUMNS_DEFAULT;
}

/** Returns when all of it is in the pipe; a reader that went away is not an error. */
export function writeStdout(text: string): void {
  writeWhole(STDOUT, text);
}

/** What cannot be written (a log on a full disk) is lost: to say something must not break what goes on. */
export function writeStderr(text: string): void {
  try {
    writeWhole(STDERR, text);
  } catch {
    return;
  }
}

/** node:tty costs 3 ms to load, and files and pipes need no closer look. */
function isTerminal(descriptor: number): boolean {
  try {
    return fstatSync(descriptor).isCharacterDevice() && process.getBuiltinModule('node:tty').isatty(descriptor);
  } catch {
    return false;
  }
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

/** Whether stdout ends in a newline, or is still empty, where that can be seen (a plain file); null elsewhere. */
export function lastStdoutByteIsNewline(): boolean | null {
  try {
    const file = fstatSync(STDOUT);
    if (!file.isFile()) return null;
    if (file.size === 0) return true;
    const handle = openSync(`/dev/fd/${STDOUT}`, 'r');
    try {
      const last = new Uint8Array(1);
      return readSync(handle, last, 0, 1, file.size - 1) === 1 && last[0] === NEWLINE;
    } finally {
      closeSync(handle);
    }
  } catch {
    return null;
  }
}

/** A line may be rewritten in place: a terminal that understands it, and nobody who asked for plain text. */
export function canAnimate(): boolean {
  return isTTY('stderr') && process.env['TERM'] !== 'dumb' && process.env['NO_COLOR'] === undefined;
}

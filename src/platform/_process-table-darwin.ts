import { dlopen, FFIType } from 'bun:ffi';
import { Failure } from './failure.ts';
import type { ProcessRow } from './process-table.ts';

const COLUMNS = 'pid=,ppid=,pgid=,state=,lstart=';
const LINE = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S.*\S)\s*$/;

export function readDarwinTable(): ProcessRow[] {
  return rowsOf(ps(['-axo', COLUMNS]));
}

export function readDarwinRow(pid: number): ProcessRow | null {
  return rowsOf(ps(['-o', COLUMNS, '-p', String(pid)])).find((row) => row.pid === pid) ?? null;
}

/** Lines of `ps`, whose session column is an address there: the session comes from `sessionOf`. */
export function parsePsLines(text: string, sessionOf: (pid: number) => number | null): ProcessRow[] {
  const rows: ProcessRow[] = [];
  for (const line of text.split('\n')) {
    const [, pid, ppid, pgid, state, startedAt] = LINE.exec(line) ?? [];
    if (pid === undefined || state === undefined || startedAt === undefined) continue;
    rows.push({
      pid: Number(pid),
      ppid: Number(ppid),
      pgid: Number(pgid),
      sid: sessionOf(Number(pid)) ?? Number(pgid),
      state,
      started_at: startedAt.replace(/\s+/g, ' '),
      zombie: state.startsWith('Z'),
    });
  }
  return rows;
}

function rowsOf(text: string): ProcessRow[] {
  return parsePsLines(text, sessionOf);
}

function ps(argv: string[]): string {
  try {
    return Bun.spawnSync(['/bin/ps', ...argv], { env: { LC_ALL: 'C', TZ: 'UTC' }, stdin: 'ignore' }).stdout.toString();
  } catch (cause) {
    throw new Failure('internal', 'cannot list processes', { cause });
  }
}

let getsid: ((pid: number) => number) | undefined;

function sessionOf(pid: number): number | null {
  getsid ??= dlopen('libSystem.B.dylib', { getsid: { args: [FFIType.i32], returns: FFIType.i32 } }).symbols.getsid;
  const session = getsid(pid);
  return session > 0 ? session : null;
}

/** What the operating system says about processes, read fresh each time. Decides nothing and signals nobody. */
import { readdirSync, readFileSync } from 'node:fs';
import { readDarwinRow, readDarwinTable } from './_process-table-darwin.ts';
import { errnoOf, Failure } from './failure.ts';

export interface ProcessRow {
  readonly pid: number;
  readonly ppid: number;
  readonly pgid: number;
  readonly sid: number;
  /** The state's letter as the system gives it; `T` is stopped. */
  readonly state: string;
  /** Opaque, equal only for the same process of the same boot. */
  readonly started_at: string;
  /** Ended, and only waiting for its parent to notice. */
  readonly zombie: boolean;
}

const onLinux = process.platform === 'linux';

/** Where another process's environment can be read, and so markers in it be found. */
export const environmentsAreVisible = onLinux;

/** The process's row, zombies included, or null when there is none. */
export function readProcess(pid: number): ProcessRow | null {
  if (!Number.isSafeInteger(pid) || pid <= 0) return null;
  return onLinux ? readLinuxRow(pid) : readDarwinRow(pid);
}

export function readProcessTable(): ProcessRow[] {
  if (!onLinux) return readDarwinTable();
  const rows: ProcessRow[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const row = readLinuxRow(Number(name));
    if (row !== null) rows.push(row);
  }
  return rows;
}

/** All variables of another process as it was started, or null where that cannot be seen. */
export function readProcessEnvironment(pid: number): Map<string, string> | null {
  if (!onLinux) return null;
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/environ`, 'utf8');
  } catch {
    return null;
  }
  const variables = new Map<string, string>();
  for (const entry of text.split('\0')) {
    const equals = entry.indexOf('=');
    if (equals > 0) variables.set(entry.slice(0, equals), entry.slice(equals + 1));
  }
  return variables;
}

function readLinuxRow(pid: number): ProcessRow | null {
  try {
    return parseLinuxStat(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOENT' || errno === 'ESRCH') return null;
    throw new Failure('internal', `cannot read the state of process ${pid} (${errno ?? 'unknown'})`, { cause: error });
  }
}

/** A line of /proc/PID/stat; the command's name may hold spaces, parentheses and newlines. */
export function parseLinuxStat(text: string): ProcessRow | null {
  const pid = Number.parseInt(text, 10);
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .trim()
    .split(' ');
  const [state, ppid, pgid, sid] = fields;
  const threads = Number(fields[17]);
  const startedAt = fields[19];
  if (!Number.isSafeInteger(pid) || state === undefined || sid === undefined || startedAt === undefined) return null;
  // A main thread that ended before its siblings looks like a zombie while the program goes on.
  const zombie = state === 'X' || (state === 'Z' && !(threads > 1));
  return { pid, ppid: Number(ppid), pgid: Number(pgid), sid: Number(sid), state, started_at: startedAt, zombie };
}

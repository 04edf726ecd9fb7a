/**
 * Processes by identity: pid, start time and boot. A bare pid is never signalled and a zombie is dead.
 * What the system says comes from process-table.ts; which processes make up a tree is decided in _process-targets.ts.
 */
import { closeSync, constants, fchmodSync, openSync, statSync } from 'node:fs';
import { constants as osConstants } from 'node:os';
import { continueStopped, deliver, outsideOf, protectedPids } from './_process-signals.ts';
import { type Mark, selectTargets, type Target } from './_process-targets.ts';
import { unwritable } from './durable-files.ts';
import { errnoOf, Failure } from './failure.ts';
import { bootId } from './machine.ts';
import {
  environmentsAreVisible,
  type ProcessRow,
  readProcess,
  readProcessEnvironment,
  readProcessTable,
} from './process-table.ts';
import { deadlineIn, sleepMs } from './timers.ts';

export interface ProcessIdentity {
  pid: number;
  started_at: string;
  boot_id: string;
}

export type ChildOutput = 'inherit' | 'ignore' | { readonly file: string };

export interface SpawnOptions {
  readonly argv: readonly string[];
  readonly cwd: string;
  /** The child's whole environment; `argv[0]` is looked up in its PATH. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin?: 'inherit' | 'ignore';
  /** A file is appended to and made 0600. */
  readonly stdout?: ChildOutput;
  readonly stderr?: ChildOutput;
  /** Own session and own group, without the terminal of this process. */
  readonly detached?: boolean;
}

export interface ChildExit {
  exit_code: number | null;
  signal: string | null;
}

export interface ChildHandle {
  readonly identity: ProcessIdentity;
  readonly exited: Promise<ChildExit>;
  /** Lets this process end while the child runs. */
  unref(): void;
}

export interface EndOptions {
  /** Leaders of the groups (and sessions) that must end. */
  readonly groups: readonly ProcessIdentity[];
  /** Environment variable that everything in the tree inherited. */
  readonly mark?: Mark;
  /** How long the first signal may take before SIGKILL; 0 kills at once. */
  readonly graceMs: number;
  readonly firstSignal?: NodeJS.Signals;
}

export interface EndResult {
  /** What is still alive: unkillable, of another user, or this process and its ancestors. */
  survivors: ProcessIdentity[];
  ended: number;
}

/** How long SIGKILL is repeated for what still shows up. */
const KILL_MS_MAX = 5_000;
const SCAN_PAUSE_MS_MIN = 10;
const SCAN_PAUSE_MS_MAX = 100;
/** One empty look may have missed a process that was being forked. */
const EMPTY_SCANS_NEEDED = 2;

/** The identity of a living process, or null. */
export function identityOf(pid: number): ProcessIdentity | null {
  const row = readProcess(pid);
  return row === null || row.zombie ? null : toIdentity(row);
}

let own: ProcessIdentity | undefined;

export function ownIdentity(): ProcessIdentity {
  own ??= identityOf(process.pid) ?? { pid: process.pid, started_at: 'unknown', boot_id: bootId() };
  return own;
}

/** False for a zombie, for a process of another boot, and for another process with the same number. */
export function isAlive(identity: ProcessIdentity): boolean {
  if (identity.boot_id !== bootId()) return false;
  const row = readProcess(identity.pid);
  return row !== null && !row.zombie && row.started_at === identity.started_at;
}

/** Living processes of a group, whoever leads it; for reporting, never a reason to signal. */
export function groupMembers(pgid: number): ProcessIdentity[] {
  return readProcessTable()
    .filter((row) => row.pgid === pgid && !row.zombie)
    .map(toIdentity);
}

/** Living processes whose environment holds the mark; none where environments cannot be seen. */
export function findMarked(name: string, value: string): ProcessIdentity[] {
  if (!environmentsAreVisible) return [];
  return readProcessTable()
    .filter((row) => !row.zombie && readProcessEnvironment(row.pid)?.get(name) === value)
    .map(toIdentity);
}

/** Starts a program without a shell. Throws `command_not_found` or `command_not_executable` before anything runs. */
export function spawnChild(options: SpawnOptions): ChildHandle {
  const files = new Map<string, number>();
  const outputOf = (output: ChildOutput = 'inherit') => {
    if (typeof output === 'string') return output;
    const handle = files.get(output.file) ?? openForAppend(output.file);
    files.set(output.file, handle);
    return handle;
  };
  try {
    const child = Bun.spawn([...options.argv], {
      cwd: requireDirectory(options.cwd),
      env: { ...options.env },
      stdio: [options.stdin ?? 'inherit', outputOf(options.stdout), outputOf(options.stderr)],
      detached: options.detached ?? false,
    });
    const row = readProcess(child.pid);
    return {
      identity: { pid: child.pid, started_at: row?.started_at ?? 'unknown', boot_id: bootId() },
      exited: child.exited.then(() => ({
        exit_code: child.signalCode === null ? child.exitCode : null,
        signal: signalName(child.signalCode),
      })),
      unref: () => child.unref(),
    };
  } catch (error) {
    throw spawnFailure(options, error);
  } finally {
    for (const handle of files.values()) closeSync(handle);
  }
}

/** Signals the group and session that `identity` leads or led; false when nobody of it could be reached. */
export function signalGroup(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  const rows = readProcessTable();
  const targets = findTargets(rows, [identity], null, false).filter(outsideOf(protectedPids(rows)));
  return deliver(rows, targets, signal) > 0;
}

/**
 * Ends every process of the tree: the first signal, the grace, then SIGKILL until two looks in a row find nobody.
 * Bounded; who is left is reported. Processes that show up meanwhile are treated alike.
 */
export async function endProcessTree(options: EndOptions): Promise<EndResult> {
  const known = new Map<string, Target>();
  const asked = new Set<string>();
  const grace = deadlineIn(options.graceMs);
  const bound = deadlineIn(options.graceMs + KILL_MS_MAX);
  let emptyScans = 0;
  let pauseMs = SCAN_PAUSE_MS_MIN;
  for (;;) {
    const rows = readProcessTable();
    const alive = livingTargets(rows, options, known);
    const reachable = alive.filter(outsideOf(protectedPids(rows)));
    emptyScans = reachable.length === 0 ? emptyScans + 1 : 0;
    if (emptyScans === EMPTY_SCANS_NEEDED || (bound.expired() && reachable.length > 0)) {
      return { survivors: alive.map(({ row }) => toIdentity(row)), ended: known.size - alive.length };
    }
    if (grace.expired()) {
      pauseMs = SCAN_PAUSE_MS_MIN;
      deliver(rows, reachable, 'SIGKILL');
    } else {
      const fresh = reachable.filter(({ row, why }) => why !== 'child' && !asked.has(keyOf(row)));
      for (const { row } of fresh) asked.add(keyOf(row));
      deliver(rows, fresh, options.firstSignal ?? 'SIGTERM');
      continueStopped(reachable.filter(({ row }) => asked.has(keyOf(row))));
    }
    await sleepMs(emptyScans > 0 ? 0 : Math.min(pauseMs, Math.max(1, grace.remainingMs() || pauseMs)));
    pauseMs = Math.min(pauseMs * 2, SCAN_PAUSE_MS_MAX);
  }
}

function livingTargets(rows: readonly ProcessRow[], options: EndOptions, known: Map<string, Target>): Target[] {
  for (const target of findTargets(rows, options.groups, options.mark ?? null, environmentsAreVisible)) {
    const before = known.get(keyOf(target.row));
    known.set(keyOf(target.row), before === undefined ? target : { row: target.row, why: before.why });
  }
  return rows.flatMap((row) => {
    const target = row.zombie ? undefined : known.get(keyOf(row));
    return target === undefined ? [] : [{ row, why: target.why }];
  });
}

function findTargets(
  rows: readonly ProcessRow[],
  groups: readonly ProcessIdentity[],
  mark: Mark | null,
  followChildren: boolean,
): Target[] {
  const leaders = groups.filter((leader) => leader.boot_id === bootId());
  return selectTargets({
    rows,
    leaders,
    mark,
    environmentOf: readProcessEnvironment,
    followChildren,
  });
}

function keyOf(row: ProcessRow): string {
  return `${row.pid} ${row.started_at}`;
}

function toIdentity(row: ProcessRow): ProcessIdentity {
  return { pid: row.pid, started_at: row.started_at, boot_id: bootId() };
}

function openForAppend(path: string): number {
  try {
    const handle = openSync(path, constants.O_CREAT | constants.O_WRONLY | constants.O_APPEND, 0o600);
    fchmodSync(handle, 0o600);
    return handle;
  } catch (error) {
    throw unwritable(path, 'open', error);
  }
}

function requireDirectory(path: string): string {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return path;
  throw new Failure('command_not_executable', `the directory ${path} does not exist`, {
    fields: { cwd: path, errno: 'ENOTDIR' },
  });
}

function spawnFailure({ argv, cwd }: SpawnOptions, cause: unknown): Failure {
  if (cause instanceof Failure) return cause;
  const command = argv[0] ?? '';
  const errno = errnoOf(cause) ?? 'unknown';
  const fields = { command, cwd, errno };
  if (errno === 'ENOENT') {
    const code = 'command_not_found';
    return new Failure(code, `${command}: not found (or the interpreter that it names is not)`, { cause, fields });
  }
  return new Failure('command_not_executable', `${command}: cannot be executed (${errno})`, { cause, fields });
}

/** Bun gives a number for signals without a name of their own. */
function signalName(signal: unknown): string | null {
  if (signal === null || signal === undefined) return null;
  if (typeof signal === 'string') return signal;
  return Object.entries(osConstants.signals).find(([, number]) => number === signal)?.[0] ?? `SIG${String(signal)}`;
}

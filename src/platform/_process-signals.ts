import type { Target } from './_process-targets.ts';
import { errnoOf } from './failure.ts';
import { type ProcessRow, readProcess } from './process-table.ts';

/** Each target gets the signal exactly once: by its group where the whole group is meant, else by itself. */
export function deliver(rows: readonly ProcessRow[], targets: readonly Target[], signal: NodeJS.Signals): number {
  const pids = new Set(targets.map(({ row }) => row.pid));
  let reached = 0;
  for (const [pgid, members] of Map.groupBy(targets, ({ row }) => row.pgid)) {
    const first = members[0];
    if (first === undefined) continue;
    const whole = pgid > 1 && rows.every((row) => row.pgid !== pgid || row.zombie || pids.has(row.pid));
    if (whole) reached += stillThere(first) && send(-pgid, signal) ? members.length : 0;
    else for (const member of members) reached += stillThere(member) && send(member.row.pid, signal) ? 1 : 0;
  }
  return reached;
}

/** A stopped process acts on no signal but SIGKILL until it is continued. */
export function continueStopped(targets: readonly Target[]): void {
  for (const target of targets) {
    if (target.row.state.startsWith('T') && stillThere(target)) send(target.row.pid, 'SIGCONT');
  }
}

function stillThere({ row }: Target): boolean {
  return readProcess(row.pid)?.started_at === row.started_at;
}

function send(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ESRCH' || errno === 'EPERM') return false;
    throw error;
  }
}

/** This process and everything above it. */
export function protectedPids(rows: readonly ProcessRow[]): Set<number> {
  const parentOf = new Map(rows.map((row) => [row.pid, row.ppid]));
  const found = new Set([0, 1]);
  let pid: number | undefined = process.pid;
  while (pid !== undefined && !found.has(pid)) {
    found.add(pid);
    pid = parentOf.get(pid);
  }
  return found;
}

export function outsideOf(pids: ReadonlySet<number>): (target: Target) => boolean {
  return ({ row }) => !pids.has(row.pid);
}

/**
 * Which processes belong to a tree that must end. Pure: a table in, a list out.
 * Membership is always by proof: a group or session whose leader is the recorded process, or whose number is still
 * bound to the session that it led (the kernel hands a number out again only when no member is left); a process that
 * carries the mark; a session led by one; a child of any of these. Never a name, a command or a bare number.
 */
import type { ProcessRow } from './process-table.ts';

/** Set in the environment of every background service of ours, and of nothing else. */
export const DAEMON_VARIABLE = 'BOTBUDDY_DAEMON';

export interface GroupLeader {
  readonly pid: number;
  readonly started_at: string;
}

export interface Mark {
  readonly name: string;
  readonly value: string;
}

export interface TargetQuestion {
  readonly rows: readonly ProcessRow[];
  readonly leaders: readonly GroupLeader[];
  readonly mark: Mark | null;
  /** The environment of a process, null where it cannot be seen. */
  readonly environmentOf: (pid: number) => ReadonlyMap<string, string> | null;
  /** Follow children across sessions; off where a service of ours that descends from a target cannot be told apart. */
  readonly followChildren: boolean;
}

export interface Target {
  readonly row: ProcessRow;
  /** `child`: known only by its parent, which should get the chance to end it. */
  readonly why: 'group' | 'marked' | 'child';
}

export function selectTargets(question: TargetQuestion): Target[] {
  const targets = new Map<number, Target>();
  const alive = question.rows.filter((row) => !row.zombie);
  for (const leader of question.leaders) {
    for (const row of membersOf(question, leader)) targets.set(row.pid, { row, why: 'group' });
  }
  for (const row of markedRows(question, alive)) {
    if (!targets.has(row.pid)) targets.set(row.pid, { row, why: 'marked' });
  }
  if (question.followChildren) addChildren(question, alive, targets);
  return [...targets.values()];
}

function membersOf(question: TargetQuestion, leader: GroupLeader): ProcessRow[] {
  const present = question.rows.find((row) => row.pid === leader.pid);
  if (present !== undefined && present.started_at !== leader.started_at) return [];
  const members = question.rows.filter((row) => !row.zombie && (row.pgid === leader.pid || row.sid === leader.pid));
  if (present !== undefined) return members;
  return members.filter((row) => startedLater(row, leader) && !carriesOtherMark(question, row));
}

function startedLater(row: ProcessRow, leader: GroupLeader): boolean {
  const order = (startedAt: string) => (/^\d+$/.test(startedAt) ? Number(startedAt) : Date.parse(`${startedAt} UTC`));
  return !(order(row.started_at) < order(leader.started_at));
}

function carriesOtherMark({ mark, environmentOf }: TargetQuestion, row: ProcessRow): boolean {
  if (mark === null) return false;
  const value = environmentOf(row.pid)?.get(mark.name);
  return value !== undefined && value !== mark.value;
}

function markedRows({ mark, environmentOf }: TargetQuestion, alive: readonly ProcessRow[]): ProcessRow[] {
  if (mark === null) return [];
  const marked = alive.filter((row) => environmentOf(row.pid)?.get(mark.name) === mark.value);
  const led = new Set(marked.filter((row) => row.pid === row.sid || row.pid === row.pgid).map((row) => row.pid));
  return [...marked, ...alive.filter((row) => led.has(row.sid) || led.has(row.pgid))];
}

function addChildren(question: TargetQuestion, alive: readonly ProcessRow[], targets: Map<number, Target>): void {
  const childrenOf = Map.groupBy(alive, (row) => row.ppid);
  const queue = [...targets.keys()];
  for (let pid = queue.pop(); pid !== undefined; pid = queue.pop()) {
    for (const row of childrenOf.get(pid) ?? []) {
      if (targets.has(row.pid) || isOwnDaemon(question, row)) continue;
      targets.set(row.pid, { row, why: 'child' });
      queue.push(row.pid);
    }
  }
}

function isOwnDaemon({ mark, environmentOf }: TargetQuestion, row: ProcessRow): boolean {
  const environment = environmentOf(row.pid);
  return environment?.has(DAEMON_VARIABLE) === true && (mark === null || environment.get(mark.name) !== mark.value);
}

/**
 * The end of a stack from outside of its supervisor: with the supervisor's help where it answers, from the records and
 * the mark where it does not. Each step may be repeated, and none of them is a proof.
 */
import { removeDurable } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { endProcessTree, isAlive, type ProcessIdentity, signalGroup } from '../platform/processes.ts';
import { deadlineIn, sleepMs } from '../platform/timers.ts';
import { type StartedGroup, supervisorStateSchema } from '../protocol/stack-records.ts';
import type { SupervisorRequest } from '../protocol/supervisor-messages.ts';
import { recordedChildren, recordedGroups } from './_looking.ts';
import { readRecord } from './_records.ts';
import { eraseData } from './_stamp.ts';
import { endGroups, sweep } from './_supervised-stack.ts';
import { type Answer, askSupervisor, type SlotAddress } from './_supervisor-client.ts';
import type { Disposition } from './driver.ts';
import { slotPaths } from './slot.ts';

const CHILD_GRACE_MS = 5_000;
const ANSWER_MS_MAX = 3_000;
const STOP_MARGIN_MS = 15_000;
const EXIT_MS_MAX = 10_000;
const EXIT_PAUSE_MS = 10;

export interface TeardownQuestion {
  readonly home: string;
  readonly slotDir: string;
  readonly leaseId: string;
  /** Null where nothing of the lease was created: then only the mark is looked for. */
  readonly request: Omit<SupervisorRequest, 'id' | 'op'> | null;
}

/** Ends the command that `stack run` started for the lease. */
export async function endChildren(home: string, leaseId: string): Promise<void> {
  const groups = recordedChildren(home, leaseId);
  if (groups.length > 0) await endProcessTree({ groups, graceMs: CHILD_GRACE_MS });
}

/** Ends supervisor and services; answers who would not go. Throws when the supervisor knows of a newer grant. */
export async function endStack(question: TeardownQuestion): Promise<ProcessIdentity[]> {
  const { home, slotDir, leaseId, request } = question;
  if (request === null) return sweep([], leaseId);
  const state = readRecord(slotPaths(slotDir).supervisor, supervisorStateSchema);
  const supervisor = state === null || state === 'unreadable' || state.lease_id !== leaseId ? null : state.identity;
  const answer = await askToStop({ home, slotDir }, request, stopMs(groupsOf(slotDir, leaseId)));
  if (typeof answer === 'object' && answer.outcome === 'failed') {
    throw new Failure(answer.code, answer.message, { fields: answer.fields });
  }
  if (answer === 'silent' && supervisor !== null) signalGroup(supervisor, 'SIGKILL');
  if (supervisor !== null) await waitForEnd(supervisor);
  return endOrphans(slotDir, leaseId);
}

/** One that does not even answer a question is not given the time that stopping takes. */
async function askToStop(
  at: SlotAddress,
  request: Omit<SupervisorRequest, 'id' | 'op'>,
  timeoutMs: number,
): Promise<Answer> {
  const hello = await askSupervisor(at, { ...request, op: 'inspect' }, ANSWER_MS_MAX);
  return typeof hello === 'string' ? hello : askSupervisor(at, { ...request, op: 'stop' }, timeoutMs);
}

/** Ends the groups of a stack whose supervisor is gone, in reverse, and whatever carries its mark. */
export async function endOrphans(slotDir: string, leaseId: string): Promise<ProcessIdentity[]> {
  await endGroups(groupsOf(slotDir, leaseId));
  return sweep(groupsOf(slotDir, leaseId), leaseId);
}

/** What stays of a stack that was ended: with `destroy` nothing but its logs and records. */
export function removeRemains(slotDir: string, disposition: Disposition): void {
  const paths = slotPaths(slotDir);
  removeDurable(paths.connection);
  if (disposition === 'destroy') eraseData(paths);
}

function groupsOf(slotDir: string, leaseId: string): StartedGroup[] {
  const groups = recordedGroups(slotDir, leaseId);
  return groups === 'unreadable' ? [] : groups;
}

function stopMs(groups: readonly StartedGroup[]): number {
  return groups.reduce((sum, { stop }) => sum + stop.grace_ms, STOP_MARGIN_MS);
}

async function waitForEnd(supervisor: ProcessIdentity): Promise<void> {
  const deadline = deadlineIn(EXIT_MS_MAX);
  while (isAlive(supervisor) && !deadline.expired()) await sleepMs(EXIT_PAUSE_MS);
  if (isAlive(supervisor)) signalGroup(supervisor, 'SIGKILL');
}

/** The driver's end of the supervisor's socket: ask once, or hold on and learn of its end. */

import { basename, join } from 'node:path';
import { ensurePrivateDir } from '../platform/durable-files.ts';
import { allowedDaemonEnvironment } from '../platform/environment.ts';
import { Failure } from '../platform/failure.ts';
import { homePaths } from '../platform/paths.ts';
import type { ChildExit } from '../platform/processes.ts';
import { selfArgv, spawnDaemon } from '../platform/self-exec.ts';
import { deadlineIn, sleepMs, withTimeout } from '../platform/timers.ts';
import { INHERITED_SETTING_NAMES } from '../protocol/settings.ts';
import { replySchema, type SupervisorReply, type SupervisorRequest } from '../protocol/supervisor-messages.ts';
import { connectLines, type LineChannel } from './_json-lines.ts';
import { EXIT_SLOT_TAKEN, supervisorSocket } from './_supervisor-fence.ts';

const START_MS_MAX = 15_000;
const START_PAUSE_MS = 15;

export interface SlotAddress {
  readonly home: string;
  readonly slotDir: string;
}

export type SuperviseArgv = (slotDir: string) => string[];

export const superviseSelf: SuperviseArgv = (slotDir) => selfArgv(['supervise', '--slot-dir', slotDir]);

export type Answer = SupervisorReply | 'gone' | 'silent';

/** `gone`: nobody listens, or it ended before it answered. `silent`: it is there and says nothing in time. */
export async function askSupervisor(
  at: SlotAddress,
  request: Omit<SupervisorRequest, 'id'>,
  timeoutMs: number | null,
): Promise<Answer> {
  const answered = Promise.withResolvers<SupervisorReply | 'gone'>();
  const onLine = (value: unknown) => {
    const reply = replySchema.safeParse(value);
    if (reply.success) answered.resolve(reply.data);
  };
  const channel = await connectLines(supervisorSocket(at.home, at.slotDir), {
    onLine,
    onClose: () => answered.resolve('gone'),
  });
  if (channel === null) return 'gone';
  channel.send({ ...request, id: 1 });
  try {
    if (timeoutMs === null) return await answered.promise;
    const answer = await withTimeout(answered.promise, timeoutMs);
    return answer === 'timed_out' ? 'silent' : answer;
  } finally {
    channel.close();
  }
}

/** Holds a connection; `onGone` is called once, when the supervisor's end closes. Null when there is none. */
export async function holdSupervisor(at: SlotAddress, onGone: () => void): Promise<LineChannel | null> {
  let released = false;
  const channel = await connectLines(supervisorSocket(at.home, at.slotDir), {
    onLine: () => {},
    onClose: () => {
      if (!released) onGone();
    },
  });
  if (channel === null) return null;
  return {
    send: channel.send,
    close: () => {
      released = true;
      channel.close();
    },
  };
}

/** Makes sure that a supervisor of the slot listens, starting one where none does. */
export async function ensureSupervisor(at: SlotAddress, argvOf: SuperviseArgv): Promise<void> {
  const deadline = deadlineIn(START_MS_MAX);
  let exited: ChildExit | null = null;
  let spawned = false;
  for (;;) {
    const channel = await connectLines(supervisorSocket(at.home, at.slotDir), { onLine: () => {}, onClose: () => {} });
    if (channel !== null) return channel.close();
    if (!spawned) {
      spawned = true;
      void spawnSupervisor(at, argvOf).then((exit) => {
        // The other one listens soon, or has ended by the next look: then it is our turn again.
        if (exit.exit_code === EXIT_SLOT_TAKEN) spawned = false;
        else exited = exit;
      });
    }
    if (exited !== null || deadline.expired()) throw notStarted(at, exited);
    await sleepMs(START_PAUSE_MS);
  }
}

export function supervisorLogFile({ home, slotDir }: SlotAddress): string {
  return join(homePaths(home).logs, `supervisor-${basename(slotDir)}.log`);
}

function spawnSupervisor(at: SlotAddress, argvOf: SuperviseArgv): Promise<ChildExit> {
  ensurePrivateDir(homePaths(at.home).logs);
  const child = spawnDaemon({
    argv: argvOf(at.slotDir),
    cwd: at.home,
    env: allowedDaemonEnvironment(INHERITED_SETTING_NAMES),
    logFile: supervisorLogFile(at),
  });
  return child.exited;
}

function notStarted(at: SlotAddress, exit: ChildExit | null): Failure {
  const how =
    exit === null
      ? `did not listen within ${START_MS_MAX / 1_000} s`
      : `ended at once (${exit.exit_code ?? exit.signal})`;
  const file = supervisorLogFile(at);
  return new Failure('stack_lost', `the supervisor of ${at.slotDir} ${how}; see ${file}`, {
    fields: { file, ...exit },
  });
}

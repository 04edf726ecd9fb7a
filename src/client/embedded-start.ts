/**
 * Starts the embedded coordinator of a home and waits until it is found. The lock beside the database elects one:
 * a process of ours that is not elected leaves by itself, so that many clients may start at once.
 */
import { systemClock } from '../platform/clock.ts';
import { ensurePrivateDir } from '../platform/durable-files.ts';
import { allowedDaemonEnvironment, type Environment } from '../platform/environment.ts';
import { Failure } from '../platform/failure.ts';
import { readTail } from '../platform/log-file.ts';
import { homePaths } from '../platform/paths.ts';
import type { ChildExit } from '../platform/processes.ts';
import { selfArgv, spawnDaemon } from '../platform/self-exec.ts';
import { deadlineIn, sleepMs } from '../platform/timers.ts';
import type { DiscoveryFile } from '../protocol/discovery.ts';
import { INHERITED_SETTING_NAMES } from '../protocol/settings.ts';
import { findCoordinator } from './discovery.ts';

export interface EmbeddedStart {
  home: string;
  environment: Environment;
  /** What is run; this program's own hidden command by default. */
  argv?: readonly string[];
  withinMs?: number;
}

const WITHIN_MS = 10_000;
const LOOK_MS = 10;
/** Pause before another try after one that was not elected: the elected one may be on its way in, or out. */
const RETRY_MS_FIRST = 100;
const RETRY_MS_MAX = 1_000;
const TAIL_BYTES = 4_096;
const TAIL_LINES = 10;

export async function startEmbedded(start: EmbeddedStart): Promise<DiscoveryFile> {
  const withinMs = start.withinMs ?? WITHIN_MS;
  const deadline = deadlineIn(withinMs, systemClock);
  for (let pauseMs = RETRY_MS_FIRST; ; pauseMs = Math.min(pauseMs * 2, RETRY_MS_MAX)) {
    const child = spawnCoordinator(start);
    const found = await foundBefore(start.home, child, () => deadline.expired());
    if (found !== null) return found;
    const exit = await Promise.race([child, sleepMs(0)]);
    if (typeof exit === 'object' && exit.exit_code !== 0) throw notStarted(start.home, `it ended with ${nameOf(exit)}`);
    const late = await foundBefore(start.home, sleepMs(Math.min(pauseMs, deadline.remainingMs())), () => false);
    if (late !== null) return late;
    if (!deadline.expired()) continue;
    const why = typeof exit === 'object' ? 'another process holds its lock and cannot be found' : 'it does not answer';
    throw notStarted(start.home, `${why} within ${withinMs} ms`);
  }
}

function spawnCoordinator({ home, environment, argv }: EmbeddedStart): Promise<ChildExit> {
  ensurePrivateDir(home);
  return spawnDaemon({
    argv: argv ?? selfArgv(['serve', '--embedded']),
    cwd: home,
    env: { ...allowedDaemonEnvironment(INHERITED_SETTING_NAMES, environment), BOTBUDDY_HOME: home },
    logFile: logFileOf(home),
  }).exited;
}

/** Looks for a coordinator, whoever started it, until `other` settles. */
async function foundBefore(
  home: string,
  other: Promise<unknown>,
  isLate: () => boolean,
): Promise<DiscoveryFile | null> {
  let settled = false;
  void other.then(() => {
    settled = true;
  });
  for (;;) {
    const found = findCoordinator(home);
    if (found !== null || settled || isLate()) return found;
    await sleepMs(LOOK_MS);
  }
}

const nameOf = (exit: ChildExit): string => exit.signal ?? `exit code ${exit.exit_code}`;

const logFileOf = (home: string): string => `${homePaths(home).logs}/coordinator.log`;

function notStarted(home: string, why: string): Failure {
  const logFile = logFileOf(home);
  const lines = (readTail(logFile, TAIL_BYTES) ?? '').trimEnd().split('\n').slice(-TAIL_LINES);
  const last = lines.at(-1) ?? '';
  const message = `the embedded coordinator of ${home} did not start: ${why}; ${logFile} ends with: ${last || 'nothing'}`;
  return new Failure('embedded_start_failed', message, { fields: { log_file: logFile, log_tail: lines } });
}

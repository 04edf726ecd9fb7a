/**
 * The Helper of a home: the one process that starts, adopts and removes stacks here, and signs what it saw. One a home,
 * by the kernel's lock; it outlives its coordinator and follows the next one. It never decides admission, and never
 * tears anything down but for a job, or where nobody knows a supervisor that is provably ours.
 * Read next: `helper-life.ts` (when), `beacon.ts` (a round), `job-loop.ts` (the work), `job-rules.ts` (its decisions).
 */
import { ensurePrivateDir } from '../platform/durable-files.ts';
import type { Environment } from '../platform/environment.ts';
import { tryLock } from '../platform/kernel-lock.ts';
import { configureLogging, type LogLevel, logger } from '../platform/logging.ts';
import { homePaths } from '../platform/paths.ts';
import { exitCodeOf } from '../protocol/outcomes.ts';
import { resolveSetting } from '../protocol/settings.ts';
import type { StackDriver } from '../stack/driver.ts';
import { processDriver } from '../stack/process-driver.ts';
import { openLink } from './coordinator-link.ts';
import { HostHelper } from './host-helper.ts';
import { openHostIdentity } from './host-identity.ts';

const log = logger('helper');

export interface HelperOptions {
  /** Started by the embedded coordinator: ends with its farewell. */
  readonly embedded: boolean;
  readonly home: string;
  readonly environment: Environment;
  readonly driver?: StackDriver;
  /** How an embedded coordinator is started; this program's own hidden command by default. */
  readonly startArgv?: readonly string[];
}

/** Runs until the Helper has nothing more to do here; answers with the exit code. */
export async function runHelper(options: HelperOptions): Promise<number> {
  const { home, environment, embedded, driver = processDriver, startArgv } = options;
  configureLogging({ level: (resolveSetting('log_level', environment).value ?? 'info') as LogLevel });
  ensurePrivateDir(home);
  using lock = tryLock(homePaths(home).helperLock);
  if (lock === null) {
    log.info('another Helper serves this home', { home });
    return 0;
  }
  const identity = openHostIdentity(home);
  const link = await openLink({
    home,
    environment,
    hostId: identity.host_id,
    mayStart: () => helper.needsCoordinator,
    ...(startArgv === undefined ? {} : { startArgv }),
  });
  const helper: HostHelper = new HostHelper({ embedded, home, environment, identity, driver, link });
  const end = await helper.live();
  log.info('ending', { end });
  return end === 'superseded' ? exitCodeOf('HELPER_SUPERSEDED', 'other') : 0;
}

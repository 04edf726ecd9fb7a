/** `serve --stop`: ends the embedded coordinator and its Helper by their recorded identities, and sees that they are gone. */

import { systemClock } from '../platform/clock.ts';
import { readTextIfPresent } from '../platform/durable-files.ts';
import { homePaths } from '../platform/paths.ts';
import { isAlive, type ProcessIdentity, signalGroup } from '../platform/processes.ts';
import { sleepMs } from '../platform/timers.ts';

const STOP_MS_MAX = 15_000;
const LOOK_MS = 20;

export interface StopReport {
  coordinator: 'not_running' | 'stopped' | 'still_running';
  helper: 'not_running' | 'stopped' | 'still_running';
}

/** The Helper usually follows its coordinator's farewell; it is signalled only when it is still there. */
export async function stopServing(home: string): Promise<StopReport> {
  const paths = homePaths(home);
  const coordinator = living(paths.discovery);
  const helper = living(paths.helperState);
  return { coordinator: await stop(coordinator), helper: await stop(helper) };
}

function living(file: string): ProcessIdentity | null {
  const identity = identityIn(file);
  return identity !== null && isAlive(identity) ? identity : null;
}

async function stop(identity: ProcessIdentity | null): Promise<StopReport['coordinator']> {
  if (identity === null) return 'not_running';
  if (isAlive(identity)) signalGroup(identity, 'SIGTERM');
  const until = systemClock.monotonicMs() + STOP_MS_MAX;
  while (isAlive(identity)) {
    if (systemClock.monotonicMs() > until) return 'still_running';
    await sleepMs(LOOK_MS);
  }
  return 'stopped';
}

/** The process that a state file names; null for a file that is not there or says nothing of the kind. */
export function identityIn(file: string): ProcessIdentity | null {
  const text = readTextIfPresent(file);
  if (text === null) return null;
  try {
    const { identity } = JSON.parse(text) as { identity?: Partial<ProcessIdentity> };
    const { pid, started_at, boot_id } = identity ?? {};
    if (typeof pid !== 'number' || typeof started_at !== 'string' || typeof boot_id !== 'string') return null;
    return { pid, started_at, boot_id };
  } catch {
    return null;
  }
}

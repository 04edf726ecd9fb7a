/** The entry of the room: serves this home until it ends, and answers with the exit code. */
import { allowedDaemonEnvironment } from '../platform/environment.ts';
import { keepLogBounded } from '../platform/log-file.ts';
import { configureLogging, type LogLevel } from '../platform/logging.ts';
import { hostKey, machineId } from '../platform/machine.ts';
import { homePaths } from '../platform/paths.ts';
import { sha256Hex } from '../platform/random.ts';
import { type DaemonOptions, selfArgv } from '../platform/self-exec.ts';
import { hostIdOf } from '../protocol/host-id.ts';
import { INHERITED_SETTING_NAMES, resolveSetting } from '../protocol/settings.ts';
import { VERSION } from '../protocol/version.ts';
import { notElected, runCoordinator } from './embedded.ts';
import { serveSettings } from './serve-settings.ts';
import type { OwnHost } from './tool.ts';

export interface ServeOptions {
  /** Started on demand: with a Helper, ends when nobody needs it, and leaves at once when another serves already. */
  embedded: boolean;
  home: string;
  environment: Readonly<Record<string, string>>;
}

export async function serve({ embedded, home, environment }: ServeOptions): Promise<number> {
  const level = resolveSetting('log_level', environment).value;
  configureLogging({ level: (level ?? 'info') as LogLevel });
  const settings = serveSettings(home, environment);
  const logs = homePaths(home).logs;
  const unbound = embedded ? [keepLogBounded(`${logs}/coordinator.log`), keepLogBounded(`${logs}/helper.log`)] : [];
  try {
    const end = await runCoordinator({
      home,
      settings,
      version: VERSION,
      ownHost: ownHostOf(home),
      helper: embedded ? helperOf(home, environment) : null,
      endsWhenIdle: embedded,
    });
    if (end === 'not_elected' && !embedded) throw notElected(settings.database);
    return 0;
  } finally {
    for (const stop of unbound) stop();
  }
}

export function ownHostOf(home: string): OwnHost {
  const machine_id = machineId();
  const host_key = hostKey();
  return { host_id: hostIdOf({ machine_id, host_key, home }, sha256Hex), host_key, machine_id };
}

function helperOf(home: string, environment: Readonly<Record<string, string>>): DaemonOptions {
  return {
    argv: selfArgv(['helper', 'run', '--embedded']),
    cwd: home,
    env: { ...allowedDaemonEnvironment(INHERITED_SETTING_NAMES, environment), BOTBUDDY_HOME: home },
    logFile: `${homePaths(home).logs}/helper.log`,
  };
}

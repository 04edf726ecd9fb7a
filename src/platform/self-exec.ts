/** This program started once more: as a hidden command, or as a background service with a log of its own. */
import { join } from 'node:path';
import { DAEMON_VARIABLE } from './_process-targets.ts';
import { rotateLog } from './log-file.ts';
import { type ChildHandle, spawnChild } from './processes.ts';

export interface DaemonOptions {
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
}

/** True in the compiled binary, false under `bun src/main.ts`. */
export const isCompiled = Bun.main.startsWith('/$bunfs/');

/** The argv that runs this very program with the given arguments. */
export function selfArgv(hidden: readonly string[]): string[] {
  if (isCompiled) return [process.execPath, ...hidden];
  return [process.execPath, join(import.meta.dirname, '..', 'main.ts'), ...hidden];
}

/** Starts a service in a session of its own that outlives this process; its output goes to the log file alone. */
export function spawnDaemon({ argv, cwd, env, logFile }: DaemonOptions): ChildHandle {
  rotateLog(logFile);
  const child = spawnChild({
    argv,
    cwd,
    env: { ...env, [DAEMON_VARIABLE]: '1' },
    stdin: 'ignore',
    stdout: { file: logFile },
    stderr: { file: logFile },
    detached: true,
  });
  child.unref();
  return child;
}

import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { effectiveUserId, ensurePrivateDir } from './durable-files.ts';
import { shortHash } from './random.ts';

/** What fits into sun_path on macOS, without the closing zero. */
const SOCKET_PATH_BYTES_MAX = 103;

export interface HomePaths {
  readonly home: string;
  readonly database: string;
  readonly databaseLock: string;
  readonly discovery: string;
  readonly ownerCredential: string;
  readonly ports: string;
  readonly stacks: string;
  readonly logs: string;
  readonly helperKey: string;
  readonly helperLock: string;
  readonly helperState: string;
  readonly statements: string;
  readonly runDir: string;
}

/** BOTBUDDY_HOME, or `.botbuddy` in the user's home; absolute. */
export function homeDir(env: Readonly<Record<string, string | undefined>>): string {
  const named = env['BOTBUDDY_HOME'];
  if (named !== undefined && named !== '') return resolve(named);
  return join(resolve(env['HOME'] || homedir()), '.botbuddy');
}

export function homePaths(home: string): HomePaths {
  return {
    home,
    database: join(home, 'coordinator.db'),
    databaseLock: join(home, 'coordinator.db.lock'),
    discovery: join(home, 'coordinator.json'),
    ownerCredential: join(home, 'owner.json'),
    ports: join(home, 'ports'),
    stacks: join(home, 'stacks'),
    logs: join(home, 'logs'),
    helperKey: join(home, 'helper-key.json'),
    helperLock: join(home, 'helper.lock'),
    helperState: join(home, 'helper.json'),
    statements: join(home, 'statements'),
    runDir: join(home, 'run'),
  };
}

/** Where a socket of this home lives; its directory exists, is private and is ours on return. */
export function socketPath(home: string, name: string): string {
  const near = join(homePaths(home).runDir, `${name}.sock`);
  const path = Buffer.byteLength(near) <= SOCKET_PATH_BYTES_MAX ? near : farSocketPath(home, name);
  ensurePrivateDir(join(path, '..'));
  return path;
}

function farSocketPath(home: string, name: string): string {
  return join(`/tmp/botbuddy-${effectiveUserId()}`, `${shortHash(`${resolve(home)}\0${name}`, 20)}.sock`);
}

/** What `serve` is started with, resolved once from the environment. */
import { resolve } from 'node:path';
import { Failure } from '../platform/failure.ts';
import { homePaths } from '../platform/paths.ts';
import { resolveSetting, SETTINGS, type SettingName, SettingProblem, settingMs } from '../protocol/settings.ts';

export interface ServeSettings {
  database: string;
  listen: string;
  leaseTtlMs: number;
  idleExitMs: number;
  /** By name, what a client may compare its own settings with; nothing secret. */
  shown: Record<string, string>;
}

type Environment = Readonly<Record<string, string | undefined>>;

export function serveSettings(home: string, environment: Environment): ServeSettings {
  const value = (name: SettingName) => resolveSetting(name, environment).value;
  try {
    return {
      database: databasePath(home, value('database_url')),
      listen: value('listen') ?? '127.0.0.1:0',
      leaseTtlMs: settingMs('lease_ttl_secs', resolveSetting('lease_ttl_secs', environment)),
      idleExitMs: settingMs('embedded_idle_exit_secs', resolveSetting('embedded_idle_exit_secs', environment)),
      shown: { ...shownSettings(environment), home },
    };
  } catch (cause) {
    if (!(cause instanceof SettingProblem)) throw cause;
    throw new Failure('setting_invalid', cause.message, { cause, fields: { setting: cause.setting } });
  }
}

function databasePath(home: string, url: string | null): string {
  if (url === null) return homePaths(home).database;
  if (url.startsWith('sqlite:') && url.length > 'sqlite:'.length) return resolve(home, url.slice('sqlite:'.length));
  throw new Failure('setting_invalid', 'BOTBUDDY_DATABASE_URL: this build takes sqlite:PATH', {
    fields: { setting: 'database_url' },
  });
}

function shownSettings(environment: Environment): Record<string, string> {
  const shown: Record<string, string> = {};
  for (const [name, { inherited, unit }] of Object.entries(SETTINGS)) {
    const { value } = resolveSetting(name as SettingName, environment);
    if (inherited && unit !== 'url' && value !== null) shown[name] = value;
  }
  return shown;
}

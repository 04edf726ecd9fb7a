/** Opens a client from the environment: the named coordinator, or the embedded one of the home. Calls nothing yet. */
import type { Environment } from '../platform/environment.ts';
import { homePaths } from '../platform/paths.ts';
import { resolveSetting, SETTINGS, type SettingName } from '../protocol/settings.ts';
import { givenAuthentication, ownerAuthentication } from './authentication-half.ts';
import { CoordinatorClient } from './calls.ts';
import { findCoordinator } from './discovery.ts';

export interface OpenOptions {
  home: string;
  environment: Environment;
  /** Whether an absent embedded coordinator is started; asked each time. Always, by default. */
  mayStart?: () => boolean;
  /** How the embedded coordinator is started; this program's own hidden command by default. */
  startArgv?: readonly string[];
  startWithinMs?: number;
  /** What it says of itself; this program's version by default. */
  version?: string;
  /** What a person should know while a call goes on; to stderr by default. */
  onNotice?: (notice: string) => void;
}

export async function openClient(options: OpenOptions): Promise<CoordinatorClient> {
  const serverUrl = resolveSetting('server_url', options.environment).value;
  const given = resolveSetting('agent_session_token', options.environment).value;
  const authentication =
    serverUrl === null ? ownerAuthentication(homePaths(options.home).ownerCredential) : givenAuthentication(given);
  return new CoordinatorClient({ ...options, serverUrl, authentication });
}

export interface SettingDifference {
  setting: SettingName;
  running: string | null;
  wanted: string | null;
}

/** Where the running embedded coordinator was started with other settings than this command has. */
export function settingDifferences({ home, environment }: OpenOptions): SettingDifference[] {
  const running = findCoordinator(home)?.settings;
  if (running === undefined) return [];
  return (Object.keys(SETTINGS) as SettingName[]).flatMap((setting) => {
    const { inherited, unit } = SETTINGS[setting];
    if (!inherited || unit === 'url' || setting === 'home') return [];
    const wanted = resolveSetting(setting, environment).value;
    const other = running[setting] ?? null;
    return wanted === other ? [] : [{ setting, running: other, wanted }];
  });
}

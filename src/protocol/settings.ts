/**
 * Every setting with its environment name, unit, default and sentence: `botbuddy config show` and the docs are made
 * from it. Precedence: flag, environment, repository (units and TTLs only), user file, default.
 */
import { parseDurationMs } from './duration.ts';

export type SettingUnit = 'seconds' | 'units' | 'ports' | 'path' | 'url' | 'address' | 'level' | 'secret' | 'text';

export interface SettingSpec {
  readonly environment: string;
  readonly unit: SettingUnit;
  readonly fallback: string | null;
  readonly sentence: string;
  /** The daemons that we start may see it. */
  readonly inherited: boolean;
}

export const SETTINGS = {
  home: {
    environment: 'BOTBUDDY_HOME',
    unit: 'path',
    fallback: '~/.botbuddy',
    sentence: 'Where state, logs and claims of this user are kept.',
    inherited: true,
  },
  server_url: {
    environment: 'BOTBUDDY_SERVER_URL',
    unit: 'url',
    fallback: null,
    sentence: 'The shared coordinator; unset means the embedded one, started on demand.',
    inherited: true,
  },
  database_url: {
    environment: 'BOTBUDDY_DATABASE_URL',
    unit: 'url',
    fallback: null,
    sentence: 'For serve: sqlite:PATH or postgres://...; unset means SQLite in the home.',
    inherited: true,
  },
  listen: {
    environment: 'BOTBUDDY_LISTEN',
    unit: 'address',
    fallback: '127.0.0.1:0',
    sentence: 'Address and port on which serve listens; port 0 takes a free one.',
    inherited: true,
  },
  host_units: {
    environment: 'BOTBUDDY_HOST_UNITS',
    unit: 'units',
    fallback: null,
    sentence: 'Capacity of the local Helper; unset means from memory and cores.',
    inherited: true,
  },
  lease_ttl_secs: {
    environment: 'BOTBUDDY_LEASE_TTL_SECS',
    unit: 'seconds',
    fallback: '60',
    sentence: 'A lease whose owner is silent for this long is lost.',
    inherited: true,
  },
  idle_ttl_secs: {
    environment: 'BOTBUDDY_IDLE_TTL_SECS',
    unit: 'seconds',
    fallback: '1800',
    sentence: 'An idle stack is reaped after this time.',
    inherited: true,
  },
  beacon_secs: {
    environment: 'BOTBUDDY_BEACON_SECS',
    unit: 'seconds',
    fallback: '15',
    sentence: "Interval of the Helper's report.",
    inherited: true,
  },
  embedded_idle_exit_secs: {
    environment: 'BOTBUDDY_EMBEDDED_IDLE_EXIT_SECS',
    unit: 'seconds',
    fallback: '900',
    sentence: 'The embedded coordinator ends after this time with nothing alive and no call.',
    inherited: true,
  },
  port_range: {
    environment: 'BOTBUDDY_PORT_RANGE',
    unit: 'ports',
    fallback: '20000-29980',
    sentence: 'First and last base of port blocks.',
    inherited: true,
  },
  port_block: {
    environment: 'BOTBUDDY_PORT_BLOCK',
    unit: 'ports',
    fallback: '20',
    sentence: 'Ports in a block; the last one is the guard.',
    inherited: true,
  },
  log_level: {
    environment: 'BOTBUDDY_LOG_LEVEL',
    unit: 'level',
    fallback: 'info',
    sentence: 'debug, info, warn or error.',
    inherited: true,
  },
  model: {
    environment: 'BOTBUDDY_MODEL',
    unit: 'text',
    fallback: null,
    sentence: "Name of the agent's model, for display.",
    inherited: false,
  },
  agent_session_token: {
    environment: 'BOTBUDDY_AGENT_SESSION_TOKEN',
    unit: 'secret',
    fallback: null,
    sentence: 'Session token of an agent; never shown.',
    inherited: false,
  },
} as const satisfies Record<string, SettingSpec>;

export type SettingName = keyof typeof SETTINGS;

export interface ResolvedSetting {
  value: string | null;
  source: 'flag' | 'environment' | 'repository' | 'user_file' | 'default';
}

export class SettingProblem extends Error {
  readonly setting: string;
  constructor(setting: string, message: string) {
    super(message);
    this.setting = setting;
  }
}

/** Resolves a setting from the given layers, highest first. */
export function resolveSetting(
  name: SettingName,
  environment: Readonly<Record<string, string | undefined>>,
  userFile: Readonly<Record<string, string | undefined>> = {},
): ResolvedSetting {
  const spec: SettingSpec = SETTINGS[name];
  const fromEnvironment = environment[spec.environment];
  if (fromEnvironment !== undefined && fromEnvironment !== '') return { value: fromEnvironment, source: 'environment' };
  const fromFile = userFile[name];
  if (fromFile !== undefined) return { value: fromFile, source: 'user_file' };
  return { value: spec.fallback, source: 'default' };
}

function positive(name: SettingName, text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0)
    throw new SettingProblem(name, `${SETTINGS[name].environment}: '${text}' is no positive number`);
  return value;
}

/** A duration setting in milliseconds; takes `90`, `90s`, `1.5m`. */
export function settingMs(name: SettingName, resolved: ResolvedSetting): number {
  try {
    return parseDurationMs(resolved.value ?? '');
  } catch (error) {
    throw new SettingProblem(name, `${SETTINGS[name].environment}: ${(error as Error).message}`);
  }
}

export function settingCount(name: SettingName, resolved: ResolvedSetting): number | null {
  return resolved.value === null ? null : Math.floor(positive(name, resolved.value));
}

export interface PortRange {
  first: number;
  last: number;
}

/** `20000-29980`: both bounds are bases of blocks. */
export function settingPortRange(resolved: ResolvedSetting): PortRange {
  const match = /^(\d+)-(\d+)$/.exec(resolved.value ?? '');
  const first = Number(match?.[1]);
  const last = Number(match?.[2]);
  if (match === null || first < 1024 || last < first || last > 65_500) {
    throw new SettingProblem('port_range', `BOTBUDDY_PORT_RANGE: '${resolved.value}' is no range such as 20000-29980`);
  }
  return { first, last };
}

/** Environment names that a daemon started by us may see beside the ordinary ones. */
export const INHERITED_SETTING_NAMES: readonly string[] = Object.values(SETTINGS)
  .filter((spec) => spec.inherited)
  .map((spec) => spec.environment);

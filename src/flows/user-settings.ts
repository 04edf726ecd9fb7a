/** The user's own file, `config.toml` in the home, and the environment: the two layers that a command resolves from. */
import { join } from 'node:path';
import { readTextIfPresent } from '../platform/durable-files.ts';
import type { Environment } from '../platform/environment.ts';
import { Failure } from '../platform/failure.ts';
import { nearestOf } from '../protocol/conditions.ts';
import { type ResolvedSetting, resolveSetting, SETTINGS, type SettingName } from '../protocol/settings.ts';

export type UserSettings = Readonly<Record<string, string>>;

/** Throws `config_invalid` for a file that does not parse or names what is no setting. */
export function readUserSettings(home: string): UserSettings {
  const file = join(home, 'config.toml');
  const text = readTextIfPresent(file);
  if (text === null) return {};
  const settings: Record<string, string> = {};
  for (const [name, value] of Object.entries(parse(text, file))) {
    if (!Object.hasOwn(SETTINGS, name) || name === 'home') {
      const nearest = nearestOf(name, Object.keys(SETTINGS));
      const meant = nearest === null ? '' : `; did you mean ${nearest}?`;
      throw new Failure('config_invalid', `${file}: unknown setting '${name}'${meant}`, { fields: { file } });
    }
    if (typeof value !== 'string' && typeof value !== 'number') {
      throw new Failure('config_invalid', `${file}: ${name} must be text or a number`, { fields: { file } });
    }
    settings[name] = String(value);
  }
  return settings;
}

function parse(text: string, file: string): Record<string, unknown> {
  try {
    return Bun.TOML.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new Failure('config_invalid', `${file}: ${(error as Error).message}`, { cause: error, fields: { file } });
  }
}

export class Settings {
  readonly #environment: Environment;
  readonly #userFile: UserSettings;

  constructor(home: string, environment: Environment) {
    this.#environment = environment;
    this.#userFile = readUserSettings(home);
  }

  get(name: SettingName): ResolvedSetting {
    return resolveSetting(name, this.#environment, this.#userFile);
  }
}

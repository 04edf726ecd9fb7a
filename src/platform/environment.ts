export type Environment = Readonly<Record<string, string>>;

/** What makes a Bun or a dynamic loader run code that the environment names. */
const CODE_LOADING = /^(BUN_.*|NODE_OPTIONS|LD_PRELOAD|LD_AUDIT|LD_LIBRARY_PATH|DYLD_.*)$/;
const DAEMON_NAMES = /^(PATH|HOME|USER|LOGNAME|LANG|LC_[A-Z_]+|TZ|TMPDIR|DOCKER_[A-Z0-9_]+)$/;
/** What ties a process to one agent or one lease; a service of ours serves all. */
const NEVER_FOR_DAEMONS: ReadonlySet<string> = new Set([
  'BOTBUDDY_AGENT_SESSION_TOKEN',
  'BOTBUDDY_LEASE_ID',
  'BOTBUDDY_REAP_MARK',
]);

/** A copy of this process's environment. */
export function readEnvironment(): Environment {
  return keep(process.env, () => true);
}

/** Without the variables that would load foreign code into what we start. */
export function scrubEnvironment(environment: Environment): Environment {
  return keep(environment, (name) => !CODE_LOADING.test(name));
}

/** What a background service of ours gets: a fixed list, and the settings by name. */
export function allowedDaemonEnvironment(
  settingsNames: Iterable<string>,
  environment: Environment = readEnvironment(),
): Environment {
  const settings = new Set(settingsNames);
  const allowed = (name: string) => DAEMON_NAMES.test(name) || (name.startsWith('BOTBUDDY_') && settings.has(name));
  return keep(environment, (name) => allowed(name) && !NEVER_FOR_DAEMONS.has(name));
}

function keep(
  environment: Readonly<Record<string, string | undefined>>,
  wanted: (name: string) => boolean,
): Environment {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && wanted(name)) kept[name] = value;
  }
  return kept;
}

export function currentDirectory(): string {
  return process.cwd();
}

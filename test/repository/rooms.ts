/** The rooms of `src` as data: who may import whom, and which packages, runtime modules and globals each may use. */

export interface Room {
  /** Other rooms, and whether only their types. */
  readonly imports: Readonly<Record<string, 'all' | 'types'>>;
  readonly packages: readonly string[];
  /** Modules of the runtime. */
  readonly builtins: readonly string[];
  /** Members of the global `Bun`. */
  readonly bun: readonly string[];
  /** Globals that are kept from rooms that do not stand here. */
  readonly globals: readonly string[];
  /** Edges that only some files of the room may have. */
  readonly only?: Readonly<Record<string, RegExp>>;
}

const ANY = ['*'];
const PATHS_AND_TEXT = ['node:path', 'node:url', 'node:util'];
/** Members of `Bun` that compute and touch nothing. */
export const HARMLESS_BUN = ['TOML', 'version', 'semver', 'stringWidth', 'stripANSI', 'escapeHTML'];

export const ROOMS: Readonly<Record<string, Room>> = {
  core: { imports: {}, packages: [], builtins: [], bun: [], globals: [] },
  protocol: { imports: { core: 'types' }, packages: ['zod'], builtins: [], bun: [], globals: [] },
  platform: { imports: {}, packages: [], builtins: ANY, bun: ANY, globals: ANY },
  log: {
    imports: { core: 'all', platform: 'all' },
    packages: [],
    builtins: [...PATHS_AND_TEXT, 'bun', 'bun:sqlite'],
    bun: ['SQL', 'sql'],
    globals: [],
  },
  coordinator: {
    imports: { core: 'all', protocol: 'all', log: 'all', platform: 'all' },
    packages: ['@modelcontextprotocol/server'],
    builtins: [...PATHS_AND_TEXT, 'node:crypto', 'node:net'],
    bun: ['serve', 'Server'],
    globals: ['setImmediate'],
  },
  client: {
    imports: { protocol: 'all', platform: 'all' },
    packages: ['ofetch', 'eventsource-parser'],
    builtins: PATHS_AND_TEXT,
    bun: [],
    globals: ['fetch'],
  },
  stack: {
    imports: { protocol: 'all', platform: 'all' },
    packages: ['toml-eslint-parser', 'yaml'],
    builtins: [...PATHS_AND_TEXT, 'node:net'],
    bun: ['connect', 'listen'],
    globals: ['fetch'],
  },
  helper: {
    imports: { protocol: 'all', client: 'all', stack: 'all', platform: 'all' },
    packages: [],
    builtins: [...PATHS_AND_TEXT, 'node:crypto', 'node:net'],
    bun: ['connect', 'listen'],
    globals: [],
  },
  flows: {
    imports: { protocol: 'all', client: 'all', stack: 'all', platform: 'all' },
    packages: [],
    builtins: PATHS_AND_TEXT,
    bun: [],
    globals: [],
  },
  release: {
    imports: { protocol: 'all', platform: 'all' },
    packages: [],
    builtins: [...PATHS_AND_TEXT, 'node:crypto'],
    bun: [],
    globals: [],
  },
  cli: {
    imports: {
      protocol: 'all',
      platform: 'all',
      coordinator: 'all',
      client: 'all',
      stack: 'all',
      helper: 'all',
      flows: 'all',
      release: 'all',
    },
    packages: ['citty'],
    builtins: PATHS_AND_TEXT,
    bun: [],
    globals: [],
    only: { coordinator: /^serve(-[a-z-]+)?\.ts$/, helper: /^(helper|supervise)(-[a-z-]+)?\.ts$/ },
  },
};

/** `src/main.ts`, which stands in no room: it picks the command and ends the process. */
export const MAIN: Room = {
  imports: { cli: 'all', platform: 'all', protocol: 'all' },
  packages: [],
  builtins: PATHS_AND_TEXT,
  bun: [],
  globals: ANY,
};

/**
 * Rooms in which nothing may depend on time, chance or the world, and nothing may be awaited.
 * Elsewhere the same holds for decision files, whose names end in `-rules.ts`, and for what they draw in.
 */
export const PURE_ROOMS = ['core'];
export const DECISION_FILE = /(^|\/)_?[a-z0-9-]+-rules\.ts$/;

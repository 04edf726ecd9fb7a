/**
 * The shape of `botbuddy.toml` as it is written. What a project's file may say ends here: its stack, units and TTLs.
 * Templates (`{port.NAME}`) and names across sections are checked where the file is read, in the stack room.
 */
import * as z from 'zod/mini';
import { DURATION_RULE, readDurationMs } from './duration.ts';

export const DRIVERS = ['process', 'compose', 'supabase'] as const;
export type DriverName = (typeof DRIVERS)[number];

export const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGKILL'] as const;
export type StopSignal = (typeof STOP_SIGNALS)[number];

const nameRule = 'a letter, then letters, digits, - or _ (at most 40)';
const name = z.string().check(z.regex(/^[A-Za-z][A-Za-z0-9_-]{0,39}$/, `a name is ${nameRule}`));
const variable = z.string().check(z.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'not the name of an environment variable'));
const duration = z
  .union([z.string(), z.number()])
  .check(z.refine((value) => readDurationMs(value) !== null, `a duration is ${DURATION_RULE}`));
const text = z.string().check(z.refine((value) => !value.includes('\0'), 'a NUL byte cannot be passed on'));
const argv = z
  .array(text, 'a command is an array of text: ["program", "argument"]')
  .check(z.minLength(1, 'a command needs a program'));
const commands = z.array(argv, 'a list of commands: [["program", "argument"]]');

const readySchema = z
  .strictObject({
    tcp: z.optional(text),
    http: z.optional(text),
    exec: z.optional(argv),
    timeout: z.optional(duration),
  })
  .check(
    z.refine(
      ({ tcp, http, exec }) => [tcp, http, exec].filter((way) => way !== undefined).length === 1,
      'exactly one of tcp, http and exec',
    ),
  );

const stopSchema = z.strictObject({
  signal: z.optional(z.enum(STOP_SIGNALS, `one of ${STOP_SIGNALS.join(', ')}`)),
  grace: z.optional(duration),
});

const serviceSchema = z.strictObject({
  prepare: z.optional(commands),
  command: argv,
  ready: z.optional(readySchema),
  stop: z.optional(stopSchema),
  cwd: z.optional(text),
});

const stackSchema = z.strictObject({
  driver: z.enum(DRIVERS, `one of ${DRIVERS.join(', ')}`),
  units: z.optional(z.int('a whole number').check(z.minimum(1, 'at least 1'), z.maximum(1_000, 'at most 1000'))),
  ports: z.optional(z.array(name).check(z.maxLength(100, 'at most 100 ports'))),
  setup: z.optional(commands),
  pass_env: z.optional(z.array(variable)),
  on_idle: z.optional(z.enum(['destroy', 'stop'], 'one of destroy, stop')),
  idle_ttl: z.optional(duration),
  hard_ttl: z.optional(duration),
  service: z.optional(z.record(name, serviceSchema)),
  env: z.optional(z.record(variable, text)),
});

export const stackConfigFileSchema = z.strictObject({ stack: stackSchema });
export type StackConfigFile = z.infer<typeof stackConfigFileSchema>;

/** The keys that a section may hold, by its path in the file; null where any name is allowed. */
export function knownKeysAt(path: readonly PropertyKey[]): readonly string[] | null {
  const [root, section, , part] = path;
  if (root === undefined) return Object.keys(stackConfigFileSchema.shape);
  if (path.length === 1) return Object.keys(stackSchema.shape);
  if (section !== 'service' || path.length === 2) return null;
  if (path.length === 3) return Object.keys(serviceSchema.shape);
  if (part === 'ready') return Object.keys(readySchema.shape);
  if (part === 'stop') return Object.keys(stopSchema.shape);
  return null;
}

export interface ServiceConfig {
  name: string;
  prepare: string[][];
  command: string[];
  ready: ReadyConfig | null;
  stop: { signal: StopSignal; grace_ms: number };
  /** Relative to the file's directory; a template. */
  cwd: string;
}

export type ReadyConfig =
  | { kind: 'tcp'; port: string; timeout_ms: number }
  | { kind: 'http'; url: string; timeout_ms: number }
  | { kind: 'exec'; command: string[]; timeout_ms: number };

/** The file with its defaults filled in; texts are still templates. */
export interface StackConfig {
  driver: DriverName;
  units: number;
  ports: string[];
  setup: string[][];
  pass_env: string[];
  on_idle: 'destroy' | 'stop';
  /** Null where the file leaves it to the user's settings. */
  idle_ttl_ms: number | null;
  hard_ttl_ms: number | null;
  services: ServiceConfig[];
  env: Record<string, string>;
}

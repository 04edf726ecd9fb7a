/**
 * `botbuddy.toml`: found, read, checked, with its defaults filled in. Every complaint names file and line and, for an
 * unknown word, the nearest known one. Executes nothing and writes nothing. Read next: `plan.ts`.
 */
import { join } from 'node:path';
import { pathExists, readTextIfPresent } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { readDurationMs } from '../protocol/duration.ts';
import {
  knownKeysAt,
  type ReadyConfig,
  type ServiceConfig,
  type StackConfig,
  type StackConfigFile,
  stackConfigFileSchema,
} from '../protocol/stack-config.ts';
import { type ConfigProblem, problemsBetweenSections } from './_config-checks.ts';
import { nearestOf } from './_nearest.ts';
import { parseTomlWithLines, type TomlDocument, TomlSyntaxError } from './_toml-lines.ts';

/** Stands for a complaint for which the schema has no words of its own, whatever language zod is set to. */
const NO_WORDS = 'Invalid input';

export const CONFIG_FILE_NAME = 'botbuddy.toml';

const READY_TIMEOUT_MS = 60_000;
const STOP_GRACE_MS = 10_000;

const EXAMPLE = ['[stack]', 'driver = "process"', 'ports = ["db"]'].join('\n');
const UNSUPPORTED_FILES = [
  { path: 'supabase/config.toml', driver: 'supabase' },
  { path: 'compose.yaml', driver: 'compose' },
  { path: 'compose.yml', driver: 'compose' },
  { path: 'docker-compose.yaml', driver: 'compose' },
  { path: 'docker-compose.yml', driver: 'compose' },
] as const;

/** The stack of a worktree; a missing, broken or unsupported one is a `Failure` with what to write instead. */
export function readStackConfig(worktreeRoot: string): { file: string; config: StackConfig } {
  const file = join(worktreeRoot, CONFIG_FILE_NAME);
  const text = readTextIfPresent(file);
  if (text === null) throw missing(worktreeRoot, file);
  const config = parseStackConfig(text, file);
  if (config.driver !== 'process') throw unsupported(config.driver, file);
  return { file, config };
}

export function parseStackConfig(text: string, file: string): StackConfig {
  const document = parseDocument(text, file);
  if (Object.keys(document.value).length === 0) {
    throw invalid(file, 1, `there is no [stack] section; a small one:\n${EXAMPLE}`, {});
  }
  const parsed = stackConfigFileSchema.safeParse(document.value, { error: () => NO_WORDS });
  const problems: ConfigProblem[] = parsed.success
    ? problemsBetweenSections(parsed.data.stack)
    : parsed.error.issues.map((issue) => problemOf(issue, document.value));
  const first = problems
    .map((problem) => ({ ...problem, line: document.lineOf(problem.path) }))
    .sort((a, b) => a.line - b.line)[0];
  if (first !== undefined) {
    throw invalid(file, first.line, first.message, { key: first.path.join('.'), nearest: first.nearest ?? null });
  }
  if (!parsed.success) throw parsed.error;
  return resolve(parsed.data.stack);
}

function parseDocument(text: string, file: string): TomlDocument {
  try {
    return parseTomlWithLines(text);
  } catch (error) {
    if (error instanceof TomlSyntaxError) throw invalid(file, error.line, error.message, {});
    throw error;
  }
}

interface SchemaIssue {
  readonly code: string;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly expected?: string;
  readonly keys?: readonly string[];
  readonly issues?: readonly { readonly message: string }[];
}

function problemOf(issue: SchemaIssue, root: unknown): ConfigProblem {
  const path = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
  const key = issue.keys?.[0];
  if (issue.code === 'unrecognized_keys' && key !== undefined) {
    const nearest = nearestOf(key, knownKeysAt(path) ?? []);
    const hint = nearest === null ? '' : `; the nearest known key is "${nearest}"`;
    return { path: [...path, key], message: `unknown key "${key}" in ${sectionName(path)}${hint}`, nearest };
  }
  const label = `${sectionName(path.slice(0, -1))} ${String(path.at(-1) ?? '')}`.trim();
  if (valueAt(root, path) === undefined) return { path, message: `${label}: the key is missing` };
  const words = issue.code === 'invalid_key' ? issue.issues?.[0]?.message : issue.message;
  const expected = issue.expected === undefined ? '' : `must be ${article(issue.expected)}`;
  return { path, message: `${label}: ${words === NO_WORDS || words === undefined ? expected : words}` };
}

function article(type: string): string {
  const words: Record<string, string> = { string: 'text', array: 'an array', object: 'a table', record: 'a table' };
  return words[type] ?? type;
}

function sectionName(path: readonly (string | number)[]): string {
  return path.length === 0 ? 'the file' : `[${path.join('.')}]`;
}

function valueAt(root: unknown, path: readonly (string | number)[]): unknown {
  let value: unknown = root;
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Reflect.get(value, part);
  }
  return value;
}

function resolve(stack: StackConfigFile['stack']): StackConfig {
  return {
    driver: stack.driver,
    units: stack.units ?? 1,
    ports: stack.ports ?? [],
    setup: stack.setup ?? [],
    pass_env: stack.pass_env ?? [],
    on_idle: stack.on_idle ?? 'destroy',
    idle_ttl_ms: readDurationMs(stack.idle_ttl),
    hard_ttl_ms: readDurationMs(stack.hard_ttl),
    services: Object.entries(stack.service ?? {}).map(([name, service]) => resolveService(name, service)),
    env: stack.env ?? {},
  };
}

type ServiceFile = NonNullable<StackConfigFile['stack']['service']>[string];

function resolveService(name: string, service: ServiceFile): ServiceConfig {
  return {
    name,
    prepare: service.prepare ?? [],
    command: service.command,
    ready: service.ready === undefined ? null : resolveReady(service.ready),
    stop: {
      signal: service.stop?.signal ?? 'SIGTERM',
      grace_ms: readDurationMs(service.stop?.grace) ?? STOP_GRACE_MS,
    },
    cwd: service.cwd ?? '.',
  };
}

function resolveReady(ready: NonNullable<ServiceFile['ready']>): ReadyConfig {
  const timeout_ms = readDurationMs(ready.timeout) ?? READY_TIMEOUT_MS;
  if (ready.tcp !== undefined) return { kind: 'tcp', port: ready.tcp, timeout_ms };
  if (ready.http !== undefined) return { kind: 'http', url: ready.http, timeout_ms };
  return { kind: 'exec', command: ready.exec ?? [], timeout_ms };
}

function missing(worktreeRoot: string, file: string): Failure {
  const found = UNSUPPORTED_FILES.find(({ path }) => pathExists(join(worktreeRoot, path)));
  if (found !== undefined) return unsupported(found.driver, join(worktreeRoot, found.path));
  return new Failure('config_missing', `there is no ${file}; a small one:\n${EXAMPLE}`, {
    fields: { file, example: EXAMPLE },
  });
}

function unsupported(driver: string, file: string): Failure {
  return new Failure('driver_unsupported', `${file} asks for the ${driver} driver; this build has only process`, {
    fields: { file, driver, supported: ['process'] },
  });
}

function invalid(file: string, line: number, message: string, fields: Record<string, unknown>): Failure {
  return new Failure('config_invalid', `${file}:${line}: ${message}`, { fields: { file, line, ...fields } });
}

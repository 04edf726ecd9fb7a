import { describe, expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Failure } from '../../src/platform/failure.ts';
import { parseStackConfig, readStackConfig } from '../../src/stack/config-file.ts';
import { makeTempDir } from '../support/temp-home.ts';

const WHOLE = `
[stack]
driver = "process"
units = 2
ports = ["db", "api-http"]
setup = [["npm", "run", "migrate"]]
pass_env = ["PGUSER"]
on_idle = "stop"
idle_ttl = "5m"
hard_ttl = 90

[stack.service.db]
prepare = [["initdb", "-D", "{dir}/db"]]
command = ["postgres", "-p", "{port.db}"]
ready = { tcp = "db", timeout = "20s" }
stop = { signal = "SIGINT", grace = "10s" }

[stack.service.api]
command = ["sh", "-c", "exec serve $PORT"]
ready = { http = "http://{host}:{port.api-http}/healthz" }
cwd = "services/api"

[stack.env]
DATABASE_URL = "postgres://postgres@127.0.0.1:{port.db}/postgres"
`;

function failureOf(action: () => unknown): Failure {
  try {
    action();
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

const refusal = (text: string) => failureOf(() => parseStackConfig(text, '/w/botbuddy.toml'));
const stack = (lines: string) => `[stack]\ndriver = "process"\n${lines}`;

describe('a whole file', () => {
  test('is read with its services in the order of the file', () => {
    const config = parseStackConfig(WHOLE, '/w/botbuddy.toml');
    expect(config).toMatchObject({
      driver: 'process',
      units: 2,
      ports: ['db', 'api-http'],
      on_idle: 'stop',
      idle_ttl_ms: 300_000,
      hard_ttl_ms: 90_000,
    });
    expect(config.services.map(({ name }) => name)).toEqual(['db', 'api']);
    expect(config.services[0]).toMatchObject({
      ready: { kind: 'tcp', port: 'db', timeout_ms: 20_000 },
      stop: { signal: 'SIGINT', grace_ms: 10_000 },
      cwd: '.',
    });
    expect(config.services[1]).toMatchObject({
      ready: { kind: 'http', timeout_ms: 60_000 },
      stop: { signal: 'SIGTERM' },
    });
  });

  test('may name no service and no port', () => {
    expect(parseStackConfig(stack(''), 'f')).toMatchObject({
      units: 1,
      ports: [],
      services: [],
      setup: [],
      on_idle: 'destroy',
      idle_ttl_ms: null,
    });
  });

  test('keeps braces that are no names', () => {
    const config = parseStackConfig(stack(`[stack.env]\nA = '{"a":{"b":1}} {} {{host}}'`), 'f');
    expect(config.env['A']).toBe('{"a":{"b":1}} {} {{host}}');
  });
});

describe('a mistake is named with its line and the nearest known word', () => {
  test.each([
    ['an unknown key of [stack]', stack('prots = ["db"]'), 3, 'ports'],
    ['an unknown section', '[stack]\ndriver = "process"\n[stak]\na = 1', 3, 'stack'],
    ['an unknown key of a service', stack('[stack.service.db]\ncommand = ["x"]\ncomand = ["y"]'), 5, 'command'],
    [
      'an unknown key of an inline table',
      stack('ports = ["db"]\n[stack.service.db]\ncommand = ["x"]\nready = { tpc = "db" }'),
      6,
      'tcp',
    ],
    [
      'an unknown key of stop',
      stack('[stack.service.db]\ncommand = ["x"]\n[stack.service.db.stop]\ngarce = "1s"'),
      6,
      'grace',
    ],
    [
      'an unknown port in a template',
      stack('ports = ["db"]\n[stack.service.db]\ncommand = [\n "x",\n "{port.bd}"]'),
      7,
      'port.db',
    ],
    ['an unknown name in an environment value', stack('[stack.env]\nA = "{projct}"'), 4, 'project'],
    ['an unknown name in setup', stack('setup = [["x", "{dri}"]]'), 3, 'dir'],
    [
      'an unknown port of a readiness check',
      stack('ports = ["db"]\n[stack.service.db]\ncommand = ["x"]\nready = { tcp = "bd" }'),
      6,
      'db',
    ],
  ])('%s', (_what, text, line, nearest) => {
    const failure = refusal(text);
    expect(failure.code).toBe('config_invalid');
    expect(failure.fields).toMatchObject({ file: '/w/botbuddy.toml', line, nearest });
    expect(failure.message).toStartWith(`/w/botbuddy.toml:${line}: `);
    expect(failure.message).toContain(nearest);
  });
});

describe('a bad value is named with its line', () => {
  test.each([
    ['broken syntax', '[stack]\ndriver = \n', 2, ''],
    ['a key given twice', '[stack]\ndriver = "process"\ndriver = "process"', 3, ''],
    ['no driver', '[stack]\nunits = 1', 1, 'driver: the key is missing'],
    ['an unknown driver', '[stack]\ndriver = "docker"', 2, 'one of process, compose, supabase'],
    ['units as text', stack('units = "2"'), 3, 'a whole number'],
    ['no units', stack('units = 0'), 3, 'at least 1'],
    ['a half unit', stack('units = 1.5'), 3, 'a whole number'],
    ['a command as text', stack('[stack.service.db]\ncommand = "postgres -D x"'), 4, 'a command is an array of text'],
    ['an empty command', stack('[stack.service.db]\ncommand = []'), 4, 'a command needs a program'],
    ['setup as one command', stack('setup = ["npm", "run"]'), 3, 'a command is an array of text'],
    ['a service without a command', stack('[stack.service.db]\ncwd = "."'), 3, 'command: the key is missing'],
    [
      'two ways to be ready',
      stack('ports = ["a"]\n[stack.service.db]\ncommand = ["x"]\nready = { tcp = "a", exec = ["x"] }'),
      6,
      'exactly one',
    ],
    ['a bad duration', stack('idle_ttl = "5 minutes"'), 3, 'a duration is'],
    [
      'a bad time-out',
      stack('[stack.service.a]\ncommand = ["x"]\nready = { exec = ["x"], timeout = "soon" }'),
      5,
      'a duration is',
    ],
    ['an unknown signal', stack('[stack.service.a]\ncommand = ["x"]\nstop = { signal = "TERM" }'), 5, 'one of SIGTERM'],
    ['a bad port name', stack('ports = ["my db"]'), 3, 'a name is'],
    ['two ports with one variable', stack('ports = ["a-b", "a_b"]'), 3, 'BOTBUDDY_PORT_A_B'],
    ['a port that is a setting', stack('ports = ["range"]'), 3, 'BOTBUDDY_PORT_RANGE'],
    ['a service with a bad name', stack('[stack.service."1 db"]\ncommand = ["x"]'), 3, 'a name is'],
    ['a claimed variable', stack('[stack.env]\nBOTBUDDY_LEASE_ID = "x"'), 4, 'BOTBUDDY_'],
    ['a variable with a bad name', stack('[stack.env]\n"A B" = "x"'), 4, 'not the name'],
    ['a number as a variable', stack('[stack.env]\nA = 1'), 4, 'must be text'],
    ['an inherited claim', stack('pass_env = ["BOTBUDDY_LEASE_ID"]'), 3, 'never inherited'],
    ['an inherited loader', stack('pass_env = ["LD_PRELOAD"]'), 3, 'load code'],
    ['another scheme', stack('[stack.service.a]\ncommand = ["x"]\nready = { http = "https://x" }'), 5, 'http://'],
  ])('%s', (_what, text, line, words) => {
    const failure = refusal(text);
    expect(failure.code).toBe('config_invalid');
    expect(failure.fields).toMatchObject({ line });
    expect(failure.message).toContain(words);
  });

  test('the first of several mistakes by line is reported', () => {
    expect(refusal(stack('units = "x"\nprots = 1')).fields).toMatchObject({ line: 3 });
  });

  test('an empty file says what a small one looks like', () => {
    expect(refusal('# nothing\n').message).toContain('driver = "process"');
  });
});

describe('a worktree', () => {
  const read = (files: Record<string, string>) => {
    using dir = makeTempDir();
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(dir.path, name)), { recursive: true });
      writeFileSync(join(dir.path, name), text);
    }
    return readStackConfig(dir.path);
  };

  test('with a file is read', () => {
    expect(read({ 'botbuddy.toml': WHOLE }).config.units).toBe(2);
  });

  test('without one is told a three-line example', () => {
    const failure = failureOf(() => read({}));
    expect(failure.code).toBe('config_missing');
    expect(String(failure.fields['example']).split('\n')).toHaveLength(3);
  });

  test.each([
    ['compose.yaml', 'compose'],
    ['docker-compose.yml', 'compose'],
    ['supabase/config.toml', 'supabase'],
  ])('with only %s is told that the %s driver is missing', (file, driver) => {
    const failure = failureOf(() => read({ [file]: '' }));
    expect(failure.code).toBe('driver_unsupported');
    expect(failure.fields).toMatchObject({ driver });
  });

  test('that asks for another driver is refused', () => {
    expect(failureOf(() => read({ 'botbuddy.toml': '[stack]\ndriver = "compose"\n' })).code).toBe('driver_unsupported');
  });
});

import { describe, expect, test } from 'bun:test';
import { connectionFileSchema, connectionSchema } from '../../src/protocol/connection.ts';
import { knownKeysAt, stackConfigFileSchema } from '../../src/protocol/stack-config.ts';
import { type StackPlan, stackPlanSchema } from '../../src/protocol/stack-plan.ts';

const plan: StackPlan = {
  schema_version: 1,
  driver: 'process',
  slot: 'slot',
  project: 'bb-local-abc',
  host: '127.0.0.1',
  worktree_root: '/w',
  stack_dir: '/w',
  slot_dir: '/h/stacks/s',
  data_dir: '/h/stacks/s/data',
  blocks: [{ port_base: 20_000, size: 20 }],
  ports: { db: 20_000 },
  guard_ports: [20_019],
  services: [
    {
      name: 'db',
      prepare: [],
      command: ['postgres'],
      ready: { kind: 'tcp', port: 20_000, timeout_ms: 1_000 },
      stop: { signal: 'SIGINT', grace_ms: 1_000 },
      cwd: '.',
    },
  ],
  setup: [],
  env: {},
};

describe('a plan', () => {
  test('is taken as it is written', () =>
    expect(stackPlanSchema.parse(JSON.parse(JSON.stringify(plan)))).toEqual(plan));

  test.each([
    ['another version', { schema_version: 2 }],
    ['another driver', { driver: 'compose' }],
    ['no block', { blocks: [] }],
    ['no guard', { guard_ports: [] }],
    ['an empty command', { setup: [[]] }],
    ['a key that nobody knows', { extra: 1 }],
    ['a project with a path in it', { project: '../x' }],
  ])('with %s is none', (_what, change) =>
    expect(stackPlanSchema.safeParse({ ...plan, ...change }).success).toBe(false),
  );
});

test('a connection has no room for a credential', () => {
  const connection = { host: '127.0.0.1', ports: { db: 1 }, urls: {} };
  expect(connectionSchema.safeParse(connection).success).toBe(true);
  expect(connectionSchema.safeParse({ ...connection, password: 'x' }).success).toBe(false);
  const file = { schema_version: 1, lease_id: 'L', project: 'p', ...connection };
  expect(connectionFileSchema.safeParse(file).success).toBe(true);
  expect(connectionFileSchema.safeParse({ ...file, token: 'x' }).success).toBe(false);
});

test.each([
  [[], 'stack'],
  [['stack'], 'on_idle'],
  [['stack', 'service', 'db'], 'prepare'],
  [['stack', 'service', 'db', 'ready'], 'tcp'],
  [['stack', 'service', 'db', 'stop'], 'grace'],
])('the known keys of %j hold %p', (path, key) => expect(knownKeysAt(path)).toContain(key));

test.each([[['stack', 'env']], [['stack', 'service']]])('any name may stand in %j', (path) => {
  expect(knownKeysAt(path)).toBeNull();
});

test('a config file says nothing outside of its stack', () => {
  const file = { stack: { driver: 'process' } };
  expect(stackConfigFileSchema.safeParse(file).success).toBe(true);
  expect(stackConfigFileSchema.safeParse({ ...file, server: 'https://example.com' }).success).toBe(false);
});

import { describe, expect, test } from 'bun:test';
import { chmodSync, chownSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { EMPTY_STACK, script, WEB_STACK } from '../support/sample-stacks.ts';
import { makeStage, type Stage } from '../support/stage.ts';

const RUN_TRUE = ['stack', 'run', '--reap', '--', 'true'];

/** A directory of somebody else: one that root gives away, or one of root's for everybody else. */
function foreignDirectory(root: string): string {
  if (process.getuid?.() !== 0) return '/usr/share';
  const path = join(root, 'foreign');
  mkdirSync(path);
  chownSync(path, 65_534, 65_534);
  return path;
}

async function refused(stage: Stage, config: string | undefined) {
  const worktree = config === undefined ? stage.worktree({}) : stage.worktree({ config });
  return stage.botbuddy(worktree, RUN_TRUE);
}

describe('bad input ends with a typed outcome, a receipt and the next step', () => {
  test('no git repository', async () => {
    await using stage = await makeStage();
    const run = await stage.botbuddy(stage.root, RUN_TRUE);
    expect(run.receipt).toMatchObject({ outcome: 'error', code: 'not_a_repository', exit_code: 4, cleanup: null });
    expect(run.exitCode).toBe(4);
    expect(run.stderr).toMatch(/^error: /);
    expect(run.stderr).toContain('hint: ');
  });

  test('no config', async () => {
    await using stage = await makeStage();
    const run = await refused(stage, undefined);
    expect(run.receipt).toMatchObject({ code: 'config_missing', exit_code: 4 });
    expect(run.stderr).toContain('driver = "process"');
  });

  test('an unknown key, with its line and the nearest known one', async () => {
    await using stage = await makeStage();
    const run = await refused(stage, '[stack]\ndriver = "process"\nuntis = 2\n');
    expect(run.receipt).toMatchObject({ code: 'config_invalid', exit_code: 4 });
    expect(run.stderr).toContain('botbuddy.toml:3');
    expect(run.stderr).toContain('units');
  });

  test('a service that never gets ready, with its last words', async () => {
    await using stage = await makeStage();
    const service = script("console.log('about to fail'); console.error('no such table'); setInterval(() => {}, 1000)");
    const run = await refused(
      stage,
      `[stack]\ndriver = "process"\nports = ["db"]\n[stack.service.db]\ncommand = ${JSON.stringify(service)}\nready = { tcp = "db", timeout = "500ms" }\n`,
    );
    expect(run.receipt).toMatchObject({
      outcome: 'error',
      code: 'service_not_ready',
      exit_code: 6,
      cleanup: true,
      service_log: { service: 'db', lines: ['about to fail', 'no such table'] },
    });
  });

  test('a service that ends before it is ready', async () => {
    await using stage = await makeStage();
    const run = await refused(
      stage,
      '[stack]\ndriver = "process"\nports = ["db"]\n[stack.service.db]\ncommand = ["sh", "-c", "echo broken; exit 3"]\nready = { tcp = "db", timeout = "20s" }\n',
    );
    expect(run.receipt).toMatchObject({
      code: 'service_failed',
      exit_code: 6,
      cleanup: true,
      service_log: { lines: ['broken'] },
    });
  });

  test('a command that does not exist', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: EMPTY_STACK });
    const run = await stage.botbuddy(worktree, ['stack', 'run', '--reap', '--', 'no-such-command']);
    expect(run.receipt).toMatchObject({ code: 'command_not_found', exit_code: 4, cleanup: true });
  });

  test('a full port range', async () => {
    await using stage = await makeStage();
    const first = Number(stage.environment['BOTBUDDY_PORT_RANGE']?.split('-')[0]);
    using _blocker = Bun.listen({
      hostname: '0.0.0.0',
      port: first + 3,
      socket: { data() {} },
    }) as unknown as Disposable & { stop(): void };
    const worktree = stage.worktree({ config: WEB_STACK });
    const run = await stage.botbuddy(worktree, RUN_TRUE, { BOTBUDDY_PORT_RANGE: `${first}-${first}` });
    expect(run.receipt).toMatchObject({ code: 'port_range_full', exit_code: 5 });
  });

  test('a registry file that does not parse is kept and allocated around', async () => {
    await using stage = await makeStage();
    const first = Number(stage.environment['BOTBUDDY_PORT_RANGE']?.split('-')[0]);
    const ports = join(stage.home, 'ports');
    mkdirSync(ports, { recursive: true, mode: 0o700 });
    chmodSync(stage.home, 0o700);
    writeFileSync(join(ports, `${first}.json`), '{ not json', { mode: 0o600 });
    const worktree = stage.worktree({ config: WEB_STACK });
    const run = await stage.botbuddy(worktree, RUN_TRUE, { BOTBUDDY_PORT_RANGE: `${first}-${first + 20}` });
    expect(run.receipt).toMatchObject({ exit_code: 0, cleanup: true });
    expect(await Bun.file(join(ports, `${first}.json`)).text()).toBe('{ not json');
  });

  test('a read-only home', async () => {
    await using stage = await makeStage();
    writeFileSync(join(stage.root, 'file'), '');
    const worktree = stage.worktree({ config: EMPTY_STACK });
    const run = await stage.botbuddy(worktree, RUN_TRUE, { BOTBUDDY_HOME: join(stage.root, 'file', 'home') });
    expect(run.receipt).toMatchObject({ code: 'state_unwritable', exit_code: 5 });
  });

  test('a child that leaves no final newline: the receipt is the last line all the same', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: EMPTY_STACK });
    const run = await stage.botbuddy(worktree, ['stack', 'run', '--reap', '--', 'printf', 'no newline']);
    expect(run.stdout.split('\n')[0]).toBe('no newline');
    expect(run.receipt).toMatchObject({ exit_code: 0 });
  });

  test('a bad size for the receipt is refused before the command runs', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: EMPTY_STACK });
    const run = await stage.botbuddy(worktree, ['stack', 'run', '--receipt-max-bytes', '20', '--', 'touch', 'ran']);
    expect(run.exitCode).toBe(4);
    expect(existsSync(join(worktree, 'ran'))).toBe(false);
  });

  test('a home that belongs to another user', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: EMPTY_STACK });
    const run = await stage.botbuddy(worktree, RUN_TRUE, { BOTBUDDY_HOME: foreignDirectory(stage.root) });
    expect(run.receipt).toMatchObject({ code: 'state_foreign', exit_code: 5 });
  });

  test('unknown flags and commands name the nearest right one', async () => {
    await using stage = await makeStage();
    const flag = await stage.botbuddy(stage.root, ['stack', 'run', '--repa', '--', 'true']);
    expect(flag.exitCode).toBe(4);
    expect(flag.stderr).toContain('--reap');
    const command = await stage.botbuddy(stage.root, ['stack', 'rnu']);
    expect(command.stderr).toContain('botbuddy stack run');
  });
});

test('a port of the wanted block that somebody else uses moves the claim to the next block, and the receipt says so', async () => {
  await using stage = await makeStage();
  const worktree = stage.worktree({ config: WEB_STACK });
  const plan = await stage.botbuddy(worktree, ['stack', 'plan']);
  const wanted = (JSON.parse(plan.stdout) as { wanted: number }).wanted;
  const stranger = createServer().listen(wanted + 5, '::1');
  try {
    const run = await stage.botbuddy(worktree, RUN_TRUE);
    expect(run.receipt).toMatchObject({ exit_code: 0, wanted });
    expect(run.receipt?.['got']).not.toBe(wanted);
  } finally {
    stranger.close();
  }
});

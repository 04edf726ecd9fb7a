import { describe, expect, test } from 'bun:test';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { identityOf } from '../../src/platform/processes.ts';
import { eventually } from '../support/eventually.ts';
import { EMPTY_STACK, script, WEB_STACK } from '../support/sample-stacks.ts';
import { BINARY, makeStage } from '../support/stage.ts';

const TELL_ARGV = join(import.meta.dir, '../fixtures/processes/tell-argv.mjs');

describe('the command of a run', () => {
  test('gets its arguments byte for byte', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: EMPTY_STACK });
    const odd = ['--help', '', 'two words', '"quoted"', "it's", 'line\nbreak', 'ünï 🐝', '-x', '--', '$HOME', '*'];
    const run = await stage.botbuddy(worktree, ['stack', 'run', '--reap', '--', process.execPath, TELL_ARGV, ...odd]);
    expect(JSON.parse(run.stdout.split('\n')[0] ?? '')).toEqual(odd);
  });

  test.each([1, 3, 8, 127, 255])('its exit code %p is the exit code of the run', async (code) => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: EMPTY_STACK });
    const run = await stage.botbuddy(worktree, ['stack', 'run', '--reap', '--', 'sh', '-c', `exit ${code}`]);
    expect(run.exitCode).toBe(code);
    expect(run.receipt).toMatchObject({ outcome: 'failed', child_exit_code: code, cleanup: true });
  });

  test('what it leaves behind is ended with it, also in a session of its own', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: EMPTY_STACK });
    const pidFile = join(worktree, 'left.pid');
    const leave = `setsid sh -c 'echo $$ >"${pidFile}"; trap "" TERM; while :; do sleep 1; done' & while [ ! -s "${pidFile}" ]; do sleep 0.05; done`;
    const run = await stage.botbuddy(worktree, ['stack', 'run', '--reap', '--', 'sh', '-c', leave]);
    expect(run.receipt).toMatchObject({ exit_code: 0, cleanup: true });
    expect(run.receipt?.['survivors_ended']).toBeGreaterThan(0);
    expect(identityOf(Number(readFileSync(pidFile, 'utf8')))).toBeNull();
  }, 30_000);

  test('its variables are built for it, never inherited, and its connection file is private', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: WEB_STACK });
    const tell = script(
      'console.log(JSON.stringify([process.env, await Bun.file(process.env.BOTBUDDY_CONNECTION_FILE).json()]))',
    );
    const hostile = { BOTBUDDY_PORT_WEB: '1', BOTBUDDY_LEASE_ID: 'stale', BOTBUDDY_PORT_OTHER: '2', MINE: 'kept' };
    const run = await stage.botbuddy(worktree, ['stack', 'run', '--reap', '--', ...tell], hostile);
    const [env, connection] = JSON.parse(run.stdout.split('\n')[0] ?? '') as [
      Record<string, string>,
      { ports: { web: number } },
    ];
    expect(env['BOTBUDDY_PORT_WEB']).toBe(String(connection.ports.web));
    expect(env['BOTBUDDY_LEASE_ID']).toBe(String(run.receipt?.['lease_id']));
    expect(env['BOTBUDDY_PORT_OTHER']).toBeUndefined();
    expect(env['MINE']).toBe('kept');
    expect(existsSync(env['BOTBUDDY_CONNECTION_FILE'] ?? '')).toBe(false);
  });

  test('SIGTERM to the run reaches the command, and the cleanup still runs', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: WEB_STACK });
    const started = join(worktree, 'started');
    const run = stage.start(worktree, [
      'stack',
      'run',
      '--reap',
      '--',
      'sh',
      '-c',
      `trap 'echo got it; exit 0' TERM; : >${started}; while :; do sleep 0.05; done`,
    ]);
    await eventually('the command runs', () => existsSync(started));
    run.kill('SIGTERM');
    const { exitCode, stdout, receipt } = await run.finished;
    expect(exitCode).toBe(143);
    expect(stdout).toContain('got it');
    expect(receipt).toMatchObject({ outcome: 'interrupted', cleanup: true, port_block: { released: true } });
  });

  test('a run inside of a run uses the stack that is there', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: WEB_STACK });
    const inner = [BINARY, 'stack', 'run', '--', 'sh', '-c', 'echo inner $WEB_URL; exit 4'];
    const outer = ['sh', '-c', 'echo outer $WEB_URL; "$@"; test $? = 4', 'sh', ...inner];
    const run = await stage.botbuddy(worktree, ['stack', 'run', '--reap', '--', ...outer]);
    const [outerLine = '', innerLine = ''] = run.stdout.split('\n');
    expect(innerLine.replace('inner', 'outer')).toBe(outerLine);
    expect(run.stdout).toContain('"nested":true');
    expect(run.receipt).toMatchObject({ exit_code: 0, cleanup: true });
  });

  test('a hard TTL ends it', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: EMPTY_STACK });
    const run = await stage.botbuddy(worktree, ['stack', 'run', '--reap', '--hard-ttl', '300ms', '--', 'sleep', '600']);
    expect(run.receipt).toMatchObject({ outcome: 'timeout', code: 'HARD_TTL', exit_code: 2, cleanup: true });
  });

  test('a receipt file leaves stdout to the command', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: EMPTY_STACK });
    const file = join(stage.root, 'receipt.json');
    const run = await stage.botbuddy(worktree, [
      'stack',
      'run',
      '--reap',
      '--receipt-file',
      file,
      '--',
      'echo',
      'mine',
    ]);
    expect(run.stdout).toBe('mine\n');
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ exit_code: 0, cleanup: true });
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });
});

import { describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';
import { holdUntil, script, WEB_STACK } from '../support/sample-stacks.ts';
import { makeStage } from '../support/stage.ts';

const CLAIM_FILE = /^\d+\.json$/;

describe('two worktrees on one unit', () => {
  test('take turns with --reap, each on a stack and ports of its own, and leave nothing', async () => {
    await using stage = await makeStage({ BOTBUDDY_HOST_UNITS: '1' });
    const worktrees = ['alice', 'bob'].map((name) => stage.worktree({ config: WEB_STACK, name }));
    const child = script(`
      await fetch(process.env.WEB_URL + '/' + process.cwd().split('/').at(-1), { method: 'POST' });
      console.log(await (await fetch(process.env.WEB_URL)).text());
    `);

    const runs = await Promise.all(
      worktrees.map((path) => stage.botbuddy(path, ['stack', 'run', '--reap', '--', ...child])),
    );

    for (const [i, run] of runs.entries()) {
      const name = ['alice', 'bob'][i];
      expect(run.receipt).toMatchObject({
        outcome: 'completed',
        cleanup: true,
        port_block: { released: true },
        exit_code: 0,
      });
      const said = JSON.parse(run.stdout.split('\n')[0] ?? '{}') as { worktree: string; notes: string[] };
      expect(said).toMatchObject({ worktree: name, notes: [`/${name}`] });
    }
    expect(readdirSync(join(stage.home, 'ports')).filter((file) => CLAIM_FILE.test(file))).toEqual([]);
  });

  test('with the default release the idle stack makes room for the one that waits', async () => {
    await using stage = await makeStage({ BOTBUDDY_HOST_UNITS: '1' });
    const [alice, bob] = ['alice', 'bob'].map((name) => stage.worktree({ config: WEB_STACK, name })) as [
      string,
      string,
    ];

    const first = await stage.botbuddy(alice, ['stack', 'run', '--', 'true']);
    expect(first.receipt).toMatchObject({
      exit_code: 0,
      cleanup: { idle: true },
      port_block: { released: false, reason: 'idle' },
    });
    const second = await stage.botbuddy(bob, ['stack', 'run', '--', 'true']);
    expect(second.receipt).toMatchObject({ exit_code: 0, cleanup: { idle: true } });

    const status = await stage.botbuddy(alice, ['stack', 'status', String(first.receipt?.['lease_id'])]);
    expect(status.receipt).toMatchObject({ state: 'reaped', reap_reason: 'preempted_idle', cleanup: true });
    const down = await stage.botbuddy(bob, ['down']);
    expect(down.receipt).toMatchObject({ exit_code: 0, cleanup: true });
    expect(readdirSync(join(stage.home, 'ports')).filter((file) => CLAIM_FILE.test(file))).toEqual([]);
  });

  test('the next run of a worktree takes its idle stack up again, with its data', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: WEB_STACK });
    const note = script(`await fetch(process.env.WEB_URL + '/kept', { method: 'POST' })`);
    const first = await stage.botbuddy(worktree, ['stack', 'run', '--', ...note]);
    const read = script('console.log(await (await fetch(process.env.WEB_URL)).text())');
    const second = await stage.botbuddy(worktree, ['stack', 'run', '--reap', '--', ...read]);

    expect(second.receipt).toMatchObject({ exit_code: 0, reused: 'idle', lease_id: first.receipt?.['lease_id'] });
    expect(second.stdout).toContain('/kept');
  });

  test('the holder keeps its stack while its command runs; the one that waits is told its place, then gets the unit', async () => {
    await using stage = await makeStage({ BOTBUDDY_HOST_UNITS: '1' });
    const [alice, bob] = ['alice', 'bob'].map((name) => stage.worktree({ config: WEB_STACK, name })) as [
      string,
      string,
    ];
    const open = join(stage.root, 'open');
    const holder = stage.start(alice, ['stack', 'run', '--reap', '--', ...holdUntil(open)]);
    await eventually(
      'alice holds the unit',
      async () => (await stage.botbuddy(alice, ['stack', 'status'])).receipt?.['state'] === 'active',
    );

    const done = await stage.botbuddy(alice, ['stack', 'done']);
    expect(done.receipt).toMatchObject({ code: 'STACK_CONTEXT_ALREADY_BOUND', exit_code: 5 });
    expect(done.stderr).toContain('still runs');

    const waiting = stage.start(bob, ['stack', 'run', '--reap', '--', 'true']);
    await eventually('bob is told his place', () => waiting.stderrSoFar().includes('queued: position 1'));
    expect(existsSync(open)).toBe(false);
    writeFileSync(open, '');

    expect((await holder.finished).exitCode).toBe(0);
    expect((await waiting.finished).receipt).toMatchObject({ exit_code: 0, outcome: 'completed' });
  });
});

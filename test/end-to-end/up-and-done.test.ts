import { describe, expect, test } from 'bun:test';
import { WEB_STACK } from '../support/sample-stacks.ts';
import { makeStage } from '../support/stage.ts';

describe('a stack that is kept up', () => {
  test('is up, tells its environment and its state, goes idle, comes back, and ends with proof', async () => {
    await using stage = await makeStage();
    const worktree = stage.worktree({ config: WEB_STACK });

    const up = await stage.botbuddy(worktree, ['stack', 'up']);
    expect(up.receipt).toMatchObject({ outcome: 'completed', state: 'active', exit_code: 0, cleanup: null });
    const port = (up.receipt as { connection: { ports: { web: number } } }).connection.ports.web;
    expect(await (await fetch(`http://127.0.0.1:${port}`)).json()).toMatchObject({ notes: [] });

    const env = await stage.botbuddy(worktree, ['stack', 'env']);
    expect(env.stdout).toContain(`export WEB_URL='http://127.0.0.1:${port}'`);
    expect(env.stdout).not.toContain('REAP_MARK');

    const again = await stage.botbuddy(worktree, ['stack', 'up']);
    expect(again.receipt).toMatchObject({
      code: 'STACK_CONTEXT_ALREADY_BOUND',
      exit_code: 5,
      lease_id: up.receipt?.['lease_id'],
    });

    expect(again.stderr).toContain(`hint: botbuddy stack done ${up.receipt?.['lease_id']} --reap`);

    const done = await stage.botbuddy(worktree, ['stack', 'done']);
    expect(done.receipt).toMatchObject({ outcome: 'idle', exit_code: 0, cleanup: { idle: true } });

    const back = await stage.botbuddy(worktree, ['stack', 'up']);
    expect(back.receipt).toMatchObject({ reused: 'idle', lease_id: up.receipt?.['lease_id'], exit_code: 0 });

    const ended = await stage.botbuddy(worktree, ['stack', 'done', '--reap']);
    expect(ended.receipt).toMatchObject({
      outcome: 'released',
      cleanup: true,
      port_block: { released: true, cleanup_proof: 'signed_reap' },
      exit_code: 0,
    });
  }, 60_000);

  test('up --no-wait on a full host says who holds it, and ends with 1', async () => {
    await using stage = await makeStage({ BOTBUDDY_HOST_UNITS: '1' });
    const [alice, bob] = ['alice', 'bob'].map((name) => stage.worktree({ config: WEB_STACK, name })) as [
      string,
      string,
    ];
    await stage.botbuddy(alice, ['stack', 'up']);
    const queued = await stage.botbuddy(bob, ['stack', 'up', '--no-wait']);
    expect(queued.receipt).toMatchObject({
      outcome: 'queued',
      queued: true,
      queue_position: 1,
      holders: [{ state: 'active' }],
      exit_code: 1,
    });
    const down = await stage.botbuddy(bob, ['down']);
    expect(down.receipt).toMatchObject({
      exit_code: 0,
      leases: [{ port_block: { cleanup_proof: 'never_provisioned' } }],
    });
    await stage.botbuddy(alice, ['down']);
  }, 60_000);

  test('a wait for a timer matches, a wait in bad grammar names the position', async () => {
    await using stage = await makeStage();
    const timer = await stage.botbuddy(stage.root, ['wait', 'timer:in=50ms']);
    expect(timer.receipt).toMatchObject({ outcome: 'matched', exit_code: 0 });
    const bad = await stage.botbuddy(stage.root, ['wait', 'lease:idd=1']);
    expect(bad.exitCode).toBe(4);
    expect(bad.stderr).toContain('at position 6');
  });

  test('serve --stop ends coordinator and Helper, and says so', async () => {
    await using stage = await makeStage();
    await stage.botbuddy(stage.root, ['stack', 'list']);
    const stop = await stage.botbuddy(stage.root, ['serve', '--stop']);
    expect(stop.receipt).toMatchObject({ coordinator: 'stopped' });
    const again = await stage.botbuddy(stage.root, ['serve', '--stop']);
    expect(again.receipt).toMatchObject({ coordinator: 'not_running', helper: 'not_running' });
  });
});

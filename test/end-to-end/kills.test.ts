import { describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findMarked, identityOf } from '../../src/platform/processes.ts';
import { eventually } from '../support/eventually.ts';
import { holdUntil, WEB_STACK } from '../support/sample-stacks.ts';
import { makeStage, readJson, type Stage } from '../support/stage.ts';

const TTL_SECS = '2';

const claims = (stage: Stage): string[] =>
  readdirSync(join(stage.home, 'ports')).filter((file) => /^\d+\.json$/.test(file));

/** Starts a run whose child writes its pid and then holds; answers with the run and what it holds. */
async function holdingRun(stage: Stage, worktree: string) {
  const pidFile = join(worktree, 'child.pid');
  const hold = ['sh', '-c', `echo $$ >'${pidFile}'; exec sleep 600`];
  const run = stage.start(worktree, ['stack', 'run', '--reap', '--', ...hold]);
  const childPid = await eventually(
    'the child runs',
    () => existsSync(pidFile) && Number(readFileSync(pidFile, 'utf8')),
    {
      withinMs: 30_000,
    },
  );
  const { receipt } = await stage.botbuddy(worktree, ['stack', 'status']);
  return { run, childPid, leaseId: String(receipt?.['lease_id']) };
}

describe('a client killed with -9 in mid-run', () => {
  test('its child, services, ports and claim go within TTL and grace, and the next in line runs', async () => {
    await using stage = await makeStage({
      BOTBUDDY_HOST_UNITS: '1',
      BOTBUDDY_LEASE_TTL_SECS: TTL_SECS,
      BOTBUDDY_BEACON_SECS: '1',
    });
    const [alice, bob] = ['alice', 'bob'].map((name) => stage.worktree({ config: WEB_STACK, name })) as [
      string,
      string,
    ];
    const { run, childPid, leaseId } = await holdingRun(stage, alice);
    const next = stage.start(bob, ['stack', 'run', '--reap', '--', 'true']);
    expect(findMarked('BOTBUDDY_REAP_MARK', leaseId).length).toBeGreaterThan(1);

    run.kill('SIGKILL');
    await run.finished;

    expect((await next.finished).receipt).toMatchObject({ exit_code: 0, outcome: 'completed', cleanup: true });
    expect(identityOf(childPid)).toBeNull();
    expect(findMarked('BOTBUDDY_REAP_MARK', leaseId)).toEqual([]);
    const status = await stage.botbuddy(alice, ['stack', 'status', leaseId]);
    expect(status.receipt).toMatchObject({ state: 'reaped', reap_reason: 'heartbeat_lost', cleanup: true });
    await eventually('the claim of the dead is gone', () => claims(stage).length === 0);
  }, 60_000);
});

describe('a client stopped for three TTLs', () => {
  test('loses its lease, its child is ended meanwhile, and it ends as fenced when it goes on', async () => {
    await using stage = await makeStage({ BOTBUDDY_LEASE_TTL_SECS: TTL_SECS, BOTBUDDY_BEACON_SECS: '1' });
    const worktree = stage.worktree({ config: WEB_STACK });
    const { run, childPid, leaseId } = await holdingRun(stage, worktree);

    run.kill('SIGSTOP');
    await eventually('the stack is gone', () => findMarked('BOTBUDDY_REAP_MARK', leaseId).length === 0, {
      withinMs: 30_000,
    });
    expect(identityOf(childPid)).toBeNull();
    const next = await stage.botbuddy(worktree, ['stack', 'run', '--', 'true']);
    run.kill('SIGCONT');

    const { receipt } = await run.finished;
    expect(receipt).toMatchObject({ code: 'LEASE_LOST', exit_code: 6, fenced: true, reap_reason: 'heartbeat_lost' });
    const after = await stage.botbuddy(worktree, ['stack', 'status', String(next.receipt?.['lease_id'])]);
    expect(after.receipt).toMatchObject({ state: 'idle' });
  }, 60_000);
});

describe('a coordinator killed with -9', () => {
  test('while one run is active and one is queued: both end with 0, and the queued one tells of an incident', async () => {
    await using stage = await makeStage({
      BOTBUDDY_HOST_UNITS: '1',
      BOTBUDDY_LEASE_TTL_SECS: '10',
      BOTBUDDY_BEACON_SECS: '1',
    });
    const [alice, bob] = ['alice', 'bob'].map((name) => stage.worktree({ config: WEB_STACK, name })) as [
      string,
      string,
    ];
    const open = join(stage.root, 'open');
    const active = stage.start(alice, ['stack', 'run', '--reap', '--', ...holdUntil(open)]);
    await eventually(
      'alice is active',
      async () => (await stage.botbuddy(alice, ['stack', 'status'])).receipt?.['state'] === 'active',
    );
    const queued = stage.start(bob, ['stack', 'run', '--reap', '--', 'true']);
    await eventually('bob is queued', () => queued.stderrSoFar().includes('queued: position 1'));

    const discovery = readJson(join(stage.home, 'coordinator.json')) as { identity: { pid: number } };
    process.kill(discovery.identity.pid, 'SIGKILL');
    await eventually(
      'another coordinator serves',
      async () => {
        const now = readJson(join(stage.home, 'coordinator.json')) as { identity: { pid: number } } | null;
        return now !== null && now.identity.pid !== discovery.identity.pid;
      },
      { withinMs: 30_000 },
    );
    writeFileSync(open, '');

    const [first, second] = await Promise.all([active.finished, queued.finished]);
    expect(first.receipt).toMatchObject({ exit_code: 0, outcome: 'completed', cleanup: true });
    expect(second.receipt).toMatchObject({
      exit_code: 0,
      outcome: 'completed',
      cleanup: true,
      platform_incident: { reason: 'platform_unreachable', recovered: true },
    });
  }, 90_000);
});

describe('a Helper killed with -9', () => {
  test('in mid-run: another one takes over and proves the cleanup', async () => {
    await using stage = await makeStage({ BOTBUDDY_BEACON_SECS: '1' });
    const worktree = stage.worktree({ config: WEB_STACK });
    const open = join(stage.root, 'open');
    const run = stage.start(worktree, ['stack', 'run', '--reap', '--', ...holdUntil(open)]);
    await eventually(
      'the run is active',
      async () => (await stage.botbuddy(worktree, ['stack', 'status'])).receipt?.['state'] === 'active',
    );

    const helper = readJson(join(stage.home, 'helper.json')) as { identity: { pid: number } };
    process.kill(helper.identity.pid, 'SIGKILL');
    writeFileSync(open, '');

    expect((await run.finished).receipt).toMatchObject({
      exit_code: 0,
      cleanup: true,
      port_block: { cleanup_proof: 'signed_reap' },
    });
  }, 60_000);
});

describe('a supervisor killed with -9', () => {
  test('the lease is lost, the child is ended, and the cleanup is proven', async () => {
    await using stage = await makeStage({ BOTBUDDY_BEACON_SECS: '1', BOTBUDDY_LEASE_TTL_SECS: '6' });
    const worktree = stage.worktree({ config: WEB_STACK });
    const { run, childPid, leaseId } = await holdingRun(stage, worktree);
    const slotDir = readdirSync(join(stage.home, 'stacks')).find((name) => !name.includes('.')) as string;
    const supervisor = readJson(join(stage.home, 'stacks', slotDir, 'supervisor.json')) as {
      identity: { pid: number };
    };
    process.kill(supervisor.identity.pid, 'SIGKILL');

    const { receipt } = await run.finished;
    expect(receipt).toMatchObject({ exit_code: 6, code: 'LEASE_LOST', fenced: true, cleanup: true, lease_id: leaseId });
    expect(identityOf(childPid)).toBeNull();
  }, 60_000);
});

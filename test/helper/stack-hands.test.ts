import { describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { portIsFree } from '../../src/platform/port-probe.ts';
import { isAlive, ownIdentity, spawnChild } from '../../src/platform/processes.ts';
import { recordChild } from '../../src/stack/claim-binding.ts';
import { claimsOfLease } from '../../src/stack/claim-registry.ts';
import { eventually } from '../support/eventually.ts';
import { afters, lastStatement, ONE_SERVICE, realStack, service } from './_real-stack.ts';

const ports = (world: { blocks: { port_base: number; size: number }[] }) =>
  world.blocks.flatMap(({ port_base, size }) => Array.from({ length: size }, (_, index) => port_base + index));

describe('a stack of real processes', () => {
  test('is provisioned under a claim that the Helper binds, and reaped to a signed proof', async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    const { db = 0 } = world.coordinator.toldOf('complete_job')[0]?.connection?.ports ?? {};
    expect(portIsFree(db)).toBe(false);
    expect(claimsOfLease(world.home, world.lease.lease_id)).toHaveLength(1);

    await world.reap();
    expect(world.marked()).toEqual([]);
    expect(ports(world).every(portIsFree)).toBe(true);
    const statement = lastStatement(world);
    expect(statement).toMatchObject({ kind: 'reap', disposition: 'destroy' });
    expect(afters(statement)).toEqual(['absent']);
    expect(statement.looked_for.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(['supervisor', 'group', 'port', 'directory']),
    );
  });

  test("frees a dead owner's claim only after the coordinator took the proof", async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    world.coordinator.once('complete_job', () => {
      expect(claimsOfLease(world.home, world.lease.lease_id)).toHaveLength(1);
      throw Object.assign(new Error('cut'), { code: 'ECONNRESET' });
    });
    await world.reap();
    expect(claimsOfLease(world.home, world.lease.lease_id)).toEqual([]);
    expect(world.statements.all()).toEqual([]);
    expect(existsSync(world.paths.creation)).toBe(false);
  });

  test('leaves the claim of a living owner to it, and gives it back when the owner died', async () => {
    await using world = await realStack(ONE_SERVICE, { owner: ownIdentity() });
    await world.work('provision_stack');
    await world.reap();
    expect(claimsOfLease(world.home, world.lease.lease_id)).toHaveLength(1);
    const [file = ''] = readdirSync(join(world.home, 'ports')).filter((name) => name.endsWith('.json'));
    const path = join(world.home, 'ports', file);
    const claim = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
    writeFileSync(path, JSON.stringify({ ...claim, owner_started_at: '1' }));
    await world.claims.follow([]);
    expect(claimsOfLease(world.home, world.lease.lease_id)).toEqual([]);
    expect(world.statements.all()).toEqual([]);
  });

  test("that fails to start is rolled back and fails with the service's last lines", async () => {
    await using world = await realStack(`ports = ["db"]
[stack.service.db]
command = ["sh", "-c", "echo no such role; exit 3"]
ready = { tcp = "db", timeout = "20s" }`);
    await world.work('provision_stack');
    const [failed] = world.coordinator.toldOf('fail_job');
    expect(failed?.error_class).toBe('service_failed');
    expect(failed?.error).toContain('no such role');
    expect(lastStatement(world, 'fail_job')).toMatchObject({ kind: 'rollback' });
    expect(afters(lastStatement(world, 'fail_job'))).toEqual(['absent']);
    expect(existsSync(world.paths.data)).toBe(false);
  });

  test('of which nothing was ever made is proven absent before any driver ran', async () => {
    await using world = await realStack();
    await world.reap();
    const statement = lastStatement(world);
    expect(statement.kind).toBe('pre_driver');
    expect(afters(statement)).toEqual(['absent']);
    expect(statement.looked_for.length).toBeGreaterThan(2);
  });

  test('is not started when the plan on the disk is another one', async () => {
    await using world = await realStack();
    rmSync(world.paths.requestedPlans, { recursive: true });
    await world.work('provision_stack');
    expect(world.coordinator.toldOf('fail_job')[0]?.error_class).toBe('plan_mismatch');
    expect(lastStatement(world, 'fail_job').kind).toBe('pre_driver');
  });

  test('is not started when its claim is gone', async () => {
    await using world = await realStack();
    rmSync(join(world.home, 'ports'), { recursive: true });
    await world.work('provision_stack');
    expect(world.coordinator.toldOf('fail_job')[0]?.error_class).toBe('STACK_CONTEXT_BIND_FAILED');
    expect(existsSync(world.paths.supervisor)).toBe(false);
  });
});

describe('a reap of real processes', () => {
  const proven = async (world: Awaited<ReturnType<typeof realStack>>) => {
    await world.reap();
    expect(world.coordinator.toldOf('fail_job')).toEqual([]);
    expect(afters(lastStatement(world))).toEqual(['absent']);
    expect(world.marked()).toEqual([]);
    expect(ports(world).every(portIsFree)).toBe(true);
  };

  test('works after the worktree was deleted', async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    rmSync(world.root, { recursive: true });
    await proven(world);
    expect(claimsOfLease(world.home, world.lease.lease_id)).toEqual([]);
  });

  test("works after the slot's directory was deleted under it", async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    const { identity } = world.supervisor();
    rmSync(world.paths.dir, { recursive: true });
    await proven(world);
    expect(isAlive(identity)).toBe(false);
    expect(lastStatement(world).kind).toBe('reap');
  });

  test('works when the plan is gone', async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    for (const path of [world.paths.plan, world.paths.env]) rmSync(path);
    rmSync(world.paths.requestedPlans, { recursive: true });
    await proven(world);
  });

  test('works after the supervisor was killed with -9', async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    process.kill(world.supervisor().identity.pid, 'SIGKILL');
    await proven(world);
  });

  test("ends the dead client's child, also what it started in a session of its own", async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    const child = spawnChild({
      argv: ['sh', '-c', 'setsid sleep 600 & exec sleep 600'],
      cwd: world.root,
      env: { PATH: process.env['PATH'] ?? '', BOTBUDDY_REAP_MARK: world.lease.lease_id },
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'ignore',
      detached: true,
    });
    await recordChild({ home: world.home, token: 'token-1', child: child.identity });
    await eventually('the child and its grandchild run', () => world.marked().length >= 3);
    await proven(world);
    expect((await child.exited).signal).toBe('SIGTERM');
    expect(lastStatement(world).looked_for.map(({ kind }) => kind)).toContain('child');
  }, 30_000);

  test('keeps the data with stop, and the next stack of the slot finds it', async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    await world.work('reap_stack', { state: 'reaping', reap_disposition: 'stop' });
    expect(lastStatement(world).disposition).toBe('stop');
    expect(readFileSync(join(world.paths.data, 'note'), 'utf8')).toBe('kept\n');
    expect(existsSync(world.paths.creation)).toBe(false);
  });

  test('stops a start of its own that is under way, and waits for its end', async () => {
    await using world = await realStack(`ports = ["db"]
[stack.service.db]
prepare = [["sh", "-c", "sleep 600"]]
command = ${service('listen', '{port.db}')}`);
    const loop = world.newLoop();
    const provisioned = world.work('provision_stack', {}, loop);
    await eventually('the start is under way', () => world.marked().length > 0);
    world.coordinator.jobs.clear();
    await world.work('reap_stack', { state: 'reaping' }, loop);
    await provisioned;
    expect(afters(lastStatement(world))).toEqual(['absent']);
    expect(world.marked()).toEqual([]);
    expect(world.coordinator.toldOf('fail_job')).toEqual([]);
  });

  test('of an older grant changes nothing in a newer stack', async () => {
    await using world = await realStack();
    await world.work('provision_stack', { fencing_token: 9, created_fencing_token: 9 });
    await world.work('reap_stack', { state: 'reaping', fencing_token: 7, created_fencing_token: 7 });
    expect(world.coordinator.toldOf('fail_job').at(-1)).toMatchObject({
      error_class: 'OLD_GENERATION',
      statement: null,
    });
    expect(world.marked().length).toBeGreaterThan(0);
  });
});

describe('a re-adoption of real processes', () => {
  const idle = { state: 'provisioning', fencing_token: 12, created_fencing_token: 7, claim_token: 'token-1' } as const;

  test('takes a whole stack as it is, again and again', async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    const { identity } = world.supervisor();
    for (const fencing_token of [12, 17, 21]) {
      await world.work('readopt_stack', { ...idle, fencing_token });
      expect(world.coordinator.toldOf('complete_job').at(-1)?.reprovisioned).toBeNull();
    }
    expect(world.supervisor().identity).toEqual(identity);
    expect(readFileSync(join(world.paths.data, 'note'), 'utf8')).toBe('kept\n');
  });

  test('provisions anew where a service ended, and says so', async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    const [group] = world.supervisor().groups;
    process.kill(group?.identity.pid ?? 0, 'SIGKILL');
    await eventually('the end of the service is noted', () => world.supervisor().service_ended.length > 0);
    await world.work('readopt_stack', idle);
    expect(world.coordinator.toldOf('complete_job').at(-1)).toMatchObject({ reprovisioned: 'service_ended' });
    expect(world.marked().length).toBeGreaterThan(0);
  });

  test('provisions anew where the plan changed', async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    const plan_digest = world.plan(ONE_SERVICE.replace('echo kept', 'echo new'));
    await world.work('readopt_stack', { ...idle, plan_digest });
    expect(world.coordinator.toldOf('complete_job').at(-1)).toMatchObject({ reprovisioned: 'plan_changed' });
    expect(readFileSync(join(world.paths.data, 'note'), 'utf8')).toBe('new\n');
  });

  test("provisions anew where the slot's directory was deleted under the stack", async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    const before = world.supervisor().identity;
    rmSync(world.paths.dir, { recursive: true });
    const plan_digest = world.plan(ONE_SERVICE);
    await world.work('readopt_stack', { ...idle, plan_digest });
    expect(world.coordinator.toldOf('complete_job').at(-1)?.connection).not.toBeNull();
    expect(world.supervisor().identity).not.toEqual(before);
    expect(isAlive(before)).toBe(false);
  });
});

test('a new lease of the slot first ends what an earlier one left, and keeps its data', async () => {
  await using world = await realStack();
  await world.work('provision_stack');
  const before = world.supervisor().identity;
  const lease_id = crypto.randomUUID();
  const next = { ...world.lease, lease_id, fencing_token: 20, created_fencing_token: 20 };
  const [file = ''] = readdirSync(join(world.home, 'ports')).filter((name) => name.endsWith('.json'));
  const path = join(world.home, 'ports', file);
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), lease_id }));
  world.coordinator.leases.set(lease_id, next);
  world.coordinator.addJob({ job_id: `${lease_id}.1`, kind: 'provision_stack', lease_id });
  const loop = world.newLoop();
  loop.follow([...world.coordinator.jobs.values()], [...world.coordinator.leases.values()]);
  await world.idle(loop);
  expect(isAlive(before)).toBe(false);
  expect(world.marked()).toEqual([]);
  expect(world.marked(lease_id).length).toBeGreaterThan(0);
  await world.hands.tearDown(next, 'destroy');
});

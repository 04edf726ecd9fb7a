import { describe, expect, test } from 'bun:test';
import { openHostIdentity } from '../../src/helper/host-identity.ts';
import { StackWatch } from '../../src/helper/stack-watch.ts';
import type { SeenSupervisor, SupervisorPorts } from '../../src/helper/supervisor-ports.ts';
import { isAlive } from '../../src/platform/processes.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { leaseForHelper } from './_leases.ts';
import { realStack } from './_real-stack.ts';
import { ScriptedCoordinator } from './_scripted-coordinator.ts';

const lease = leaseForHelper({ state: 'active' });
const seen: SeenSupervisor = { slot_dir: '/slot', lease_id: lease.lease_id, fencing_token: 7, owned: true };

function setUp() {
  const dir = makeTempDir();
  const coordinator = new ScriptedCoordinator();
  coordinator.leases.set(lease.lease_id, lease);
  const done: string[] = [];
  const gone: ((why: string) => void)[] = [];
  const inHand = new Set<string>();
  /** What listens at the moment, whatever an earlier scan saw. */
  const up: SeenSupervisor[] = [];
  const supervisors: SupervisorPorts = {
    scan: async () => up,
    renew: async () => void done.push('renew'),
    end: async () => void done.push('end'),
    watch: (_seen, onGone) => {
      done.push('watch');
      gone.push(onGone);
      return () => done.push('unwatch');
    },
    endGroups: async () => void done.push('end groups'),
  };
  const watch = new StackWatch({
    calls: coordinator,
    identity: openHostIdentity(dir.path),
    supervisors,
    worksOn: (leaseId) => inHand.has(leaseId),
  });
  return { coordinator, done, gone, inHand, up, supervisors, watch, [Symbol.dispose]: () => dir[Symbol.dispose]() };
}

describe('the watch over stacks', () => {
  test('renews the supervisor of a live lease and watches it once', async () => {
    using world = setUp();
    await world.watch.follow([seen], [lease]);
    await world.watch.follow([seen], [lease]);
    expect(world.done).toEqual(['renew', 'watch', 'renew']);
  });

  test('reports a stack lost as soon as its supervisor dies, and ends what it left', async () => {
    using world = setUp();
    await world.watch.follow([seen], [lease]);
    world.gone[0]?.('its supervisor was killed');
    await eventually('what it left is ended', () => world.done.includes('end groups'));
    expect(world.coordinator.toldOf('report_stack_lost')).toEqual([
      expect.objectContaining({
        lease_id: lease.lease_id,
        fencing_token: 7,
        error: 'the stack is lost: its supervisor was killed',
      }),
    ]);
  });

  test('reports one that is found missing, once at a time', async () => {
    using world = setUp();
    await Promise.all([world.watch.follow([], [lease]), world.watch.follow([], [lease])]);
    expect(world.coordinator.toldOf('report_stack_lost')).toHaveLength(1);
  });

  test('does not report one that has come up since the scan', async () => {
    using world = setUp();
    world.up.push(seen);
    await world.watch.follow([], [lease]);
    expect(world.coordinator.toldOf('report_stack_lost')).toEqual([]);
    expect(world.done).toEqual([]);
  });

  test('leaves a stack to the job that is in hand', async () => {
    using world = setUp();
    await world.watch.follow([seen], [lease]);
    world.inHand.add(lease.lease_id);
    world.gone[0]?.('its supervisor was told to end');
    await world.watch.follow([], [lease]);
    expect(world.coordinator.toldOf('report_stack_lost')).toEqual([]);
  });

  test('stops watching when the lease is being reaped or is gone', async () => {
    using world = setUp();
    await world.watch.follow([seen], [lease]);
    await world.watch.follow([seen], [{ ...lease, state: 'reaping' }]);
    expect(world.done).toEqual(['renew', 'watch', 'unwatch']);
    await world.watch.follow([seen], [lease]);
    await world.watch.follow([], []);
    expect(world.done.at(-1)).toBe('unwatch');
  });

  test('ends one whose lease nobody knows, and keeps one that is not provably ours', async () => {
    using world = setUp();
    await world.watch.follow([seen], []);
    expect(world.done).toEqual(['end']);
    await world.watch.follow([{ ...seen, owned: false }], []);
    expect(world.done).toEqual(['end']);
  });

  test('goes on with the others when one supervisor does not answer', async () => {
    using world = setUp();
    const other = { ...lease, lease_id: '22222222-2222-4222-8222-222222222222' };
    world.supervisors.renew = async ({ lease_id }) => {
      if (lease_id === lease.lease_id) throw new Error('silent');
      world.done.push('renew other');
    };
    const supervisors = [seen, { ...seen, slot_dir: '/other', lease_id: other.lease_id }];
    await world.watch.follow(supervisors, [lease, other]);
    expect(world.done).toContain('renew other');
  });

  test('still ends what was left when the coordinator cannot be told, and tells it later', async () => {
    using world = setUp();
    world.coordinator.unreachableOnce('report_stack_lost');
    await world.watch.follow([], [lease]);
    expect(world.done).toEqual(['end groups']);
    await world.watch.follow([], [lease]);
    expect(world.coordinator.toldOf('report_stack_lost')).toHaveLength(2);
  });
});

describe('real supervisors', () => {
  test('are seen with lease and grant, renewed, watched and ended', async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    const [found] = await world.supervisors.scan();
    expect(found).toEqual({
      slot_dir: world.paths.dir,
      lease_id: world.lease.lease_id,
      fencing_token: 7,
      owned: true,
    });
    if (found === undefined) throw new Error('no supervisor was seen');
    await world.supervisors.renew(found, { ...world.lease, fencing_token: 9 });
    expect(world.supervisor().fencing_token).toBe(9);
    const { identity } = world.supervisor();
    await world.supervisors.end({ ...found, fencing_token: 9 });
    expect(isAlive(identity)).toBe(false);
    expect(world.marked()).toEqual([]);
    expect(await world.supervisors.scan()).toEqual([]);
  });

  test('that are killed are noticed at once, and their services ended', async () => {
    await using world = await realStack();
    await world.work('provision_stack');
    const [found] = await world.supervisors.scan();
    if (found === undefined) throw new Error('no supervisor was seen');
    const gone = Promise.withResolvers<string>();
    world.supervisors.watch(found, gone.resolve);
    process.kill(world.supervisor().identity.pid, 'SIGKILL');
    expect(await gone.promise).toBe('its supervisor was killed');
    expect(world.marked().length).toBeGreaterThan(0);
    await world.supervisors.endGroups(world.lease);
    expect(world.marked()).toEqual([]);
  });
});

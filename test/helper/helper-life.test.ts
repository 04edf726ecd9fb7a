import { describe, expect, test } from 'bun:test';
import { StatementStore } from '../../src/helper/attest.ts';
import { Beacon } from '../../src/helper/beacon.ts';
import type { CoordinatorLink, StreamHandlers } from '../../src/helper/coordinator-link.ts';
import { HelperLife } from '../../src/helper/helper-life.ts';
import { openHostIdentity } from '../../src/helper/host-identity.ts';
import { JobLoop } from '../../src/helper/job-loop.ts';
import { StackWatch } from '../../src/helper/stack-watch.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { Failure } from '../../src/platform/failure.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { leaseForHelper } from './_leases.ts';
import { ScriptedCoordinator } from './_scripted-coordinator.ts';
import { ScriptedHands } from './_scripted-hands.ts';

/** A coordinator whose process and stream the test switches on and off. */
class SwitchedLink implements CoordinatorLink {
  readonly calls: ScriptedCoordinator;
  alive: string | null = 'first';
  stream: (StreamHandlers & { cut: () => void }) | null = null;

  constructor(calls: ScriptedCoordinator) {
    this.calls = calls;
  }

  presence(): string | null {
    return this.alive;
  }

  readHostStream(handlers: StreamHandlers): Promise<void> {
    return new Promise((resolve) => {
      const cut = () => {
        this.stream = null;
        resolve();
      };
      this.stream = { ...handlers, cut };
      handlers.signal.addEventListener('abort', cut);
      handlers.onOpen();
    });
  }
}

function setUp({ embedded = true, beaconMs = 60_000, idleExitMs = 60_000 } = {}) {
  const dir = makeTempDir();
  const coordinator = new ScriptedCoordinator();
  const link = new SwitchedLink(coordinator);
  const identity = openHostIdentity(dir.path);
  const hands = new ScriptedHands();
  const jobs = new JobLoop({
    calls: coordinator,
    hands,
    identity,
    statements: new StatementStore(dir.path),
    clock: systemClock,
    reported: async () => {},
    askForRegistration: () => {},
  });
  const supervisors = {
    scan: async () => [],
    renew: async () => {},
    end: async () => {},
    watch: () => () => {},
    endGroups: async () => {},
  };
  const stacks = new StackWatch({ calls: coordinator, identity, supervisors, worksOn: () => true });
  const beacon = new Beacon({
    calls: coordinator,
    identity,
    capacityUnits: 3,
    clock: systemClock,
    jobs,
    stacks,
    settle: async () => {},
  });
  const life = new HelperLife({
    link,
    beacon,
    clock: systemClock,
    embedded,
    beaconMs,
    idleExitMs,
    afterRound: () => {},
  });
  const beacons = () => coordinator.toldOf('host_beacon').length;
  const settled = async (count: number) => eventually(`${count} beacons`, () => beacons() >= count);
  return {
    coordinator,
    link,
    life,
    beacon,
    hands,
    identity,
    beacons,
    settled,
    [Symbol.asyncDispose]: async () => {
      life.end('told_to_end');
      await beacon.settled();
      dir[Symbol.dispose]();
    },
  };
}

describe('the life of a Helper', () => {
  test('registers once and beacons at once, then at each hint', async () => {
    await using world = setUp();
    const lived = world.life.run();
    await eventually('the stream is open', () => world.link.stream !== null);
    await world.settled(2);
    const before = world.beacons();
    world.link.stream?.onWork();
    await world.settled(before + 1);
    expect(world.coordinator.toldOf('register_host')).toEqual([
      expect.objectContaining({
        host_id: world.identity.host_id,
        incarnation: world.identity.incarnation,
        capacity_units: 3,
      }),
    ]);
    world.life.end('told_to_end');
    expect(await lived).toBe('told_to_end');
  });

  test('beacons at its interval without any hint', async () => {
    await using world = setUp({ beaconMs: 20 });
    void world.life.run();
    await world.settled(5);
  });

  test('takes up what a hint announces', async () => {
    await using world = setUp();
    void world.life.run();
    await eventually('the stream is open', () => world.link.stream !== null);
    const lease = leaseForHelper({ state: 'provisioning' });
    world.coordinator.leases.set(lease.lease_id, lease);
    world.coordinator.addJob({ job_id: 'J', kind: 'provision_stack', lease_id: lease.lease_id });
    world.link.stream?.onWork();
    await eventually('it is done', () => world.hands.done.includes('provision'));
  });

  test('ends after a farewell, though it knows of a lease', async () => {
    await using world = setUp();
    const lease = leaseForHelper({ state: 'active' });
    world.coordinator.leases.set(lease.lease_id, lease);
    const lived = world.life.run();
    await eventually('the stream is open', () => world.link.stream !== null);
    world.link.stream?.onFarewell();
    expect(await lived).toBe('farewell');
  });

  test('lives on without a coordinator and serves the next one as soon as it is there', async () => {
    await using world = setUp();
    void world.life.run();
    await eventually('the stream is open', () => world.link.stream !== null);
    world.link.alive = null;
    world.link.stream?.cut();
    await eventually('the stream is gone', () => world.link.stream === null);
    const before = world.beacons();
    world.link.alive = 'second';
    await eventually('it has a stream again', () => world.link.stream !== null, { withinMs: 2_000 });
    expect(world.beacons()).toBeGreaterThan(before);
  });

  test('calls a coordinator that is gone only while it knows of a lease', async () => {
    await using world = setUp();
    void world.life.run();
    await eventually('the stream is open', () => world.link.stream !== null);
    await world.settled(2);
    const lease = leaseForHelper({ state: 'active' });
    world.coordinator.leases.set(lease.lease_id, lease);
    world.link.stream?.onWork();
    await eventually('the lease is known', () => world.beacon.knownLeases.length === 1);
    const before = world.beacons();
    world.link.alive = null;
    world.link.stream?.cut();
    await world.settled(before + 1);
  });

  test('ends by itself when neither coordinator nor lease is left', async () => {
    await using world = setUp({ idleExitMs: 50 });
    const lived = world.life.run();
    await eventually('the stream is open', () => world.link.stream !== null);
    world.link.alive = null;
    world.link.stream?.cut();
    expect(await lived).toBe('nothing_to_do');
  });

  test('registers again with a coordinator that does not know it', async () => {
    await using world = setUp();
    world.coordinator.once('host_beacon', () => {
      throw new Failure('HOST_NOT_FOUND', 'a new database');
    });
    void world.life.run();
    await world.settled(2);
    expect(world.coordinator.toldOf('register_host')).toHaveLength(2);
  });

  test('gives way when another one keeps taking its place', async () => {
    await using world = setUp();
    for (let turn = 0; turn < 10; turn += 1) {
      world.coordinator.once('host_beacon', () => {
        throw new Failure('HELPER_SUPERSEDED', 'another Helper serves this host');
      });
    }
    expect(await world.life.run()).toBe('superseded');
  });

  test('makes room for the Helper of a coordinator of another version', async () => {
    await using world = setUp();
    world.coordinator.once('host_beacon', () => {
      throw new Failure('version_mismatch', 'update the older of the two');
    });
    expect(await world.life.run()).toBe('outdated');
  });

  test('goes on after a beacon that was not taken', async () => {
    await using world = setUp();
    world.coordinator.unreachableOnce('host_beacon');
    void world.life.run();
    await world.settled(2);
    expect(world.beacon.lastAt).not.toBeNull();
  });
});

import { describe, expect, test } from 'bun:test';
import { StatementStore } from '../../src/helper/attest.ts';
import { openHostIdentity } from '../../src/helper/host-identity.ts';
import { JobLoop } from '../../src/helper/job-loop.ts';
import type { Reported } from '../../src/helper/job-ports.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { Failure } from '../../src/platform/failure.ts';
import type { Job } from '../../src/protocol/records.ts';
import type { StatementBody } from '../../src/protocol/tool-calls.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { leaseForHelper } from './_leases.ts';
import { ScriptedCoordinator } from './_scripted-coordinator.ts';
import { CONNECTION, ScriptedHands, untilAborted } from './_scripted-hands.ts';

function setUp() {
  const dir = makeTempDir();
  const coordinator = new ScriptedCoordinator();
  const hands = new ScriptedHands();
  const statements = new StatementStore(dir.path);
  const reports: Reported[] = [];
  const registrations: number[] = [];
  const loop = new JobLoop({
    calls: coordinator,
    hands,
    identity: openHostIdentity(dir.path),
    statements,
    clock: systemClock,
    reported: async (report) => void reports.push(report),
    askForRegistration: () => registrations.push(1),
  });
  const lease = leaseForHelper({ state: 'provisioning' });
  coordinator.leases.set(lease.lease_id, lease);
  const offer = (kind: Job['kind'], jobId = `${lease.lease_id}.1`) => {
    coordinator.addJob({ job_id: jobId, kind, lease_id: lease.lease_id });
    loop.follow([...coordinator.jobs.values()], [...coordinator.leases.values()]);
  };
  const idle = () => eventually('no job is in hand', () => loop.inFlight().length === 0);
  return {
    coordinator,
    hands,
    statements,
    reports,
    registrations,
    loop,
    lease,
    offer,
    idle,
    [Symbol.dispose]: () => dir[Symbol.dispose](),
  };
}

describe('one job', () => {
  test('a provision is claimed, carried out and completed with its connection', async () => {
    using world = setUp();
    world.offer('provision_stack');
    await world.idle();
    expect(world.hands.done).toEqual(['provision']);
    expect(world.coordinator.toldOf('complete_job')).toEqual([
      expect.objectContaining({ connection: CONNECTION, reprovisioned: null, statement: null }),
    ]);
    expect(world.reports).toHaveLength(1);
  });

  test("a failed start fails the job with the driver's words and the service's last lines", async () => {
    using world = setUp();
    world.hands.during.provision = () => {
      throw new Failure('service_not_ready', 'service db was not ready within 20 s', {
        fields: { service: 'db', lines: ['FATAL: no such role', 'stopped'] },
      });
    };
    world.offer('provision_stack');
    await world.idle();
    expect(world.hands.done).toEqual(['provision', 'tearDown', 'look']);
    const [failed] = world.coordinator.toldOf('fail_job');
    expect(failed?.error_class).toBe('service_not_ready');
    expect(failed?.error).toBe('service db was not ready within 20 s\nFATAL: no such role\nstopped');
    const body = JSON.parse(failed?.statement?.statement ?? '{}') as StatementBody;
    expect(body).toMatchObject({ kind: 'rollback', disposition: 'destroy' });
  });

  test('a reap says what it saw, and keeps it until the coordinator took it', async () => {
    using world = setUp();
    world.hands.disk = { ...world.hands.disk, grant: 'same_grant' };
    world.coordinator.unreachableOnce('complete_job');
    world.offer('reap_stack');
    await eventually('the statement is kept', () => world.statements.all().length === 1);
    await world.idle();
    expect(world.hands.done).toEqual(['endChild', 'tearDown', 'look']);
    const [first, second] = world.coordinator.toldOf('complete_job');
    expect(second?.statement).toEqual(first?.statement as never);
    expect(world.reports[0]?.statement?.signed).toEqual(second?.statement as never);
  });

  test('a reap that still finds something names it and offers no proof of absence', async () => {
    using world = setUp();
    world.hands.disk = { ...world.hands.disk, grant: 'same_grant' };
    world.hands.sight = [{ kind: 'group', id: '4711', before: 'present', after: 'present' }];
    world.offer('reap_stack');
    await world.idle();
    const [failed] = world.coordinator.toldOf('fail_job');
    expect(failed).toMatchObject({ error_class: 'cleanup_still_present', error: 'still there: group 4711 (present)' });
    expect(world.coordinator.toldOf('complete_job')).toEqual([]);
  });

  test('a statement that an earlier life signed is sent again without touching anything', async () => {
    using world = setUp();
    world.hands.disk = { ...world.hands.disk, grant: 'same_grant' };
    world.coordinator.once('complete_job', () => {
      throw new Failure('JOB_CLAIM_LOST', 'lost');
    });
    world.offer('reap_stack');
    await world.idle();
    const [first] = world.coordinator.toldOf('complete_job');
    world.hands.done.length = 0;
    world.coordinator.jobs.clear();
    world.offer('reap_stack', `${world.lease.lease_id}.2`);
    await world.idle();
    expect(world.hands.done).toEqual([]);
    expect(world.coordinator.toldOf('complete_job').at(-1)?.statement).toEqual(first?.statement as never);
  });

  test('a bug in a step fails the job and ends nobody', async () => {
    using world = setUp();
    world.hands.during.provision = () => {
      throw new TypeError('x is not a function');
    };
    world.offer('provision_stack');
    await world.idle();
    expect(world.coordinator.toldOf('fail_job')[0]).toMatchObject({ error_class: 'internal' });
  });

  test('an older grant than the one on the disk is refused and touches nothing', async () => {
    using world = setUp();
    world.hands.disk = { ...world.hands.disk, grant: 'newer_grant' };
    world.offer('provision_stack');
    await world.idle();
    expect(world.hands.done).toEqual([]);
    expect(world.coordinator.toldOf('fail_job')[0]).toMatchObject({ error_class: 'OLD_GENERATION', statement: null });
  });
});

describe('a claim', () => {
  test('that another got is left alone', async () => {
    using world = setUp();
    world.coordinator.once('claim_job', () => {
      throw new Failure('JOB_NOT_OPEN', 'claimed');
    });
    world.offer('provision_stack');
    await world.idle();
    expect(world.hands.done).toEqual([]);
  });

  test('whose answer was lost is taken up from the next beacon', async () => {
    using world = setUp();
    const { identity } = { identity: world.coordinator.toldOf('claim_job') };
    expect(identity).toEqual([]);
    world.coordinator.unreachableOnce('claim_job');
    world.offer('provision_stack');
    await world.idle();
    const [asked] = world.coordinator.toldOf('claim_job');
    const job = [...world.coordinator.jobs.values()][0];
    Object.assign(job ?? {}, { state: 'claimed', claimed_by: asked?.incarnation, job_token: 77 });
    world.loop.follow([...world.coordinator.jobs.values()], [world.lease]);
    await world.idle();
    expect(world.coordinator.toldOf('complete_job')[0]?.job_token).toBe(77);
  });

  test('that is lost in the middle stops the work, which changes nothing more', async () => {
    using world = setUp();
    world.hands.during.provision = untilAborted;
    world.offer('provision_stack');
    await eventually('the start is under way', () => world.hands.done.includes('provision'));
    world.coordinator.jobs.clear();
    world.loop.follow([], [world.lease]);
    await world.idle();
    expect(world.hands.done).toEqual(['provision']);
    expect(world.coordinator.toldOf('fail_job')).toEqual([]);
  });

  test('that came open again is taken anew, after the old work stopped', async () => {
    using world = setUp();
    world.hands.during.provision = untilAborted;
    world.offer('provision_stack');
    await eventually('the start is under way', () => world.hands.done.includes('provision'));
    world.hands.during.provision = () => {};
    const [job] = [...world.coordinator.jobs.values()];
    Object.assign(job ?? {}, { state: 'open', claimed_by: null, job_token: null });
    world.loop.follow([...world.coordinator.jobs.values()], [world.lease]);
    await world.idle();
    expect(world.coordinator.toldOf('complete_job')).toHaveLength(1);
    expect(world.hands.done).toEqual(['provision', 'provision']);
  });
});

describe('several jobs', () => {
  test('a reap waits until the provision of its lease has stopped', async () => {
    using world = setUp();
    const order: string[] = [];
    world.hands.during.provision = async (lease, signal) => {
      await untilAborted(lease, signal).finally(() => order.push('provision stopped'));
    };
    world.hands.during.endChild = () => void order.push('reap began');
    world.offer('provision_stack');
    await eventually('the start is under way', () => world.hands.done.includes('provision'));
    world.coordinator.jobs.clear();
    world.hands.disk = { ...world.hands.disk, grant: 'same_grant' };
    world.coordinator.addJob({
      job_id: `${world.lease.lease_id}.2`,
      kind: 'reap_stack',
      lease_id: world.lease.lease_id,
    });
    world.loop.follow([...world.coordinator.jobs.values()], [world.lease]);
    await world.idle();
    expect(order).toEqual(['provision stopped', 'reap began']);
    expect(world.coordinator.toldOf('complete_job')[0]?.statement).not.toBeNull();
  });

  test('jobs of two leases run side by side', async () => {
    using world = setUp();
    const other = leaseForHelper({ lease_id: '22222222-2222-4222-8222-222222222222', state: 'provisioning' });
    world.coordinator.leases.set(other.lease_id, other);
    const both = Promise.withResolvers<void>();
    let running = 0;
    world.hands.during.provision = () => {
      running += 1;
      if (running === 2) both.resolve();
      return both.promise;
    };
    world.coordinator.addJob({ job_id: `${other.lease_id}.1`, kind: 'provision_stack', lease_id: other.lease_id });
    world.offer('provision_stack');
    await world.idle();
    expect(world.coordinator.toldOf('complete_job')).toHaveLength(2);
  });
});

describe('a Helper that is to end', () => {
  test('hands a start that it broke off back, with its roll-back proven', async () => {
    using world = setUp();
    world.hands.during.provision = untilAborted;
    world.offer('provision_stack');
    await eventually('the start is under way', () => world.hands.done.includes('provision'));
    await world.loop.drain();
    expect(world.hands.done).toEqual(['provision', 'tearDown', 'look']);
    const [deferred] = world.coordinator.toldOf('defer_job');
    expect(deferred?.reason).toBe('helper_draining');
    expect(JSON.parse(deferred?.statement?.statement ?? '{}')).toMatchObject({ kind: 'rollback' });
  });

  test('takes no further start, and still takes a reap', async () => {
    using world = setUp();
    await world.loop.drain();
    world.offer('provision_stack');
    await world.idle();
    expect(world.coordinator.toldOf('claim_job')).toEqual([]);
    world.coordinator.jobs.clear();
    world.offer('reap_stack', `${world.lease.lease_id}.2`);
    await world.idle();
    expect(world.coordinator.toldOf('complete_job')).toHaveLength(1);
  });

  test('whose coordinator has forgotten it asks to be registered and goes on', async () => {
    using world = setUp();
    world.coordinator.once('complete_job', () => {
      throw new Failure('HOST_NOT_FOUND', 'not registered');
    });
    world.offer('provision_stack');
    await world.idle();
    expect(world.registrations).toEqual([1]);
    expect(world.reports).toHaveLength(1);
  });
});

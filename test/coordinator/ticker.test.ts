import { afterEach, describe, expect, test } from 'bun:test';
import { MemoryLog } from '../../src/log/memory-log.ts';
import { eventually } from '../support/eventually.ts';
import { ShiftedTime } from './fake-time.ts';
import {
  FakeHelper,
  type Harness,
  type HarnessOptions,
  leaseArgs,
  makeHarness,
  releaseArgs,
  waitArgs,
} from './harness.ts';

const HOUR = 3_600_000;
const open: Harness[] = [];

afterEach(async () => {
  for (const harness of open.splice(0)) await harness[Symbol.asyncDispose]();
});

async function make(options: HarnessOptions = {}): Promise<Harness> {
  const harness = await makeHarness(options);
  open.push(harness);
  return harness;
}

const leaseOf = async (harness: Harness, lease_id: string) =>
  (await harness.call('get_stack_lease', { lease_id })).lease;

const touch = (harness: Harness, lease_id: string) =>
  harness.answer('touch_stack_lease', { lease_id, fencing_token: null });

describe('time passes through the ticker', () => {
  test('an attached lease without a heartbeat is lost after its TTL, one with heartbeats is not', async () => {
    const harness = await make({ leaseTtlMs: 300 });
    const silent = await harness.call('request_stack_lease', leaseArgs('silent', { ttl_ms: 150 }));
    const beating = await harness.call('request_stack_lease', leaseArgs('beating', { ttl_ms: 600 }));
    const lost = await eventually('the silent one is lost', async () => {
      expect(await touch(harness, beating.lease.lease_id)).toMatchObject({ ok: true });
      const lease = await leaseOf(harness, silent.lease.lease_id);
      return lease.state === 'reaped' && lease;
    });
    expect(lost).toMatchObject({ reap_reason: 'heartbeat_lost', cleanup_proof: 'never_provisioned' });
    expect(await leaseOf(harness, beating.lease.lease_id)).toMatchObject({ state: 'queued' });
  });

  test("an attached lease in the queue lives by its wait's stream alone, and is lost after that is gone", async () => {
    const harness = await make({ leaseTtlMs: 300 });
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a', { ttl_ms: 150 }));
    const marker = await harness.call('request_stack_lease', leaseArgs('b', { ttl_ms: 600 }));
    const wait = await harness.call('wait', waitArgs([`lease:id=${lease.lease_id}`]));
    const stream = await harness.stream(`wait=${wait.wait_session_id}`);
    await eventually('another lease that nobody keeps alive is lost', async () => {
      const { state } = await leaseOf(harness, marker.lease.lease_id);
      return state === 'reaped';
    });
    expect(await leaseOf(harness, lease.lease_id)).toMatchObject({ state: 'queued' });
    stream[Symbol.dispose]();
    await eventually('it is lost too', async () => (await leaseOf(harness, lease.lease_id)).state === 'reaped');
  });

  test('a queue deadline, an idle TTL, a timer and the deadline of a wait fire by themselves', async () => {
    const harness = await make();
    const helper = await new FakeHelper(harness).start(1);
    const idle = await harness.call('request_stack_lease', leaseArgs('idle'));
    await helper.activate(idle.lease.lease_id);
    const queued = await harness.call(
      'request_stack_lease',
      leaseArgs('queued', { mode: 'detached', queue_timeout_ms: 60 }),
    );
    const timer = await harness.call('wait', waitArgs(['timer:40ms']));
    const deadline = await harness.call('wait', waitArgs(['timer:1h'], { timeout_ms: 50 }));
    const outcome = async (wait_session_id: string) =>
      (await harness.call('get_wait', { wait_session_id })).ended?.outcome;
    await eventually('the timer', async () => (await outcome(timer.wait_session_id)) === 'matched');
    await eventually('the deadline', async () => (await outcome(deadline.wait_session_id)) === 'timeout');
    await eventually('the queue deadline', async () => {
      const lease = await leaseOf(harness, queued.lease.lease_id);
      return lease.reap_reason === 'queue_deadline';
    });
    await harness.call('release_stack_lease', releaseArgs(idle.lease.lease_id, { how: 'idle', idle_ttl_ms: 40 }));
    await eventually('the idle TTL', async () => {
      const lease = await leaseOf(harness, idle.lease.lease_id);
      return lease.state === 'reaping' && lease.reap_reason === 'idle_ttl';
    });
  });

  test('an earlier deadline than the one that is slept for is not missed', async () => {
    const harness = await make();
    await harness.call('wait', waitArgs(['timer:1h']));
    const soon = await harness.call('wait', waitArgs(['timer:20ms']));
    await eventually(
      'the soon one matched',
      async () => (await harness.call('get_wait', { wait_session_id: soon.wait_session_id })).ended !== null,
      { withinMs: 2_000 },
    );
  });

  test('nothing happens while nothing is due: an idle coordinator commits nothing', async () => {
    const harness = await make({ leaseTtlMs: 30 });
    await harness.call('wait', waitArgs(['timer:1h']));
    const { seq } = harness.parts.engine.state;
    const timer = await harness.call('wait', waitArgs(['timer:100ms']));
    await eventually('some wake-ups later', async () => {
      const view = await harness.call('get_wait', { wait_session_id: timer.wait_session_id });
      return view.ended !== null;
    });
    expect(harness.parts.engine.state.seq).toBe(seq + 3);
  });
});

describe('a downtime expires nobody', () => {
  test('after a restart silent leases get one TTL anew, and are lost only then', async () => {
    const first = await makeHarness({ leaseTtlMs: 400 });
    const { lease } = await first.call('request_stack_lease', leaseArgs('a', { ttl_ms: 400 }));
    await first[Symbol.asyncDispose]();
    const clock = new ShiftedTime();
    clock.jump(HOUR);
    const second = await make({ leaseTtlMs: 400, clock, log: new MemoryLog(first.disk) });
    expect(second.parts.clock.now()).toBeGreaterThan(lease.requested_at + HOUR);
    expect(second.parts.clock.graceUntil).toBeGreaterThan(second.parts.clock.now());
    expect(await touch(second, lease.lease_id)).toMatchObject({ ok: true, result: { lease: { state: 'queued' } } });
    await eventually('nobody came back for it', async () => (await leaseOf(second, lease.lease_id)).state === 'reaped');
    expect(second.parts.clock.now()).toBeGreaterThanOrEqual(second.parts.clock.graceUntil);
  });

  test('an empty coordinator starts without grace', async () => {
    const harness = await make();
    expect(harness.parts.clock.graceUntil).toBe(0);
  });

  test.each([
    ['forward', HOUR],
    ['back', -HOUR],
  ])('a wall clock that jumps %s gives everybody one grace period', async (_way, ms) => {
    const clock = new ShiftedTime();
    const harness = await make({ leaseTtlMs: 300, clock });
    const lease = leaseArgs('a', { mode: 'detached', queue_timeout_ms: 60_000 });
    await harness.call('request_stack_lease', lease);
    const timer = await harness.call('wait', waitArgs(['timer:50m'], { timeout_ms: 10 * HOUR }));
    const before = harness.parts.clock.now();
    clock.jump(ms);
    await eventually('the jump was noticed', () => harness.parts.clock.graceUntil > 0);
    expect(harness.parts.clock.now()).toBeGreaterThanOrEqual(before);
    expect(harness.parts.liveness.lastSeenAt('lease', lease.lease_id ?? '')).toBeGreaterThanOrEqual(before);
    const view = await harness.call('get_wait', { wait_session_id: timer.wait_session_id });
    if (ms < 0) {
      expect(view.status).toBe('pending');
      return;
    }
    await eventually('the timer follows the wall clock', async () => {
      const { ended } = await harness.call('get_wait', { wait_session_id: timer.wait_session_id });
      return ended?.outcome === 'matched';
    });
    const reaped = await eventually('the queue deadline fires after the grace', async () => {
      const found = await leaseOf(harness, lease.lease_id ?? '');
      return found.state === 'reaped' && found;
    });
    expect(reaped.reap_reason).toBe('queue_deadline');
    expect(reaped.since).toBeGreaterThanOrEqual(before + HOUR + 300);
  });
});

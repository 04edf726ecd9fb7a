import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { connect } from 'node:net';
import { STREAM_BACKLOG_BYTES_MAX } from '../../src/coordinator/_sse.ts';
import { newId } from '../../src/platform/random.ts';
import { eventually } from '../support/eventually.ts';
import { FakeTime } from './fake-time.ts';
import { FakeHelper, type Harness, leaseArgs, makeHarness, OWN_HOST, releaseArgs, waitArgs } from './harness.ts';

let harness: Harness;

beforeEach(async () => {
  harness = await makeHarness();
});

afterEach(async () => {
  await harness[Symbol.asyncDispose]();
});

const head = (): string => `${harness.parts.engine.epoch}.${harness.parts.engine.state.seq}`;

/** A queued lease and an open wait for it. */
async function waiting(conditionState = '', slot = 'a'): Promise<{ leaseId: string; waitId: string; cursor: string }> {
  const { lease } = await harness.call('request_stack_lease', leaseArgs(slot));
  const suffix = conditionState === '' ? '' : `,state=${conditionState}`;
  const view = await harness.call('wait', waitArgs([`lease:id=${lease.lease_id}${suffix}`]));
  return { leaseId: lease.lease_id, waitId: view.wait_session_id, cursor: view.cursor };
}

describe("a lease's stream", () => {
  test('shows the lease as it is and every move of it, to its owner', async () => {
    const { leaseId } = await waiting();
    using stream = await harness.stream(`lease=${leaseId}`);
    expect(await stream.next('lease')).toMatchObject({ lease: { lease_id: leaseId, state: 'queued' } });
    await new FakeHelper(harness).start(1);
    expect(await stream.next('lease')).toMatchObject({ lease: { state: 'provisioning' } });
  });

  test('of a lease that is not there is refused', async () => {
    using stream = await harness.stream(`lease=${newId()}`);
    expect(stream.status).toBe(404);
  });
});

describe("a wait's stream", () => {
  test('opens at once with its cursor, unbuffered, and shows the lease as it is', async () => {
    const { leaseId, waitId } = await waiting();
    using stream = await harness.stream(`wait=${waitId}`);
    expect(stream.status).toBe(200);
    expect(stream.headers.get('content-type')).toBe('text/event-stream');
    expect(stream.headers.get('cache-control')).toBe('no-store, no-transform');
    expect(stream.headers.get('x-accel-buffering')).toBe('no');
    expect(await stream.next('open')).toEqual({ cursor: head(), epoch: harness.parts.engine.epoch });
    expect(await stream.next('lease')).toMatchObject({ lease: { lease_id: leaseId, state: 'queued' } });
    expect(stream.lastEventId()).toBe(head());
  });

  test('tells every move of its lease and ends with the outcome', async () => {
    const { leaseId, waitId } = await waiting('active');
    using stream = await harness.stream(`wait=${waitId}`);
    await stream.next('lease');
    const helper = await new FakeHelper(harness).start(1);
    expect(await stream.next('lease')).toMatchObject({ lease: { state: 'provisioning' } });
    await helper.activate(leaseId);
    expect(await stream.next('lease')).toMatchObject({ lease: { state: 'active', connection: { host: '127.0.0.1' } } });
    expect(await stream.next('wait_ended')).toMatchObject({ ended: { wait_session_id: waitId, outcome: 'matched' } });
    await stream.ended;
    expect(stream.frames.at(-1)?.id).toBe(head());
    expect(harness.parts.hub.size).toBe(0);
  });

  test('tells when its lease moved up in the queue, though nothing of the lease changed', async () => {
    const helper = await new FakeHelper(harness).start(1);
    const holder = await harness.call('request_stack_lease', leaseArgs('holder'));
    await helper.activate(holder.lease.lease_id);
    const ahead = await harness.call('request_stack_lease', leaseArgs('ahead'));
    const { leaseId, waitId } = await waiting('', 'behind');
    using stream = await harness.stream(`wait=${waitId}`);
    expect(await stream.next('lease')).toMatchObject({ lease: { lease_id: leaseId, queue_position: 2 } });
    await harness.call('release_stack_lease', releaseArgs(ahead.lease.lease_id));
    expect(await stream.next('lease')).toMatchObject({ lease: { state: 'queued', queue_position: 1 } });
    const before = stream.frames.length;
    await harness.call('release_stack_lease', releaseArgs(holder.lease.lease_id));
    await helper.reap(holder.lease.lease_id);
    expect(await stream.next('wait_ended')).toMatchObject({ ended: { outcome: 'matched' } });
    expect(stream.frames.slice(before).map(({ type }) => type)).toEqual(['lease', 'wait_ended']);
  });

  test('shows the last view of a lease that left memory', async () => {
    const { leaseId, waitId } = await waiting();
    using stream = await harness.stream(`wait=${waitId}`);
    await stream.next('lease');
    await harness.call('release_stack_lease', releaseArgs(leaseId));
    expect(await stream.next('lease')).toMatchObject({
      lease: { state: 'reaped', cleanup_verified: true, cleanup_proof: 'never_provisioned' },
    });
    expect(await stream.next('wait_ended')).toMatchObject({ ended: { outcome: 'lease_lost' } });
  });

  test('of a wait that ended before is answered at once', async () => {
    const { leaseId, waitId, cursor } = await waiting();
    await harness.call('release_stack_lease', releaseArgs(leaseId));
    for (const lastEventId of [undefined, cursor, head()]) {
      using stream = await harness.stream(`wait=${waitId}`, lastEventId);
      expect(await stream.next('wait_ended')).toMatchObject({ ended: { outcome: 'lease_lost' } });
      await stream.ended;
    }
  });

  test('that was given up ends with a typed error', async () => {
    const { waitId } = await waiting();
    using stream = await harness.stream(`wait=${waitId}`);
    await stream.next('open');
    await harness.call('cancel_wait', { wait_session_id: waitId, idempotency_key: newId() });
    const error = await stream.next('error');
    expect(error).toMatchObject({
      code: 'wait_abandoned',
      fields: { wait_session_id: waitId, status: 'cancelled', reason: 'cancelled' },
    });
    await stream.ended;
    using later = await harness.stream(`wait=${waitId}`);
    expect(await later.next('error')).toEqual(error);
  });

  test('of somebody else is not found', async () => {
    const { waitId } = await waiting();
    const wait = harness.parts.engine.state.waits.get(waitId);
    if (wait !== undefined) wait.principal = 'somebody else';
    using stream = await harness.stream(`wait=${waitId}`);
    expect(stream.status).toBe(404);
    expect(await stream.body()).toMatchObject({ ok: false, error: { code: 'WAIT_NOT_FOUND' } });
  });

  test('is followed by many readers alike', async () => {
    const { leaseId, waitId } = await waiting();
    const streams = await Promise.all(Array.from({ length: 25 }, () => harness.stream(`wait=${waitId}`)));
    await harness.call('release_stack_lease', releaseArgs(leaseId));
    for (const stream of streams) {
      expect(await stream.next('wait_ended')).toMatchObject({ ended: { outcome: 'lease_lost' } });
      await stream.ended;
    }
    expect(harness.parts.hub.size).toBe(0);
  });

  test('leaves nothing behind when its reader goes away', async () => {
    const { waitId } = await waiting();
    const stream = await harness.stream(`wait=${waitId}`);
    await stream.next('open');
    expect(harness.parts.hub.size).toBe(1);
    stream[Symbol.dispose]();
    await eventually('the stream is gone', () => harness.parts.hub.size === 0);
  });
});

describe("a host's stream", () => {
  test('tells the Helper that there is work, and nothing of its own doings', async () => {
    const helper = await new FakeHelper(harness).start(1);
    const { cursor } = await helper.beacon(1);
    using stream = await harness.stream(`host=${OWN_HOST.host_id}`, cursor);
    await stream.next('open');
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a'));
    expect(await stream.next('host_work')).toEqual({ reason: expect.any(String) });
    await helper.activate(lease.lease_id);
    await harness.call('release_stack_lease', releaseArgs(lease.lease_id));
    await stream.next('host_work');
    const works = stream.frames.filter(({ type }) => type === 'host_work').map(({ data }) => data);
    expect(works).toHaveLength(2);
    expect(works).not.toContainEqual({ reason: 'job_claimed' });
  });

  test('that resumes behind the head says so at once', async () => {
    const helper = await new FakeHelper(harness).start(1);
    const { cursor } = await helper.beacon(1);
    await harness.call('request_stack_lease', leaseArgs('a'));
    using stream = await harness.stream(`host=${OWN_HOST.host_id}`, cursor);
    expect(await stream.next('host_work')).toEqual({ reason: 'resumed' });
  });

  test('counts neither as a call nor as a waiter', async () => {
    await new FakeHelper(harness).start(1);
    const before = harness.calls;
    using stream = await harness.stream(`host=${OWN_HOST.host_id}`);
    await stream.next('open');
    expect(harness.calls).toBe(before);
    expect(harness.parts.hub.hasWaiters).toBe(false);
    const { wait_session_id } = await harness.call('wait', waitArgs(['timer:1h']));
    using wait = await harness.stream(`wait=${wait_session_id}`);
    await wait.next('open');
    expect(harness.parts.hub.hasWaiters).toBe(true);
  });
});

describe('silence, slowness and the end', () => {
  test('a silent stream carries a comment every beat', async () => {
    await using beating = await makeHarness({ beatMs: 10 });
    const view = await beating.call('wait', waitArgs(['timer:1h']));
    using stream = await beating.stream(`wait=${view.wait_session_id}`);
    await eventually('three beats', () => stream.comments.length >= 3);
    expect(stream.comments[0]).toBe(' beat'.trim());
  });

  test('a reader that takes nothing is ended with a typed error and costs a bounded memory', async () => {
    const { leaseId, waitId } = await waiting('active');
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(harness.listening.url).port) });
    socket.write(
      `GET /v1/stream?wait=${waitId} HTTP/1.1\r\nHost: ${new URL(harness.listening.url).host}\r\n` +
        `Authorization: Bearer ${harness.token}\r\n\r\n`,
    );
    await new Promise((resolve) => socket.once('data', resolve));
    socket.pause();
    const lease = harness.parts.engine.state.leases.get(leaseId);
    const helper = await new FakeHelper(harness).start(1);
    for (let moves = 0; harness.parts.hub.size > 0; moves += 1) {
      if (moves > 1_000) throw new Error('the slow reader is never dropped');
      if (lease !== undefined) lease.stack_path = 'x'.repeat(STREAM_BACKLOG_BYTES_MAX - 4_096);
      await helper.defer(leaseId);
    }
    let received = '';
    socket.on('data', (chunk: Buffer) => {
      received = (received + chunk.toString()).slice(-2_000);
    });
    socket.resume();
    await eventually('the typed end arrives', () => received.includes('"code":"slow_reader"'));
    socket.destroy();
  });

  test('a farewell reaches everybody and ends their streams', async () => {
    await new FakeHelper(harness).start(1);
    const view = await harness.call('wait', waitArgs(['timer:1h']));
    const streams = await Promise.all([
      harness.stream(`wait=${view.wait_session_id}`),
      harness.stream(`host=${OWN_HOST.host_id}`),
    ]);
    await harness.parts.hub.farewell('idle');
    for (const stream of streams) {
      expect(await stream.next('farewell')).toEqual({ reason: 'idle' });
      await stream.ended;
    }
  });
});

describe('what an open stream keeps alive', () => {
  test('its wait always, its leases while they wait for their stack', async () => {
    const time = new FakeTime();
    await using still = await makeHarness({ clock: time });
    const { lease } = await still.call('request_stack_lease', leaseArgs('a'));
    const wait = await still.call('wait', waitArgs([`lease:id=${lease.lease_id},state=reaped`]));
    const seenAt = (kind: 'wait' | 'lease', id: string) => still.parts.liveness.lastSeenAt(kind, id);
    using stream = await still.stream(`wait=${wait.wait_session_id}`);
    await stream.next('open');
    time.pass(30);
    expect(seenAt('wait', wait.wait_session_id)).toBe(still.parts.clock.now());
    expect(seenAt('lease', lease.lease_id)).toBe(still.parts.clock.now());
    const helper = await new FakeHelper(still).start(1);
    await helper.activate(lease.lease_id);
    time.pass(30);
    expect(seenAt('wait', wait.wait_session_id)).toBe(still.parts.clock.now());
    expect(seenAt('lease', lease.lease_id)).toBeLessThan(still.parts.clock.now());
    stream[Symbol.dispose]();
    await eventually('the stream is gone', () => still.parts.hub.size === 0);
    time.pass(30);
    expect(seenAt('wait', wait.wait_session_id)).toBe(still.parts.clock.now() - 30);
  });

  test('a beacon renews no lease, a renewed job only itself', async () => {
    const time = new FakeTime();
    await using still = await makeHarness({ clock: time });
    const helper = await new FakeHelper(still).start(1);
    const { lease } = await still.call('request_stack_lease', leaseArgs('a'));
    const { job, job_token } = await helper.claim(lease.lease_id);
    time.pass(50);
    await helper.beacon(1);
    await still.call('renew_job', { job_id: job.job_id, job_token });
    const now = still.parts.clock.now();
    expect(still.parts.liveness.lastSeenAt('job', job.job_id)).toBe(now);
    expect(still.parts.liveness.lastSeenAt('host', helper.hostId)).toBe(now);
    expect(still.parts.liveness.lastSeenAt('lease', lease.lease_id)).toBe(now - 50);
    await still.call('touch_stack_lease', { lease_id: lease.lease_id, fencing_token: null });
    expect(still.parts.liveness.lastSeenAt('lease', lease.lease_id)).toBe(now);
  });
});

import { describe, expect, test } from 'bun:test';
import { startHeartbeat } from '../../src/client/heartbeat.ts';
import { park } from '../../src/client/park.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { newId } from '../../src/platform/random.ts';
import { eventually } from '../support/eventually.ts';
import { makeRealHome } from './_real-home.ts';

const BACKOFF = { firstMs: 20, maxMs: 100 };

describe('a park at a real coordinator', () => {
  test('wakes when its lease becomes active', async () => {
    await using real = makeRealHome();
    const client = await real.open();
    const { lease, activate } = await real.provisioning(client);
    const states: string[] = [];
    const parked = park(client, {
      waitId: newId(),
      conditions: [`lease:id=${lease.lease_id},state=active`],
      mode: 'all',
      deadlineMs: systemClock.monotonicMs() + 30_000,
      leaseId: lease.lease_id,
      agent: '/w',
      onProgress: ({ state }) => states.push(state),
    });
    await eventually('the stream is open', () => states.includes('provisioning'));
    await activate();
    const end = await parked;
    expect(end).toMatchObject({ outcome: 'matched', incident: null, warnings: [], lease: { state: 'active' } });
  });

  test('survives a coordinator that is killed and started again, and is woken by what comes after', async () => {
    await using real = makeRealHome();
    const client = await real.open();
    const { lease, activate } = await real.provisioning(client);
    const waitId = newId();
    const states: string[] = [];
    const parked = park(client, {
      waitId,
      conditions: [`lease:id=${lease.lease_id},state=active`],
      mode: 'all',
      deadlineMs: systemClock.monotonicMs() + 60_000,
      leaseId: lease.lease_id,
      agent: '/w',
      backoff: BACKOFF,
      onProgress: ({ state }) => states.push(state),
    });
    await eventually('the stream is open', () => states.includes('provisioning'));
    await real.kill();
    await eventually('the stream is open again', () => states.length >= 3, { withinMs: 30_000 });
    await activate();
    const end = await parked;
    expect(end).toMatchObject({
      outcome: 'matched',
      waitId,
      incident: { reason: 'platform_unreachable', recovered: true },
    });
    expect(await client.call('get_wait', { wait_session_id: waitId })).toMatchObject({ ended: { outcome: 'matched' } });
  });

  test('learns the outcome that its wait got while nobody listened', async () => {
    await using real = makeRealHome();
    const client = await real.open();
    const helper = await real.open();
    const { lease, activate } = await real.provisioning(helper);
    const waitId = newId();
    const wait = { agent: '/w', conditions: [`lease:id=${lease.lease_id},state=active`], mode: 'all' as const };
    await client.call('wait', { ...wait, wait_session_id: waitId, timeout_ms: 60_000, idempotency_key: newId() });
    await activate();
    await real.kill();
    const deadlineMs = systemClock.monotonicMs() + 30_000;
    const end = await park(client, { ...wait, waitId, deadlineMs, leaseId: lease.lease_id });
    expect(end).toMatchObject({ outcome: 'matched', waitId, state: { lease_state: 'active' } });
  });

  test('keeps the time of a timer', async () => {
    await using real = makeRealHome();
    const client = await real.open();
    const deadlineMs = systemClock.monotonicMs() + 30_000;
    const wait = { waitId: newId(), conditions: ['timer:in=300ms'], mode: 'all' as const, agent: '/w' };
    const end = await park(client, { ...wait, deadlineMs });
    expect(end).toMatchObject({ outcome: 'matched', matched: [{ condition: 0, subject: 'timer' }] });
  });

  test('that ends in a time-out leaves no wait behind', async () => {
    await using real = makeRealHome();
    const client = await real.open();
    const { lease } = await real.provisioning(client);
    const conditions = [`lease:id=${lease.lease_id},state=active`];
    const deadlineMs = systemClock.monotonicMs() + 100;
    const end = await park(client, { waitId: newId(), conditions, mode: 'all', agent: '/w', deadlineMs });
    expect(end).toMatchObject({ outcome: 'timeout', code: 'timeout', lease: { state: 'provisioning' } });
    expect((await client.call('coordinator_status', {})).alive.waits).toBe(0);
  });
});

test('a heartbeat starts the coordinator again and goes on', async () => {
  await using real = makeRealHome();
  const client = await real.open();
  const { lease, activate } = await real.provisioning(client);
  const { fencing_token } = await activate();
  const lost: string[] = [];
  const heartbeat = startHeartbeat(client, {
    leaseId: lease.lease_id,
    fencingToken: fencing_token,
    everyMs: 200,
    ttlMs: 30_000,
    retryMsFirst: 20,
    onLost: ({ code }) => lost.push(code),
  });
  await real.kill();
  await eventually('the incident is over', () => heartbeat.incident?.recovered, { withinMs: 30_000 });
  expect(lost).toEqual([]);
  expect(real.coordinators()).toBe(1);
  const release = { lease_id: lease.lease_id, disposition: 'destroy' as const, idle_ttl_ms: null, reason: 'x' };
  await client.call('release_stack_lease', { ...release, claim_token: null, how: 'reap', idempotency_key: newId() });
  await eventually('the loss is told', () => lost.length === 1);
  expect(lost).toEqual(['LEASE_LOST']);
  heartbeat.stop();
}, 60_000);

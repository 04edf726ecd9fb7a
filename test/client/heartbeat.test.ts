import { describe, expect, test } from 'bun:test';
import { type HeartbeatOptions, startHeartbeat } from '../../src/client/heartbeat.ts';
import type { LeaseLoss } from '../../src/client/heartbeat-rules.ts';
import type { PlatformIncident } from '../../src/client/incident-rules.ts';
import { type Clock, systemClock } from '../../src/platform/clock.ts';
import { eventually } from '../support/eventually.ts';
import { LEASE, leaseView } from './_parks.ts';
import { hang, makeStandIn, ok, refuse, type StandIn } from './_stand-in.ts';

const touched = ok({ lease: leaseView({ state: 'active' }) });

/** Beats until the scope ends; `lost` settles with the loss. */
function beat(stand: StandIn, changes: Partial<HeartbeatOptions> = {}) {
  const lost = Promise.withResolvers<LeaseLoss>();
  const incidents: PlatformIncident[] = [];
  const heartbeat = startHeartbeat(stand.client, {
    leaseId: LEASE,
    fencingToken: 7,
    everyMs: 40,
    ttlMs: 120,
    retryMsFirst: 5,
    onLost: lost.resolve,
    onIncident: (incident) => incidents.push(incident),
    ...changes,
  });
  return { heartbeat, lost: lost.promise, incidents, [Symbol.dispose]: () => heartbeat.stop() };
}

describe('a heartbeat', () => {
  test('touches the lease with its fencing token until it is stopped', async () => {
    await using stand = await makeStandIn();
    stand.script('touch_stack_lease', touched);
    using beating = beat(stand);
    await eventually('three touches came', () => stand.calls('touch_stack_lease').length >= 3);
    expect(stand.calls('touch_stack_lease')[0]?.args).toEqual({ lease_id: LEASE, fencing_token: 7 });
    beating.heartbeat.stop();
    const before = stand.seen.length;
    await eventually('three more beats could have come', waits(120));
    expect(stand.seen.length).toBe(before);
    expect(beating.incidents).toEqual([]);
  });

  test('tells a lost lease once, in the words of the coordinator', async () => {
    await using stand = await makeStandIn();
    stand.script('touch_stack_lease', touched, refuse(409, 'LEASE_LOST'));
    using beating = beat(stand);
    expect(await beating.lost).toEqual({ code: 'LEASE_LOST', message: 'no: LEASE_LOST' });
    const before = stand.seen.length;
    await eventually('three more beats could have come', waits(120));
    expect(stand.seen.length).toBe(before);
  });

  test('rides out an outage that is shorter than the TTL', async () => {
    await using stand = await makeStandIn();
    stand.script('touch_stack_lease', touched, refuse(503, 'overloaded'), refuse(503, 'overloaded'), touched);
    using beating = beat(stand, { ttlMs: 5_000 });
    await eventually('the incident is over', () => beating.heartbeat.incident?.recovered);
    expect(beating.heartbeat.incident).toMatchObject({ reason: 'platform_unreachable', attempts: 2 });
    expect(beating.incidents.map(({ recovered }) => recovered)).toEqual([false, false, true]);
  });

  test('ends as a typed loss when nothing is answered for longer than the TTL', async () => {
    await using stand = await makeStandIn();
    stand.script('touch_stack_lease', touched, hang);
    using beating = beat(stand);
    expect(await beating.lost).toMatchObject({ code: 'heartbeat_unanswered' });
  });

  test('asks first when the machine slept through the whole TTL', async () => {
    await using stand = await makeStandIn();
    let asleepMs = 0;
    const clock: Clock = { ...systemClock, uptimeMs: () => systemClock.monotonicMs() + asleepMs };
    stand.script('touch_stack_lease', touched);
    using beating = beat(stand, { clock, everyMs: 100, ttlMs: 300 });
    await eventually('it beats', () => stand.seen.length > 0);
    asleepMs = 3_600_000;
    const before = stand.seen.length;
    await eventually('it beats on', () => stand.seen.length > before + 1);
    expect(beating.incidents).toEqual([]);
  });
});

function waits(ms: number): () => boolean {
  const until = performance.now() + ms;
  return () => performance.now() > until;
}

import { describe, expect, test } from 'bun:test';
import { type ParkEnd, type ParkRequest, park } from '../../src/client/park.ts';
import { systemClock } from '../../src/platform/clock.ts';
import type { LeaseView } from '../../src/protocol/records.ts';
import { eventually } from '../support/eventually.ts';
import { endedWait, LEASE, leaseView, WAIT, waitView } from './_parks.ts';
import {
  hang,
  makeStandIn,
  nonsense,
  ok,
  type Reply,
  refuse,
  type StandIn,
  streamTo,
  writeOwner,
} from './_stand-in.ts';

const registered = ok(waitView());
const read = (changes: Partial<LeaseView>): Reply => ok({ lease: leaseView(changes), archived: false, ledger: null });
const provisioning = read({ state: 'provisioning' });
const matchedAt = (id: string): Reply =>
  streamTo((pen) => {
    pen.send({ id, type: 'lease', data: { lease: leaseView({ state: 'active' }) } });
    pen.send({ id, type: 'wait_ended', data: { ended: endedWait('matched', { lease_id: LEASE }) } });
    pen.end();
  });
const cut: Reply = streamTo((pen) => pen.end());
const silent: Reply = streamTo((pen) => pen.raw(': hello\n\n'));

function parkAt(stand: StandIn, changes: Partial<ParkRequest> & { forMs?: number } = {}): Promise<ParkEnd> {
  const { forMs = 20_000, ...rest } = changes;
  return park(stand.client, {
    waitId: WAIT,
    conditions: [`lease:id=${LEASE},state=active`],
    mode: 'all',
    deadlineMs: systemClock.monotonicMs() + forMs,
    leaseId: LEASE,
    agent: '/w',
    backoff: { firstMs: 2, maxMs: 10 },
    ...rest,
  });
}

describe('a park', () => {
  test('registers its wait, follows it from the cursor and ends with its outcome', async () => {
    await using stand = await makeStandIn();
    stand.script('wait', registered);
    stand.script('stream', matchedAt('e.2'));
    const seen: string[] = [];
    const end = await parkAt(stand, { onProgress: ({ state }) => seen.push(state) });
    expect(end).toMatchObject({ outcome: 'matched', code: null, incident: null, cursor: 'e.2', waitId: WAIT });
    expect(end.lease?.state).toBe('active');
    expect(seen).toEqual(['active']);
    expect(stand.calls('wait')[0]?.args).toMatchObject({
      wait_session_id: WAIT,
      agent: '/w',
      mode: 'all',
      conditions: [`lease:id=${LEASE},state=active`],
      idempotency_key: `${WAIT}.1`,
    });
    expect(stand.calls('stream')[0]?.search).toBe(`?wait=${WAIT}`);
    expect(stand.calls('stream')[0]?.headers.get('last-event-id')).toBe('e.1');
    expect(stand.seen).toHaveLength(2);
  });

  const blips: [string, Reply, string][] = [
    ['401', refuse(401, 'unauthenticated'), 'platform_auth_unavailable'],
    ['403', refuse(403, 'forbidden_origin'), 'platform_auth_unavailable'],
    ['408', refuse(408, 'timeout'), 'platform_unreachable'],
    ['429', refuse(429, 'overloaded'), 'platform_unreachable'],
    ['503', refuse(503, 'coordinator_ending'), 'platform_unreachable'],
    ['an answer of a proxy', nonsense, 'platform_unreachable'],
  ];
  test.each(blips)('survives %s on the registration, the stream and the read', async (_name, blip, reason) => {
    await using stand = await makeStandIn();
    stand.script('wait', blip, registered, registered);
    stand.script('get_stack_lease', blip, provisioning);
    stand.script('stream', blip, matchedAt('e.2'));
    const end = await parkAt(stand);
    expect(end).toMatchObject({ outcome: 'matched', incident: { reason, attempts: 3, recovered: true } });
    expect(stand.calls('wait')).toHaveLength(3);
    expect(stand.calls('get_stack_lease')).toHaveLength(3);
  });

  test('survives a stream that is cut at once, again and again, and says so', async () => {
    await using stand = await makeStandIn();
    stand.script('wait', registered);
    stand.script('get_stack_lease', provisioning);
    stand.script('stream', cut, cut, cut, matchedAt('e.2'));
    const end = await parkAt(stand);
    expect(end).toMatchObject({
      outcome: 'matched',
      incident: { reason: 'platform_unreachable', attempts: 3, recovered: true, last_error_code: null },
    });
  });

  test('ends on what the read after a back-off shows, and gives the wait up that nobody will come back to', async () => {
    await using stand = await makeStandIn();
    stand.script('wait', registered);
    stand.script('stream', cut);
    stand.script('get_stack_lease', read({ state: 'active' }));
    stand.script('cancel_wait', ok(waitView(endedWait('abandoned'))));
    expect(await parkAt(stand)).toMatchObject({ outcome: 'matched', state: { lease_state: 'active' } });
    expect(stand.calls('cancel_wait')[0]?.args).toMatchObject({ wait_session_id: WAIT });
  });

  test('that is kept for later leaves its wait alone', async () => {
    await using stand = await makeStandIn();
    const abort = new AbortController();
    stand.script('wait', registered);
    stand.script(
      'stream',
      streamTo(() => abort.abort()),
    );
    const end = await parkAt(stand, { signal: abort.signal, keepsWait: true });
    expect(end).toMatchObject({ outcome: 'interrupted', code: 'interrupted' });
    expect(stand.calls('cancel_wait')).toEqual([]);
  });

  test('is interrupted in the middle of a back-off', async () => {
    await using stand = await makeStandIn();
    const abort = new AbortController();
    stand.script('wait', refuse(503, 'overloaded'));
    const parked = parkAt(stand, { signal: abort.signal, backoff: { firstMs: 60_000, maxMs: 60_000 } });
    await eventually('the registration was tried', () => stand.calls('wait').length > 0);
    abort.abort();
    expect(await parked).toMatchObject({ outcome: 'interrupted' });
  });

  test('that was interrupted before it began asks for nothing', async () => {
    await using stand = await makeStandIn();
    expect(await parkAt(stand, { signal: AbortSignal.abort() })).toMatchObject({ outcome: 'interrupted' });
    expect(stand.seen).toEqual([]);
  });
});

describe('the deadline of a park', () => {
  test('is preceded by a direct look at the lease', async () => {
    await using stand = await makeStandIn();
    stand.script('wait', registered);
    stand.script('stream', silent);
    stand.script('get_stack_lease', read({ state: 'active' }));
    expect(await parkAt(stand, { forMs: 60 })).toMatchObject({ outcome: 'matched' });
  });

  test('ends a healthy park as a time-out', async () => {
    await using stand = await makeStandIn();
    stand.script('wait', registered);
    stand.script('stream', silent);
    stand.script('get_stack_lease', provisioning);
    expect(await parkAt(stand, { forMs: 60 })).toMatchObject({ outcome: 'timeout', code: 'timeout', incident: null });
  });

  test('in an open incident bears its reason', async () => {
    await using stand = await makeStandIn();
    stand.script('wait', refuse(503, 'overloaded'));
    stand.script('get_stack_lease', refuse(503, 'overloaded'));
    const end = await parkAt(stand, { forMs: 60 });
    expect(end).toMatchObject({ outcome: 'timeout', code: 'platform_unreachable', incident: { recovered: false } });
    expect(end.error).toContain('never observed');
  });

  test('comes although the registration hangs', async () => {
    await using stand = await makeStandIn();
    stand.script('wait', hang);
    stand.script('get_stack_lease', provisioning);
    stand.script('cancel_wait', refuse(404, 'WAIT_NOT_FOUND'));
    expect(await parkAt(stand, { forMs: 60 })).toMatchObject({ outcome: 'timeout', code: 'timeout' });
  });
});

describe('a park whose credential is rejected', () => {
  test('takes the one that another process wrote meanwhile', async () => {
    await using stand = await makeStandIn();
    stand.script('wait', (seen, signal) => {
      writeOwner(stand.home, 'bbo_second');
      const isKnown = seen.headers.get('authorization') === 'Bearer bbo_second';
      return (isKnown ? registered : refuse(401, 'unauthenticated'))(seen, signal);
    });
    stand.script('get_stack_lease', provisioning);
    stand.script('stream', matchedAt('e.2'));
    expect(await parkAt(stand)).toMatchObject({ outcome: 'matched', incident: { attempts: 1, recovered: true } });
  });

  test('ends once its budget is spent, naming the code', async () => {
    await using stand = await makeStandIn();
    stand.script('wait', refuse(401, 'unauthenticated'));
    stand.script('get_stack_lease', refuse(401, 'unauthenticated'));
    const end = await parkAt(stand, { authBudgetMs: 30 });
    expect(end).toMatchObject({ outcome: 'error', code: 'platform_auth_unavailable' });
  });
});

describe('a park that cannot be registered', () => {
  test('follows its lease instead, with one warning', async () => {
    await using stand = await makeStandIn();
    stand.script('wait', refuse(400, 'invalid_arguments'));
    stand.script('get_stack_lease', provisioning);
    stand.script(
      'stream',
      cut,
      streamTo((pen) => {
        pen.send({ id: 'e.5', type: 'lease', data: { lease: leaseView({ state: 'active' }) } });
      }),
    );
    const end = await parkAt(stand);
    expect(end).toMatchObject({ outcome: 'matched', state: { lease_state: 'active' } });
    expect(end.warnings).toHaveLength(1);
    expect(stand.calls('stream').map(({ search }) => search)).toEqual([`?lease=${LEASE}`, `?lease=${LEASE}`]);
  });

  test('ends where the stream is refused as well', async () => {
    await using stand = await makeStandIn();
    stand.script('wait', refuse(404, 'LEASE_NOT_FOUND'));
    stand.script('stream', refuse(404, 'LEASE_NOT_FOUND'));
    expect(await parkAt(stand)).toMatchObject({ outcome: 'error', code: 'LEASE_NOT_FOUND', incident: null });
  });
});

test('a lease that is deferred while it is provisioned ends the park', async () => {
  await using stand = await makeStandIn();
  stand.script('wait', registered);
  stand.script('cancel_wait', ok(waitView(endedWait('abandoned'))));
  stand.script(
    'stream',
    streamTo((pen) => pen.send({ id: 'e.3', type: 'lease', data: { lease: leaseView({ state: 'queued' }) } })),
  );
  expect(await parkAt(stand)).toMatchObject({ outcome: 'deferred', lease: { state: 'queued' } });
  expect(stand.calls('cancel_wait')).toHaveLength(1);
});

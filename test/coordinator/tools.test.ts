import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { TOOLS } from '../../src/coordinator/tool-table.ts';
import { newId } from '../../src/platform/random.ts';
import { FakeHelper, type Harness, leaseArgs, makeHarness, OWN_HOST, releaseArgs, waitArgs } from './harness.ts';

let harness: Harness;

beforeEach(async () => {
  harness = await makeHarness();
});

afterEach(async () => {
  await harness[Symbol.asyncDispose]();
});

const idOf = (args: { lease_id?: string }): string => args.lease_id ?? '';

describe('asking for a lease', () => {
  test('before the Helper came it queues for the host of this home, and is granted with the first beacon', async () => {
    const { lease, considered, ledger } = await harness.call('request_stack_lease', leaseArgs('a'));
    expect(lease).toMatchObject({ state: 'queued', host_id: OWN_HOST.host_id, queue_reason: 'host_starting' });
    expect(considered[0]?.verdict_code).toBe('HOST_STARTING');
    expect(ledger).toBeNull();
    await new FakeHelper(harness).start(1);
    const { lease: granted } = await harness.call('get_stack_lease', { lease_id: lease.lease_id });
    expect(granted).toMatchObject({ state: 'provisioning', host_key: OWN_HOST.host_key, fencing_token: 1 });
  });

  test('another machine that shares our machine id is ours, one that does not must have registered', async () => {
    const renamed = leaseArgs('a', { host_key: 'renamed.local' });
    expect((await harness.call('request_stack_lease', renamed)).lease.host_id).toBe(OWN_HOST.host_id);
    const foreign = leaseArgs('b', { host_key: 'else.local', machine_id: null });
    expect(await harness.refused('request_stack_lease', foreign)).toMatchObject({ code: 'HOST_NOT_FOUND' });
    await new FakeHelper(harness, 'else').start(1);
    expect((await harness.call('request_stack_lease', foreign)).lease.host_id).toBe('else');
  });

  test('says of each host whether it may run there', async () => {
    await new FakeHelper(harness).start(1);
    await new FakeHelper(harness, 'else').start(4);
    const first = await harness.call('request_stack_lease', leaseArgs('a'));
    expect(first.considered).toEqual([
      { host_key: 'own.local', verdict_code: 'OK' },
      { host_key: 'else.local', verdict_code: 'HOST_NEEDS_WORKTREE' },
    ]);
    const second = await harness.call('request_stack_lease', leaseArgs('b'));
    expect(second.considered[0]?.verdict_code).toBe('HOST_CAPACITY_WAIT');
    expect(second.lease).toMatchObject({ state: 'queued', queue_position: 1, queue_reason: 'capacity' });
    expect(second.ledger).toMatchObject({ capacity_units: 1, verdict: 'HOST_CAPACITY_WAIT', queued: 1 });
  });

  test('twenty at once for one slot make one lease; the others are told which', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => harness.answer('request_stack_lease', leaseArgs('one', { agent: `${n}` }))),
    );
    const granted = answers.flatMap((answer) => (answer.ok ? [answer.result.lease.lease_id] : []));
    expect(granted).toHaveLength(1);
    for (const answer of answers) {
      if (!answer.ok) expect(answer.error).toMatchObject({ code: 'SLOT_HELD', fields: { lease_id: granted[0] } });
    }
  });

  test('a repeated call is answered again, and with other arguments refused', async () => {
    const args = leaseArgs('a');
    const first = await harness.answer('request_stack_lease', args);
    expect(await harness.answer('request_stack_lease', args)).toEqual(first);
    expect(await harness.refused('request_stack_lease', { ...args, units: 2 })).toMatchObject({
      code: 'idempotency_key_reused',
    });
    expect(
      await harness.refused('release_stack_lease', releaseArgs(idOf(args), { idempotency_key: args.idempotency_key })),
    ).toMatchObject({ code: 'idempotency_key_reused' });
    expect(harness.parts.engine.state.leases.size).toBe(1);
  });

  test('the order in which a client writes its keys is no difference', async () => {
    const args = leaseArgs('a', { labels: { x: '1', y: '2' } });
    const first = await harness.answer('request_stack_lease', args);
    const turned = Object.fromEntries(Object.entries({ ...args, labels: { y: '2', x: '1' } }).reverse());
    expect(await harness.answer('request_stack_lease', turned as never)).toEqual(first);
  });

  test('every spelling of its id is the lease', async () => {
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a'));
    for (const spelling of [lease.lease_id.toUpperCase(), `{${lease.lease_id}}`, lease.lease_id.replaceAll('-', '')]) {
      expect((await harness.call('get_stack_lease', { lease_id: spelling })).lease.lease_id).toBe(lease.lease_id);
    }
  });
});

describe('a lease through its life', () => {
  test('is provisioned, released to idle, adopted again, reaped with a proof, and read from the archive', async () => {
    const helper = await new FakeHelper(harness).start(1);
    const args = leaseArgs('a');
    const leaseId = idOf(args);
    await harness.call('request_stack_lease', args);
    await helper.activate(leaseId);
    expect((await harness.call('list_stack_leases', { slot: 'a' })).leases).toMatchObject([
      { state: 'active', connection: { ports: { db: 20_001 } } },
    ]);
    const idle = await harness.call('release_stack_lease', releaseArgs(leaseId, { how: 'idle', reason: 'kept warm' }));
    expect(idle).toMatchObject({ lease: { state: 'idle', idle_reason: 'kept warm' }, changed: true });
    const again = leaseArgs('a', { blocks: args.blocks });
    expect(await harness.call('request_stack_lease', again)).toMatchObject({
      reused: 'idle',
      lease: { lease_id: leaseId, state: 'provisioning', claim_token: again.claim_token },
    });
    await helper.activate(leaseId);
    await harness.call('release_stack_lease', releaseArgs(leaseId, { claim_token: again.claim_token }));
    const reaped = await helper.reap(leaseId);
    expect(reaped).toMatchObject({ ok: true, result: { lease: { state: 'reaped', cleanup_proof: 'signed_reap' } } });
    const read = await harness.call('get_stack_lease', { lease_id: leaseId });
    expect(read).toMatchObject({ archived: true, lease: { state: 'reaped', cleanup_verified: true } });
    expect((await harness.call('list_stack_leases', {})).leases).toEqual([]);
    const released = await harness.call('release_stack_lease', releaseArgs(leaseId));
    expect(released).toMatchObject({ changed: false, lease: { state: 'reaped' } });
    expect(await harness.refused('touch_stack_lease', { lease_id: leaseId, fencing_token: null })).toMatchObject({
      code: expect.stringMatching(/^LEASE_/),
    });
  });

  test('one that nobody knows is not found, whatever is asked of it', async () => {
    const lease_id = newId();
    for (const error of [
      await harness.refused('get_stack_lease', { lease_id }),
      await harness.refused('touch_stack_lease', { lease_id, fencing_token: null }),
      await harness.refused('release_stack_lease', releaseArgs(lease_id)),
      await harness.refused('wait', waitArgs([`lease:id=${lease_id}`])),
    ]) {
      expect(error).toMatchObject({ code: 'LEASE_NOT_FOUND', fields: { lease_id } });
    }
  });

  test('of another principal is neither read, touched, released, listed nor waited for', async () => {
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a'));
    const held = harness.parts.engine.state.leases.get(lease.lease_id);
    if (held !== undefined) held.principal = 'somebody else';
    const { lease_id } = lease;
    expect(await harness.refused('get_stack_lease', { lease_id })).toMatchObject({ code: 'LEASE_NOT_FOUND' });
    expect((await harness.call('list_stack_leases', {})).leases).toEqual([]);
    expect(await harness.refused('touch_stack_lease', { lease_id, fencing_token: null })).toMatchObject({
      code: 'LEASE_NOT_OWNED',
    });
    expect(await harness.refused('release_stack_lease', releaseArgs(lease_id))).toMatchObject({
      code: 'LEASE_NOT_OWNED',
    });
    expect(await harness.refused('wait', waitArgs([`lease:id=${lease_id}`]))).toMatchObject({
      code: 'LEASE_NOT_FOUND',
    });
  });
});

describe('waits', () => {
  test('what already holds matches at registration', async () => {
    await new FakeHelper(harness).start(1);
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a'));
    const view = await harness.call('wait', waitArgs([`lease:${lease.lease_id}`]));
    expect(view).toMatchObject({
      status: 'ended',
      ended: { outcome: 'matched', state: { lease_state: 'provisioning' } },
    });
    expect(await harness.call('get_wait', { wait_session_id: view.wait_session_id })).toMatchObject({
      status: 'ended',
      conditions: [`lease:id=${lease.lease_id}`],
      ended: { outcome: 'matched' },
    });
  });

  test('the proof of a lease that was archived long ago matches at registration', async () => {
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a'));
    await harness.call('release_stack_lease', releaseArgs(lease.lease_id));
    expect(harness.parts.engine.state.leases.size).toBe(0);
    expect(await harness.call('wait', waitArgs([`lease:id=${lease.lease_id},state=reaped`]))).toMatchObject({
      status: 'ended',
      ended: { outcome: 'matched', state: { cleanup_proof: 'never_provisioned' } },
    });
  });

  test('a lease that ends in the very batch that registers the wait is not missed', async () => {
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a'));
    const context = { ...harness.parts, caller: { principal: 'owner', tenant: 'local' }, seenSeq: 0 };
    const [, answer] = await Promise.all([
      TOOLS.release_stack_lease.handle(releaseArgs(lease.lease_id), context),
      TOOLS.wait.handle(waitArgs([`lease:id=${lease.lease_id},state=reaped`]), context),
    ]);
    expect(answer).toMatchObject({ ok: true, reply: { status: 'ended', ended: { outcome: 'matched' } } });
  });

  test('an open one is read, registered again under its id, and cancelled; then it is answered as it ended', async () => {
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a'));
    const args = waitArgs([`lease:id=${lease.lease_id}`]);
    const open = await harness.call('wait', args);
    expect(open).toMatchObject({ status: 'pending', ended: null, mode: 'all' });
    const { wait_session_id } = args;
    expect(await harness.call('get_wait', { wait_session_id })).toMatchObject({ status: 'pending' });
    expect(await harness.call('wait', { ...args, idempotency_key: newId() })).toMatchObject({ status: 'pending' });
    expect(harness.parts.engine.state.waits.size).toBe(1);
    const cancelled = await harness.call('cancel_wait', { wait_session_id, idempotency_key: newId() });
    expect(cancelled).toMatchObject({
      status: 'ended',
      ended: { outcome: 'abandoned', state: { status: 'cancelled' } },
    });
    const later = [
      await harness.call('cancel_wait', { wait_session_id, idempotency_key: newId() }),
      await harness.call('get_wait', { wait_session_id }),
      await harness.call('wait', { ...args, idempotency_key: newId() }),
    ];
    for (const view of later) expect(view).toMatchObject({ ...cancelled, cursor: expect.any(String) });
    expect(harness.parts.engine.state.waits.size).toBe(0);
  });

  test('one that nobody knows is not found', async () => {
    const wait_session_id = newId();
    for (const error of [
      await harness.refused('get_wait', { wait_session_id }),
      await harness.refused('cancel_wait', { wait_session_id, idempotency_key: newId() }),
    ]) {
      expect(error.code).toBe('WAIT_NOT_FOUND');
    }
  });

  test.each([
    ['no condition at all', [], { code: 'INVALID_CONDITION' }],
    ['bad grammar', ['leese:id=x'], { code: 'invalid_condition', fields: { condition: 0, nearest: 'lease' } }],
    ['a bad second one', ['timer:1s', 'timer:soon'], { code: 'invalid_condition', fields: { condition: 1 } }],
  ])('%s is refused', async (_what, conditions, expected) => {
    expect(await harness.refused('wait', waitArgs(conditions))).toMatchObject(expected);
  });

  test('an outcome is taken, and the state of the coordinator told', async () => {
    const report = { lease_id: null, category: 'script', code: 'completed', idempotency_key: newId() };
    expect(await harness.call('report_outcome', report)).toEqual({ accepted: true });
    await harness.call('request_stack_lease', leaseArgs('a'));
    expect(await harness.call('coordinator_status', {})).toMatchObject({
      version: '9.9.9',
      epoch: harness.parts.engine.epoch,
      alive: { leases: 1, jobs: 0, waits: 0 },
    });
  });
});

import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { isSignedBy } from '../../src/coordinator/statement-check.ts';
import { newId } from '../../src/platform/random.ts';
import type { StatementBody } from '../../src/protocol/tool-calls.ts';
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

describe('what a Helper may do', () => {
  test('a beacon tells all that lives on its host and all its work, with the place from which to go on', async () => {
    const helper = await new FakeHelper(harness).start(1);
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a'));
    await harness.call('request_stack_lease', leaseArgs('b'));
    const { leases, jobs, cursor } = await helper.beacon(1);
    expect(leases.map(({ slot, state }) => `${slot} ${state}`)).toEqual(['a provisioning', 'b queued']);
    expect(jobs).toMatchObject([{ lease_id: lease.lease_id, kind: 'provision_stack', state: 'open' }]);
    expect(cursor).toBe(`${harness.parts.engine.epoch}.${harness.parts.engine.state.seq}`);
  });

  test('a later life of the Helper takes over, and the earlier one is told so', async () => {
    const first = await new FakeHelper(harness).start(1);
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a'));
    const { job, job_token } = await first.claim(lease.lease_id);
    const second = new FakeHelper(harness);
    await expect(second.start(1)).rejects.toThrow('HOST_KEY_MISMATCH');
    await harness.call('register_host', {
      host_id: first.hostId,
      host_key: OWN_HOST.host_key,
      machine_id: null,
      capacity_units: 1,
      protocol_version: 4,
      helper_version: '9.9.9',
      incarnation: second.incarnation,
      key_id: 'key-2',
      public_key: second.publicKey,
    });
    expect(await harness.refused('renew_job', { job_id: job.job_id, job_token })).toMatchObject({
      code: 'JOB_CLAIM_LOST',
    });
    await expect(first.beacon(1)).rejects.toThrow('HELPER_SUPERSEDED');
  });

  test('a key that is none is refused at the door', async () => {
    const helper = new FakeHelper(harness);
    Object.assign(helper, { publicKey: Buffer.from('no key').toString('base64') });
    await expect(helper.start(1)).rejects.toThrow('public_key');
  });

  test('hosts are listed with the age of their last sign of life', async () => {
    expect((await harness.call('list_hosts', {})).hosts).toEqual([]);
    await new FakeHelper(harness).start(3);
    const { hosts } = await harness.call('list_hosts', {});
    expect(hosts).toMatchObject([{ host_key: 'own.local', capacity_units: 3, ready: true }]);
    expect(hosts[0]?.beacon_age_ms).toBeLessThan(60_000);
    expect((await harness.call('get_host_ledger', {})).ledger).toMatchObject({ capacity_units: 3 });
    expect((await harness.call('get_host_ledger', { host_key: 'nobody' })).ledger).toBeNull();
  });
});

describe('statements', () => {
  let helper: FakeHelper;
  let leaseId: string;

  beforeEach(async () => {
    helper = await new FakeHelper(harness).start(1);
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a'));
    leaseId = lease.lease_id;
    await helper.activate(leaseId);
    await harness.call('release_stack_lease', releaseArgs(leaseId));
  });

  test('a proof is kept under its receipt id as the very bytes that were signed, and can be checked again', async () => {
    const answer = await helper.reap(leaseId);
    if (!answer.ok) throw new Error(answer.error.message);
    const receiptId = answer.result.lease.cleanup_receipt_id ?? '';
    const kept = await harness.parts.log.readArchive('statement', receiptId);
    expect(kept).toMatchObject({ lease_id: leaseId, host_id: OWN_HOST.host_id, key_id: 'key-1' });
    const host = harness.parts.engine.state.hosts.get(OWN_HOST.host_id);
    expect(kept !== null && isSignedBy(kept, host)).toBe(true);
    expect(kept !== null && isSignedBy({ ...kept, statement: `${kept.statement} ` }, host)).toBe(false);
  });

  test.each([
    ['something still there', { looked_for: [{ kind: 'port', id: '1', before: 'present', after: 'present' }] }],
    ['something unknown', { looked_for: [{ kind: 'port', id: '1', before: 'present', after: 'unknown' }] }],
    ['nothing looked for', { looked_for: [] }],
    ['another lease', { lease_id: newId() }],
    ['another slot', { slot: 'b' }],
    ['another host', { host_id: 'else' }],
    ['another grant', { fencing_token: 99 }],
    ['another plan', { plan_digest: 'other' }],
    ['another kind', { kind: 'rollback' }],
  ] as [string, Partial<StatementBody>][])('%s proves nothing: the units stay taken', async (_what, changes) => {
    expect(await helper.reap(leaseId, changes)).toMatchObject({ ok: true, result: { lease: { state: 'reaping' } } });
    expect(harness.parts.engine.state.leases.get(leaseId)?.cleanup_verified).toBeUndefined();
  });

  test('a signature of a key that the host did not register proves nothing', async () => {
    const stranger = new FakeHelper(harness);
    helper.sign = (body) => stranger.sign(body);
    expect(await helper.reap(leaseId)).toMatchObject({ ok: true, result: { lease: { state: 'reaping' } } });
  });

  test('a statement changed after it was signed proves nothing', async () => {
    const sign = helper.sign.bind(helper);
    helper.sign = (body) => {
      const signed = sign({ ...body, looked_for: [{ kind: 'port', id: '1', before: 'present', after: 'present' }] });
      return { ...signed, statement: signed.statement.replace('"after":"present"', '"after":"absent"') };
    };
    expect(await helper.reap(leaseId)).toMatchObject({ ok: true, result: { lease: { state: 'reaping' } } });
  });

  test.each([
    ['is no JSON', 'nonsense'],
    ['lacks a field', JSON.stringify({ schema_version: 1, kind: 'reap' })],
    ['has another version', JSON.stringify({ schema_version: 2 })],
  ])('one that %s is refused and the job stays held', async (_what, statement) => {
    helper.sign = () => ({ statement, key_id: 'key-1', signature: '' });
    expect(await helper.reap(leaseId)).toMatchObject({ ok: false, error: { code: 'invalid_arguments' } });
    expect(harness.parts.engine.state.jobs.size).toBe(1);
  });

  test('no statement at all proves nothing', async () => {
    const { job, job_token } = await helper.claim(leaseId);
    const answer = await harness.call('complete_job', {
      job_id: job.job_id,
      job_token,
      connection: null,
      reprovisioned: null,
      statement: null,
    });
    expect(answer.lease.state).toBe('reaping');
  });

  test('an old claim can finish nothing', async () => {
    const { job, job_token } = await helper.claim(leaseId);
    const finish = { job_id: job.job_id, job_token: job_token + 1, statement: null };
    for (const error of [
      await harness.refused('complete_job', { ...finish, connection: null, reprovisioned: null }),
      await harness.refused('fail_job', { ...finish, error: 'e', error_class: 'c' }),
      await harness.refused('defer_job', { ...finish, reason: 'r' }),
    ]) {
      expect(error.code).toBe('JOB_CLAIM_LOST');
    }
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

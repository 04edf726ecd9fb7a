import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { isSignedBy } from '../../src/coordinator/statement-check.ts';
import { newId } from '../../src/platform/random.ts';
import type { StatementBody } from '../../src/protocol/tool-calls.ts';
import { FakeHelper, type Harness, leaseArgs, makeHarness, OWN_HOST, releaseArgs } from './harness.ts';

let harness: Harness;

beforeEach(async () => {
  harness = await makeHarness();
});

afterEach(async () => {
  await harness[Symbol.asyncDispose]();
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

  test('each key answers for its own statements only, an old one still for what it signed', async () => {
    const later = new FakeHelper(harness);
    await harness.call('register_host', {
      host_id: helper.hostId,
      host_key: OWN_HOST.host_key,
      machine_id: null,
      capacity_units: 1,
      protocol_version: 4,
      helper_version: '9.9.9',
      incarnation: later.incarnation,
      key_id: 'key-2',
      public_key: later.publicKey,
    });
    const ofEarlierLife = helper.sign.bind(helper);
    later.sign = (body) => ({ ...ofEarlierLife(body), key_id: 'key-2' });
    expect(await later.reap(leaseId)).toMatchObject({ ok: true, result: { lease: { state: 'reaping' } } });
    const host = harness.parts.engine.state.hosts.get(helper.hostId);
    const statement = ofEarlierLife({ schema_version: 1 } as StatementBody);
    expect(isSignedBy(statement, host)).toBe(true);
    expect(isSignedBy({ ...statement, key_id: 'key-2' }, host)).toBe(false);
    expect(isSignedBy({ ...statement, key_id: 'constructor' }, host)).toBe(false);
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

import type { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { openDatabase } from '../../src/log/_sqlite-open.ts';
import { SqliteLog } from '../../src/log/sqlite-log.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir, type TempDir } from '../support/temp-home.ts';
import { FakeHelper, type Harness, leaseArgs, makeHarness, releaseArgs, waitArgs } from './harness.ts';

let dir: TempDir;
let database: Database;
let harness: Harness;

beforeEach(async () => {
  dir = makeTempDir('bb-full-');
  const path = join(dir.path, 'coordinator.db');
  database = openDatabase(path);
  harness = await makeHarness({ log: SqliteLog.open(path, database), leaseTtlMs: 400 });
});

afterEach(async () => {
  await harness[Symbol.asyncDispose]();
  dir[Symbol.dispose]();
});

function fillDisk(): void {
  const { page_count } = database.query('PRAGMA page_count').get() as { page_count: number };
  database.run(`PRAGMA max_page_count = ${page_count}`);
}

const makeRoom = (): void => database.run('PRAGMA max_page_count = 1000000') as never;

/** Large enough to need a page of its own. */
const large = { labels: Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`label-${n}`, 'x'.repeat(250)])) };

describe('a full disk', () => {
  test('refuses what would have to be written, by name of the file, until there is room; the same key then succeeds', async () => {
    const args = leaseArgs('a', large);
    fillDisk();
    for (let tries = 0; tries < 3; tries += 1) {
      expect(await harness.refused('request_stack_lease', args)).toMatchObject({
        code: 'state_unwritable',
        fields: { path: join(dir.path, 'coordinator.db'), errno: 'SQLITE_FULL' },
      });
    }
    const { fetch } = harness;
    const init = { method: 'POST', body: JSON.stringify(args), headers: { 'content-type': 'application/json' } };
    expect((await fetch('/v1/tools/request_stack_lease', init)).status).toBe(507);
    expect((await harness.call('list_stack_leases', {})).leases).toEqual([]);
    makeRoom();
    expect(await harness.call('request_stack_lease', args)).toMatchObject({ lease: { lease_id: args.lease_id ?? '' } });
  });

  test('takes nobody anything: heartbeats are heard, streams stay open, and nothing is lost when there is room again', async () => {
    const helper = await new FakeHelper(harness).start(1);
    const args = leaseArgs('a', { ttl_ms: 400 });
    const lease_id = args.lease_id ?? '';
    await harness.call('request_stack_lease', args);
    await helper.activate(lease_id);
    const wait = await harness.call('wait', waitArgs([`lease:id=${lease_id},state=reaped`]));
    using stream = await harness.stream(`wait=${wait.wait_session_id}`);
    fillDisk();
    const end = performance.now() + 1_000;
    await eventually('more than one TTL has passed', async () => {
      await harness.answer('request_stack_lease', leaseArgs('b', large));
      expect(await harness.answer('touch_stack_lease', { lease_id, fencing_token: null })).toMatchObject({ ok: true });
      return performance.now() > end;
    });
    makeRoom();
    expect(await harness.call('get_stack_lease', { lease_id })).toMatchObject({ lease: { state: 'active' } });
    await harness.call('release_stack_lease', releaseArgs(lease_id));
    await helper.reap(lease_id);
    expect(await stream.next('wait_ended')).toMatchObject({ ended: { outcome: 'matched' } });
  });

  test('stops no clock for good: what was due meanwhile happens once there is room and grace is over', async () => {
    const { lease } = await harness.call('request_stack_lease', leaseArgs('a', { ttl_ms: 150 }));
    database.run('PRAGMA query_only = ON');
    await eventually('the tick cannot be written', () => harness.parts.clock.graceUntil > 0);
    const { lease: kept } = await harness.call('get_stack_lease', { lease_id: lease.lease_id });
    expect(kept.state).toBe('queued');
    database.run('PRAGMA query_only = OFF');
    await eventually('the silent lease is lost', async () => {
      const { lease: found } = await harness.call('get_stack_lease', { lease_id: lease.lease_id });
      return found.state === 'reaped';
    });
  });
});

test('a process that stood still for longer than a TTL lets nobody lose a lease by it', async () => {
  const { lease } = await harness.call('request_stack_lease', leaseArgs('a', { ttl_ms: 400 }));
  const { lease_id } = lease;
  Bun.sleepSync(900);
  expect(await harness.answer('touch_stack_lease', { lease_id, fencing_token: null })).toMatchObject({ ok: true });
  await eventually('the stall was noticed', () => harness.parts.clock.graceUntil > 0);
  expect(await harness.answer('touch_stack_lease', { lease_id, fencing_token: null })).toMatchObject({ ok: true });
});

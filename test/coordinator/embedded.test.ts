import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { SqliteLog } from '../../src/log/sqlite-log.ts';
import { identityOf, isAlive } from '../../src/platform/processes.ts';
import type { ToolCalls } from '../../src/protocol/tool-calls.ts';
import { eventually } from '../support/eventually.ts';
import { EmbeddedStage, helperScript, localArgs } from './_embedded-stage.ts';
import { releaseArgs, waitArgs } from './harness.ts';
import { openStream } from './stream-client.ts';

let stage: EmbeddedStage;

beforeEach(() => {
  stage = new EmbeddedStage();
});

afterEach(async () => {
  await stage[Symbol.asyncDispose]();
});

describe('the election', () => {
  test('one of many that start at once serves the home, the others end with 0', async () => {
    const all = Array.from({ length: 5 }, () => stage.start());
    const ended = await eventually('four have ended', async () => {
      const settled = await Promise.all(all.map((one) => Promise.race([one.finished, Bun.sleep(1).then(() => null)])));
      const finished = settled.filter((one) => one !== null);
      return finished.length === 4 && finished;
    });
    for (const one of ended) expect([one.exitCode, one.stdout.trim()]).toEqual([0, 'not_elected']);
    const found = await eventually('a discovery file', () => stage.discovery());
    expect(isAlive(found.identity)).toBe(true);
    expect(await stage.call(found, 'coordinator_status', {})).toMatchObject({ ok: true });
  }, 20_000);

  test('the discovery file says what a client needs and nothing secret; both doors answer', async () => {
    const found = await stage.listeningAs(
      stage.start([], { BOTBUDDY_LEASE_TTL_SECS: '7', BOTBUDDY_AGENT_SESSION_TOKEN: 'bbs_x' }),
    );
    expect(statSync(join(stage.home, 'coordinator.json')).mode & 0o777).toBe(0o600);
    expect(found).toMatchObject({
      schema_version: 1,
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      version: '9.9.9',
      settings: { home: stage.home, lease_ttl_secs: '7' },
    });
    expect(JSON.stringify(found)).not.toContain('bbs_x');
    expect(JSON.stringify(found)).not.toContain(stage.token());
    const headers = { authorization: `Bearer ${stage.token()}` };
    const overSocket = await fetch('http://local/readyz', { unix: found.socket, headers });
    expect(await overSocket.json()).toMatchObject({ ok: true });
    expect(statSync(join(found.socket, '..')).mode & 0o777).toBe(0o700);
  });
});

describe('kill -9', () => {
  test('loses nothing that was acknowledged, and repeats nothing', async () => {
    const first = stage.start();
    const found = await stage.listeningAs(first);
    const asked: ToolCalls['request_stack_lease']['args'][] = [];
    const acknowledged = new Map<string, string>();
    const load = Array.from({ length: 8 }, async (_, client): Promise<never> => {
      for (let n = 0; ; n += 1) {
        const args = localArgs(`slot-${client}-${n}`);
        asked.push(args);
        const { lease } = await stage.result(found, 'request_stack_lease', args);
        acknowledged.set(lease.lease_id, 'queued');
        if (n % 2 === 0) continue;
        const released = await stage.result(found, 'release_stack_lease', releaseArgs(lease.lease_id));
        acknowledged.set(lease.lease_id, released.lease.state);
      }
    });
    const ended = Promise.allSettled(load);
    await eventually('a good load', () => acknowledged.size > 150);
    first.kill('SIGKILL');
    await ended;
    await first.finished;

    const again = await stage.listeningAs(stage.start());
    for (const [leaseId, state] of acknowledged) {
      const { lease } = await stage.result(again, 'get_stack_lease', { lease_id: leaseId });
      if (state === 'reaped') expect(lease.state).toBe('reaped');
    }
    for (const args of asked.slice(-16)) {
      const answer = await stage.call(again, 'request_stack_lease', args);
      expect(answer).toMatchObject({ ok: true, result: { lease: { lease_id: args.lease_id ?? '' } } });
    }
    const { leases } = await stage.result(again, 'list_stack_leases', {});
    expect(new Set(leases.map(({ slot }) => slot)).size).toBe(leases.length);
  }, 30_000);

  test('frees the lock, and its stale socket and discovery file are replaced by the next one', async () => {
    const first = stage.start();
    const before = await stage.listeningAs(first);
    first.kill('SIGKILL');
    await first.finished;
    expect(existsSync(before.socket)).toBe(true);
    const after = await stage.listeningAs(stage.start());
    expect(after.socket).toBe(before.socket);
    const headers = { authorization: `Bearer ${stage.token()}` };
    expect((await fetch('http://local/readyz', { unix: after.socket, headers })).status).toBe(200);
  });

  test('a wait that was open goes on under its id, and its stream resumes from the cursor', async () => {
    const first = stage.start();
    const found = await stage.listeningAs(first);
    const { lease } = await stage.result(found, 'request_stack_lease', localArgs('a'));
    const wait = await stage.result(found, 'wait', waitArgs([`lease:id=${lease.lease_id}`]));
    first.kill('SIGKILL');
    await first.finished;
    const again = await stage.listeningAs(stage.start());
    using stream = await openStream(`${again.url}/v1/stream?wait=${wait.wait_session_id}`, stage.token(), wait.cursor);
    expect(await stream.next('lease')).toMatchObject({ lease: { state: 'queued' } });
    await stage.result(again, 'release_stack_lease', releaseArgs(lease.lease_id));
    expect(await stream.next('wait_ended')).toMatchObject({ ended: { outcome: 'lease_lost' } });
    expect(stream.frames.map(({ type }) => type)).not.toContain('cursor_expired');
  });
});

describe('the end', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s: farewell, Helper ended, files gone, snapshot stored, exit 0',
    async (signal) => {
      const served = stage.start(helperScript(`echo $$ >> ${stage.home}/lives; exec sleep 600`));
      const found = await stage.listeningAs(served);
      const [life = ''] = await eventually(
        'the Helper lives',
        () => stage.helperLives()[0] !== undefined && stage.helperLives(),
      );
      const { lease } = await stage.result(found, 'request_stack_lease', localArgs('a'));
      const wait = await stage.result(found, 'wait', waitArgs([`lease:id=${lease.lease_id}`]));
      using stream = await openStream(`${found.url}/v1/stream?wait=${wait.wait_session_id}`, stage.token());
      await stream.next('open');
      served.kill(signal);
      expect(await stream.next('farewell')).toEqual({ reason: signal });
      expect(await served.finished).toMatchObject({ exitCode: 0, stdout: 'ended\n' });
      expect(existsSync(join(stage.home, 'coordinator.json'))).toBe(false);
      expect(existsSync(found.socket)).toBe(false);
      expect(identityOf(Number(life))).toBeNull();
      const log = SqliteLog.open(join(stage.home, 'coordinator.db'));
      const { snapshot, tail } = await log.load();
      expect([snapshot?.seq, tail.length]).toEqual([2, 0]);
      await log.close();
    },
  );

  test('comes by itself when nothing lives and nobody called, and not before', async () => {
    const idle = { BOTBUDDY_EMBEDDED_IDLE_EXIT_SECS: '0.4' };
    const served = stage.start(helperScript(`echo $$ >> ${stage.home}/lives; exec sleep 600`), idle);
    const found = await stage.listeningAs(served);
    const { lease } = await stage.result(found, 'request_stack_lease', localArgs('a'));
    const wait = await stage.result(found, 'wait', waitArgs(['timer:1200ms'], { timeout_ms: 60_000 }));
    using stream = await openStream(`${found.url}/v1/stream?wait=${wait.wait_session_id}`, stage.token());
    expect(await stream.next('wait_ended')).toMatchObject({ ended: { outcome: 'matched' } });
    expect(await stage.call(found, 'get_stack_lease', { lease_id: lease.lease_id })).toMatchObject({ ok: true });
    await stage.result(found, 'release_stack_lease', releaseArgs(lease.lease_id));
    expect(await served.finished).toMatchObject({ exitCode: 0, stdout: 'ended\n' });
    expect(stage.discovery()).toBeNull();
    for (const life of stage.helperLives()) expect(identityOf(Number(life))).toBeNull();
  }, 15_000);

  test('comes at once when its database is gone: nothing more would last', async () => {
    const served = stage.start();
    const found = await stage.listeningAs(served);
    await stage.result(found, 'request_stack_lease', localArgs('a'));
    rmSync(stage.home, { recursive: true });
    expect(await served.finished).toMatchObject({ exitCode: 0, stdout: 'ended\n' });
    expect(existsSync(stage.home)).toBe(false);
  }, 15_000);

  test('does not come when only its discovery file is gone: that is written again', async () => {
    const served = stage.start();
    const found = await stage.listeningAs(served);
    rmSync(join(stage.home, 'coordinator.json'));
    expect(await stage.listeningAs(served)).toEqual(found);
  }, 15_000);

  test("is not put off by a Helper's beacons", async () => {
    const served = stage.start([], { BOTBUDDY_EMBEDDED_IDLE_EXIT_SECS: '0.3' });
    const found = await stage.listeningAs(served);
    const over = served.finished.then(() => true);
    const beacons = (async () => {
      while (!(await Promise.race([over, Bun.sleep(20).then(() => false)]))) {
        await stage.call(found, 'host_beacon', { host_id: 'h', incarnation: 'i', capacity_units: 1 }).catch(() => null);
      }
    })();
    expect(await served.finished).toMatchObject({ exitCode: 0 });
    await beacons;
  });
});

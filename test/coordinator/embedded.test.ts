import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { HelperChild } from '../../src/coordinator/helper-child.ts';
import { serve } from '../../src/coordinator/serve.ts';
import { SqliteLog } from '../../src/log/sqlite-log.ts';
import { tryLock } from '../../src/platform/kernel-lock.ts';
import { configureLogging } from '../../src/platform/logging.ts';
import { hostKey, machineId } from '../../src/platform/machine.ts';
import { isAlive, type ProcessIdentity } from '../../src/platform/processes.ts';
import type { DiscoveryFile } from '../../src/protocol/discovery.ts';
import type { ToolAnswer, ToolCalls, ToolName } from '../../src/protocol/tool-calls.ts';
import { eventually } from '../support/eventually.ts';
import { type Running, readJson, startProcess } from '../support/stage.ts';
import { makeTempDir, type TempDir } from '../support/temp-home.ts';
import { leaseArgs, releaseArgs, waitArgs } from './harness.ts';
import { openStream } from './stream-client.ts';

const FIXTURE = join(import.meta.dir, 'fixtures/serve-process.ts');

let dir: TempDir;
let home: string;
let running: Running[];

beforeEach(() => {
  dir = makeTempDir('bb-embedded-');
  home = join(dir.path, 'home');
  running = [];
});

afterEach(async () => {
  for (const process of running) process.kill('SIGKILL');
  await Promise.all(running.map((process) => process.finished));
  dir[Symbol.dispose]();
});

function start(helper: string[] = [], environment: Record<string, string> = {}): Running {
  const env = { PATH: process.env['PATH'] ?? '', HOME: dir.path, BOTBUDDY_LOG_LEVEL: 'silent', ...environment };
  const started = startProcess([process.execPath, FIXTURE, home, ...helper], dir.path, env);
  running.push(started);
  return started;
}

const localArgs = (slot: string) => leaseArgs(slot, { host_key: hostKey(), machine_id: machineId() });

const discovery = (): DiscoveryFile | null => readJson(join(home, 'coordinator.json')) as DiscoveryFile | null;

const listeningAs = (process: Running): Promise<DiscoveryFile> =>
  eventually('it listens', () => {
    const found = discovery();
    return found?.identity.pid === process.pid && found;
  });

const token = (): string => String(readJson(join(home, 'owner.json'))?.['token']);

async function call<N extends ToolName>(
  { url }: DiscoveryFile,
  name: N,
  args: ToolCalls[N]['args'],
): Promise<ToolAnswer<N>> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${token()}` };
  const response = await fetch(`${url}/v1/tools/${name}`, { method: 'POST', headers, body: JSON.stringify(args) });
  return (await response.json()) as ToolAnswer<N>;
}

async function result<N extends ToolName>(
  found: DiscoveryFile,
  name: N,
  args: ToolCalls[N]['args'],
): Promise<ToolCalls[N]['result']> {
  const answer = await call(found, name, args);
  if (answer.ok) return answer.result;
  throw new Error(`${name} was refused: ${answer.error.code}`);
}

/** A Helper that notes each of its lives and then sleeps. */
const helperScript = (body: string): string[] => ['/bin/sh', '-c', body];
const helperLives = (): string[] =>
  existsSync(join(home, 'lives')) ? readFileSync(join(home, 'lives'), 'utf8').trim().split('\n') : [];

const identityOfLife = (line: string): ProcessIdentity => ({
  ...(discovery()?.identity ?? { boot_id: '', started_at: '' }),
  pid: Number(line),
});

describe('the election', () => {
  test('one of many that start at once serves the home, the others end with 0', async () => {
    const all = Array.from({ length: 5 }, () => start());
    const ended = await eventually('four have ended', async () => {
      const settled = await Promise.all(all.map((one) => Promise.race([one.finished, Bun.sleep(1).then(() => null)])));
      const finished = settled.filter((one) => one !== null);
      return finished.length === 4 && finished;
    });
    for (const one of ended) expect([one.exitCode, one.stdout.trim()]).toEqual([0, 'not_elected']);
    const found = await eventually('a discovery file', discovery);
    expect(isAlive(found.identity)).toBe(true);
    expect(await call(found, 'coordinator_status', {})).toMatchObject({ ok: true });
  }, 20_000);

  test('the discovery file says what a client needs and nothing secret; both doors answer', async () => {
    const found = await listeningAs(start([], { BOTBUDDY_LEASE_TTL_SECS: '7', BOTBUDDY_AGENT_SESSION_TOKEN: 'bbs_x' }));
    expect(statSync(join(home, 'coordinator.json')).mode & 0o777).toBe(0o600);
    expect(found).toMatchObject({
      schema_version: 1,
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      version: '9.9.9',
      settings: { home, lease_ttl_secs: '7' },
    });
    expect(JSON.stringify(found)).not.toContain('bbs_x');
    expect(JSON.stringify(found)).not.toContain(token());
    const headers = { authorization: `Bearer ${token()}` };
    const overSocket = await fetch('http://local/readyz', { unix: found.socket, headers });
    expect(await overSocket.json()).toMatchObject({ ok: true });
    expect(statSync(join(found.socket, '..')).mode & 0o777).toBe(0o700);
  });
});

describe('kill -9', () => {
  test('loses nothing that was acknowledged, and repeats nothing', async () => {
    const first = start();
    const found = await listeningAs(first);
    const asked: ToolCalls['request_stack_lease']['args'][] = [];
    const acknowledged = new Map<string, string>();
    const load = Array.from({ length: 8 }, async (_, client): Promise<never> => {
      for (let n = 0; ; n += 1) {
        const args = localArgs(`slot-${client}-${n}`);
        asked.push(args);
        const { lease } = await result(found, 'request_stack_lease', args);
        acknowledged.set(lease.lease_id, 'queued');
        if (n % 2 === 0) continue;
        const released = await result(found, 'release_stack_lease', releaseArgs(lease.lease_id));
        acknowledged.set(lease.lease_id, released.lease.state);
      }
    });
    const ended = Promise.allSettled(load);
    await eventually('a good load', () => acknowledged.size > 150);
    first.kill('SIGKILL');
    await ended;
    await first.finished;

    const again = await listeningAs(start());
    for (const [leaseId, state] of acknowledged) {
      const { lease } = await result(again, 'get_stack_lease', { lease_id: leaseId });
      if (state === 'reaped') expect(lease.state).toBe('reaped');
    }
    for (const args of asked.slice(-16)) {
      const answer = await call(again, 'request_stack_lease', args);
      expect(answer).toMatchObject({ ok: true, result: { lease: { lease_id: args.lease_id ?? '' } } });
    }
    const { leases } = await result(again, 'list_stack_leases', {});
    expect(new Set(leases.map(({ slot }) => slot)).size).toBe(leases.length);
  }, 30_000);

  test('frees the lock, and its stale socket and discovery file are replaced by the next one', async () => {
    const first = start();
    const before = await listeningAs(first);
    first.kill('SIGKILL');
    await first.finished;
    expect(existsSync(before.socket)).toBe(true);
    const after = await listeningAs(start());
    expect(after.socket).toBe(before.socket);
    const headers = { authorization: `Bearer ${token()}` };
    expect((await fetch('http://local/readyz', { unix: after.socket, headers })).status).toBe(200);
  });

  test('a wait that was open goes on under its id, and its stream resumes from the cursor', async () => {
    const first = start();
    const found = await listeningAs(first);
    const { lease } = await result(found, 'request_stack_lease', localArgs('a'));
    const wait = await result(found, 'wait', waitArgs([`lease:id=${lease.lease_id}`]));
    first.kill('SIGKILL');
    await first.finished;
    const again = await listeningAs(start());
    using stream = await openStream(`${again.url}/v1/stream?wait=${wait.wait_session_id}`, token(), wait.cursor);
    expect(await stream.next('lease')).toMatchObject({ lease: { state: 'queued' } });
    await result(again, 'release_stack_lease', releaseArgs(lease.lease_id));
    expect(await stream.next('wait_ended')).toMatchObject({ ended: { outcome: 'lease_lost' } });
    expect(stream.frames.map(({ type }) => type)).not.toContain('cursor_expired');
  });
});

describe('the end', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s: farewell, Helper ended, files gone, snapshot stored, exit 0',
    async (signal) => {
      const served = start(helperScript(`echo $$ >> ${home}/lives; exec sleep 600`));
      const found = await listeningAs(served);
      const [life = ''] = await eventually('the Helper lives', () => helperLives()[0] !== undefined && helperLives());
      const { lease } = await result(found, 'request_stack_lease', localArgs('a'));
      const wait = await result(found, 'wait', waitArgs([`lease:id=${lease.lease_id}`]));
      using stream = await openStream(`${found.url}/v1/stream?wait=${wait.wait_session_id}`, token());
      await stream.next('open');
      served.kill(signal);
      expect(await stream.next('farewell')).toEqual({ reason: signal });
      expect(await served.finished).toMatchObject({ exitCode: 0, stdout: 'ended\n' });
      expect(existsSync(join(home, 'coordinator.json'))).toBe(false);
      expect(existsSync(found.socket)).toBe(false);
      expect(() => process.kill(Number(life), 0)).toThrow();
      const log = SqliteLog.open(join(home, 'coordinator.db'));
      const { snapshot, tail } = await log.load();
      expect([snapshot?.seq, tail.length]).toEqual([2, 0]);
      await log.close();
    },
  );

  test('comes by itself when nothing lives and nobody called, and not before', async () => {
    const idle = { BOTBUDDY_EMBEDDED_IDLE_EXIT_SECS: '0.4' };
    const served = start(helperScript(`echo $$ >> ${home}/lives; exec sleep 600`), idle);
    const found = await listeningAs(served);
    const { lease } = await result(found, 'request_stack_lease', localArgs('a'));
    const wait = await result(found, 'wait', waitArgs(['timer:1200ms'], { timeout_ms: 60_000 }));
    using stream = await openStream(`${found.url}/v1/stream?wait=${wait.wait_session_id}`, token());
    expect(await stream.next('wait_ended')).toMatchObject({ ended: { outcome: 'matched' } });
    expect(await call(found, 'get_stack_lease', { lease_id: lease.lease_id })).toMatchObject({ ok: true });
    await result(found, 'release_stack_lease', releaseArgs(lease.lease_id));
    const releasedAt = performance.now();
    expect(await served.finished).toMatchObject({ exitCode: 0, stdout: 'ended\n' });
    expect(performance.now() - releasedAt).toBeGreaterThan(350);
    expect(discovery()).toBeNull();
    for (const life of helperLives()) expect(isAlive(identityOfLife(life))).toBe(false);
  }, 15_000);

  test("is not put off by a Helper's beacons", async () => {
    const served = start([], { BOTBUDDY_EMBEDDED_IDLE_EXIT_SECS: '0.3' });
    const found = await listeningAs(served);
    const over = served.finished.then(() => true);
    const beacons = (async () => {
      while (!(await Promise.race([over, Bun.sleep(20).then(() => false)]))) {
        await call(found, 'host_beacon', { host_id: 'h', incarnation: 'i', capacity_units: 1 }).catch(() => null);
      }
    })();
    expect(await served.finished).toMatchObject({ exitCode: 0 });
    await beacons;
  });
});

describe('its Helper', () => {
  test('is started again when it ends', async () => {
    await listeningAs(start(helperScript(`echo $$ >> ${home}/lives`)));
    await eventually('three lives', () => helperLives().length >= 3);
    expect(new Set(helperLives()).size).toBe(helperLives().length);
  });

  test('that ignores SIGTERM is killed', async () => {
    mkdirSync(home);
    const argv = helperScript(`trap '' TERM; echo $$ >> ${home}/lives; while :; do sleep 600; done`);
    const env = { PATH: process.env['PATH'] ?? '' };
    const child = new HelperChild({ argv, cwd: home, env, logFile: join(home, 'helper.log'), termGraceMs: 50 });
    const [life = ''] = await eventually('the Helper lives', () => helperLives()[0] !== undefined && helperLives());
    await child.stop();
    expect(() => process.kill(Number(life), 0)).toThrow();
    expect(helperLives()).toHaveLength(1);
  });

  test('that cannot be started does not end the coordinator', async () => {
    const found = await listeningAs(start(['/nothing/there']));
    expect(await call(found, 'coordinator_status', {})).toMatchObject({ ok: true });
  });
});

describe('a start that must fail says why and changes nothing', () => {
  test('on a database that is none', async () => {
    mkdirSync(home, { mode: 0o700 });
    writeFileSync(join(home, 'coordinator.db'), 'no database');
    expect(await start().finished).toMatchObject({ exitCode: 5, stdout: 'log_corrupt\n' });
    expect(readFileSync(join(home, 'coordinator.db'), 'utf8')).toBe('no database');
    expect(discovery()).toBeNull();
  });

  test.each([
    ['an address that is not loopback', { BOTBUDDY_LISTEN: '0.0.0.0:0' }],
    ['a database of another kind', { BOTBUDDY_DATABASE_URL: 'postgres://localhost/x' }],
    ['a TTL that is no duration', { BOTBUDDY_LEASE_TTL_SECS: 'soon' }],
  ])('with %s', async (_what, environment) => {
    expect(await start([], environment).finished).toMatchObject({ exitCode: 5, stdout: 'setting_invalid\n' });
    expect(discovery()).toBeNull();
  });

  test('on a port that is taken', async () => {
    const taken = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('') });
    try {
      const environment = { BOTBUDDY_LISTEN: `127.0.0.1:${taken.port}` };
      expect(await start([], environment).finished).toMatchObject({ exitCode: 5, stdout: 'embedded_start_failed\n' });
    } finally {
      await taken.stop(true);
    }
  });

  test('serve in the foreground, on a home that another one serves', async () => {
    mkdirSync(home, { mode: 0o700 });
    using _lock = tryLock(join(home, 'coordinator.db.lock'));
    const options = { home, environment: { BOTBUDDY_LOG_LEVEL: 'silent' } };
    await expect(serve({ embedded: false, ...options })).rejects.toMatchObject({ code: 'log_unavailable' });
    expect(await serve({ embedded: true, ...options })).toBe(0);
    configureLogging({ level: 'silent' });
  });
});

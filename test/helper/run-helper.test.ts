import { describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAlive, ownIdentity } from '../../src/platform/processes.ts';
import { selfArgv } from '../../src/platform/self-exec.ts';
import { eventually } from '../support/eventually.ts';
import { readJson, startProcess } from '../support/stage.ts';
import { ONE_SERVICE, service } from './_real-stack.ts';
import { type ServedHome, servedHome } from './_served-home.ts';

const MAX_MS = 60_000;

/** A start that goes on until the file appears. */
const slowStart = (gate: string) => `ports = ["db"]
[stack.service.db]
prepare = [["sh", "-c", "while [ ! -e '${gate}' ]; do sleep 0.05; done"]]
command = ${service('listen', '{port.db}')}
ready = { tcp = "db", timeout = "20s" }`;

/** A service that takes its time to stop: it says so, and ends when the file appears. */
const slowStop = (gate: string) => `ports = ["db"]
[stack.service.db]
command = ["sh", "-c", "trap 'touch ${gate}.asked; while [ ! -e ${gate} ]; do sleep 0.05; done; exit 0' TERM; while :; do sleep 0.05; done"]
stop = { grace = "30s" }`;

const provenGone = async (served: ServedHome, id: string) => {
  await served.leaseIs(id, 'reaped');
  expect(await served.lease(id)).toMatchObject({ cleanup_verified: true, cleanup_proof: 'signed_reap' });
};

describe('a Helper', () => {
  test(
    'is started with the coordinator, tells who it is, and is the only one of its home',
    async () => {
      await using served = await servedHome();
      await served.client.call('list_hosts', {});
      const identity = await served.nextHelper(null);
      const second = startProcess(selfArgv(['helper', 'run']), served.root, {
        PATH: process.env['PATH'] ?? '',
        BOTBUDDY_HOME: served.home,
      });
      expect((await second.finished).exitCode).toBe(0);
      expect(isAlive(identity)).toBe(true);
      const status = readJson(join(served.home, 'helper.json'));
      expect(status).toMatchObject({ schema_version: 1, capacity_units: 2, jobs: [], leases: [] });
      for (const file of ['helper.json', 'helper-key.json']) {
        expect(statSync(join(served.home, file)).mode & 0o777).toBe(0o600);
      }
    },
    MAX_MS,
  );

  test(
    'carries a lease from request to proof and frees the claim of the dead owner',
    async () => {
      await using served = await servedHome();
      const stack = await served.ask({ toml: ONE_SERVICE });
      await served.leaseIs(stack.id, 'active');
      expect(stack.claims()).toHaveLength(1);
      await stack.release();
      await provenGone(served, stack.id);
      await eventually('the claim is gone', () => stack.claims().length === 0);
      await eventually('no statement is open', () =>
        readdirSync(join(served.home, 'statements')).every((name) => name === 'archive'),
      );
      expect(stack.marked()).toEqual([]);
    },
    MAX_MS,
  );

  test(
    'frees the claim of an owner that died in the queue',
    async () => {
      await using served = await servedHome({ BOTBUDDY_HOST_UNITS: '1' });
      const first = await served.ask({ toml: ONE_SERVICE });
      await served.leaseIs(first.id, 'active');
      const queued = await served.ask({ toml: ONE_SERVICE, name: 'two', over: { queue_timeout_ms: 500 } });
      const [file = ''] = readdirSync(join(served.home, 'ports')).filter((name) => {
        if (!name.endsWith('.json')) return false;
        const claim = readJson(join(served.home, 'ports', name));
        return claim?.['invocation_token'] === queued.args.claim_token;
      });
      const path = join(served.home, 'ports', file);
      writeFileSync(path, JSON.stringify({ ...readJson(path), lease_id: queued.id }));
      await served.leaseIs(queued.id, 'reaped');
      expect(await served.lease(queued.id)).toMatchObject({ cleanup_proof: 'never_provisioned' });
      await eventually('its claim is gone', () => !existsSync(path));
      expect(first.claims()).toHaveLength(1);
    },
    MAX_MS,
  );
});

describe('a Helper killed with -9', () => {
  test(
    'in mid-provision: the next one takes the half-made stack over',
    async () => {
      await using served = await servedHome();
      const gate = join(served.root, 'gate');
      const stack = await served.ask({ toml: slowStart(gate) });
      await eventually('the start is under way', () => stack.marked().length > 0);
      const before = served.helper();
      const { identity: supervisor } = readJson(stack.paths.supervisor) as { identity: { pid: number } };
      process.kill(before?.pid ?? 0, 'SIGKILL');
      await served.nextHelper(before);
      writeFileSync(gate, '');
      await served.leaseIs(stack.id, 'active');
      expect(readJson(stack.paths.supervisor)).toMatchObject({ identity: { pid: supervisor.pid } });
      await stack.release();
      await provenGone(served, stack.id);
    },
    MAX_MS,
  );

  test(
    'in mid-provision, and the lease is given back meanwhile: the next one ends what was half made',
    async () => {
      await using served = await servedHome();
      const gate = join(served.root, 'gate');
      const stack = await served.ask({ toml: slowStart(gate) });
      await eventually('the start is under way', () => stack.marked().length > 0);
      process.kill(served.helper()?.pid ?? 0, 'SIGKILL');
      await stack.release();
      await provenGone(served, stack.id);
      expect(stack.marked()).toEqual([]);
      expect(existsSync(gate)).toBe(false);
    },
    MAX_MS,
  );

  test(
    'in mid-reap: the next one goes on from the record and proves it',
    async () => {
      await using served = await servedHome();
      const gate = join(served.root, 'gate');
      const stack = await served.ask({ toml: slowStop(gate) });
      await served.leaseIs(stack.id, 'active');
      await stack.release();
      await eventually('the teardown is under way', () => existsSync(`${gate}.asked`));
      const before = served.helper();
      process.kill(before?.pid ?? 0, 'SIGKILL');
      await served.nextHelper(before);
      expect((await served.lease(stack.id)).state).toBe('reaping');
      writeFileSync(gate, '');
      await provenGone(served, stack.id);
      expect(stack.marked()).toEqual([]);
      await eventually('the claim is gone', () => stack.claims().length === 0);
    },
    MAX_MS,
  );

  test(
    'while a stack is active: the stack lives on and the next one watches it',
    async () => {
      await using served = await servedHome();
      const stack = await served.ask({ toml: ONE_SERVICE });
      await served.leaseIs(stack.id, 'active');
      const before = served.helper();
      process.kill(before?.pid ?? 0, 'SIGKILL');
      await served.nextHelper(before);
      await eventually('the next one knows the lease', () => {
        const status = readJson(join(served.home, 'helper.json')) as { leases: { lease_id: string }[] };
        return status.leases.some(({ lease_id }) => lease_id === stack.id);
      });
      expect((await served.lease(stack.id)).state).toBe('active');
      const { identity } = readJson(stack.paths.supervisor) as { identity: { pid: number } };
      process.kill(identity.pid, 'SIGKILL');
      await served.leaseIs(stack.id, 'reaped');
      expect(await served.lease(stack.id)).toMatchObject({ reap_reason: 'stack_lost', cleanup_verified: true });
      expect(stack.marked()).toEqual([]);
    },
    MAX_MS,
  );
});

describe('a coordinator', () => {
  test(
    'killed with -9: the Helper lives on and serves the next one within two seconds',
    async () => {
      await using served = await servedHome({ BOTBUDDY_BEACON_SECS: '30' });
      const stack = await served.ask({ toml: ONE_SERVICE });
      await served.leaseIs(stack.id, 'active');
      const helper = served.helper();
      const before = served.coordinator();
      process.kill(before?.pid ?? 0, 'SIGKILL');
      // Nobody calls: the Helper itself starts the next one, since it knows of a lease.
      await eventually('another coordinator serves', () => {
        const now = served.coordinator();
        return now !== null && now.pid !== before?.pid && isAlive(now);
      });
      await stack.release();
      await served.leaseIs(stack.id, 'reaped', 4_000);
      expect(served.helper()).toEqual(helper);
    },
    MAX_MS,
  );

  test(
    'that says farewell takes its Helper with it, whoever started it',
    async () => {
      await using served = await servedHome({ BOTBUDDY_EMBEDDED_IDLE_EXIT_SECS: '2' });
      await served.client.call('list_hosts', {});
      const helper = await served.nextHelper(null);
      const first = served.coordinator();
      process.kill(first?.pid ?? 0, 'SIGKILL');
      await eventually('the first one is gone', () => first !== null && !isAlive(first));
      await served.client.call('list_hosts', {});
      expect(isAlive(helper)).toBe(true);
      const second = served.coordinator();
      await eventually('both have ended', () => second !== null && !isAlive(second) && !isAlive(helper));
      expect(readFileSync(join(served.home, 'logs', 'helper.log'), 'utf8')).toContain('farewell');
    },
    MAX_MS,
  );
});

test(
  'a Helper that is told to end hands back what it has begun, and the next one takes it up',
  async () => {
    await using served = await servedHome();
    const gate = join(served.root, 'gate');
    const stack = await served.ask({ toml: slowStart(gate), owner: ownIdentity() });
    await eventually('the start is under way', () => stack.marked().length > 0);
    const before = served.helper();
    process.kill(before?.pid ?? 0, 'SIGTERM');
    await eventually('it has ended', () => before !== null && !isAlive(before));
    writeFileSync(gate, '');
    await served.leaseIs(stack.id, 'active');
    expect(served.helper()).not.toEqual(before);
  },
  MAX_MS,
);

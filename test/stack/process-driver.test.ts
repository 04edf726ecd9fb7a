import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { portIsFree } from '../../src/platform/port-probe.ts';
import { eventually } from '../support/eventually.ts';
import {
  codeOf,
  driverSetting,
  fixture,
  kindsOf,
  ONE_SERVICE,
  script,
  started,
  stillThere,
} from './_driver-setting.ts';

setDefaultTimeout(30_000);

describe('a stack goes up', () => {
  test('without services and ports', async () => {
    await using setting = driverSetting('');
    const result = await started(setting);
    expect(result).toEqual({ outcome: 'ready', connection: { host: '127.0.0.1', ports: {}, urls: {} } });
    expect(portIsFree(setting.plan.guard_ports[0] ?? 0)).toBe(false);
  });

  test('with its services ready, its files private and its intent written first', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await setting.driver.prepare(setting.context());
    expect(JSON.parse(readFileSync(setting.paths.creation, 'utf8'))).toMatchObject({
      lease_id: setting.context().leaseId,
      fencing_token: 1,
      ports: [setting.plan.ports['db'], setting.plan.guard_ports[0]],
    });
    expect(existsSync(setting.paths.data)).toBe(false);
    expect(await setting.driver.up(setting.context())).toMatchObject({
      outcome: 'ready',
      connection: { ports: { db: setting.plan.ports['db'] } },
    });
    for (const file of ['plan', 'env', 'creation', 'connection', 'supervisor', 'stamp'] as const) {
      expect(statSync(setting.paths[file]).mode & 0o777).toBe(0o600);
    }
    expect(statSync(join(setting.paths.logs, 'db.log')).mode & 0o777).toBe(0o600);
    expect(statSync(setting.paths.data).mode & 0o777).toBe(0o700);
  });

  test('in the order of the file, prepare before start and set-up after all', async () => {
    await using setting = driverSetting(`ports = ["a", "b"]
setup = [${script('echo setup >> order')}]
[stack.service.second]
prepare = [${script('echo prepare-second >> order')}]
command = ${fixture('listen', '{port.b}')}
ready = { tcp = "b" }
[stack.service.first]
prepare = [${script('echo prepare-first >> order')}]
command = ${fixture('listen', '{port.a}')}
ready = { exec = ${script('echo ready-first >> order')} }`);
    expect(await started(setting)).toMatchObject({ outcome: 'ready' });
    const order = readFileSync(join(setting.paths.data, 'order'), 'utf8');
    expect(order).toBe('prepare-second\nprepare-first\nready-first\nsetup\n');
  });

  test('in a home whose path is too long for a socket', async () => {
    await using setting = driverSetting(ONE_SERVICE, { homeName: 'long-'.repeat(30) });
    expect(await started(setting)).toMatchObject({ outcome: 'ready' });
    await setting.driver.down(setting.context(), 'destroy');
    expect(stillThere(await setting.driver.absence(setting.context()))).toEqual([]);
  });

  test('for each of two calls at once, and starts only one', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await setting.driver.prepare(setting.context());
    const results = await Promise.all([setting.driver.up(setting.context()), setting.driver.up(setting.context())]);
    expect(results.map(({ outcome }) => outcome)).toEqual(['ready', 'ready']);
    expect(setting.marked()).toHaveLength(1);
  });

  test('once more as the same stack after the Helper was restarted', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    const before = setting.supervisorPid();
    expect(await started(setting)).toMatchObject({ outcome: 'ready' });
    expect(setting.supervisorPid()).toBe(before);
  });

  test('and answers on HTTP only with a good status', async () => {
    const http = (status: number) => `ports = ["web"]
[stack.service.web]
command = ${fixture('http', '{port.web}', String(status))}
ready = { http = "http://{host}:{port.web}/healthz", timeout = "2s" }`;
    await using good = driverSetting(http(204));
    expect(await started(good)).toMatchObject({
      outcome: 'ready',
      connection: { urls: { web: `http://127.0.0.1:${good.plan.ports['web']}` } },
    });
    await using bad = driverSetting(http(503));
    expect(await started(bad)).toMatchObject({ outcome: 'failed', code: 'service_not_ready' });
  });

  test('with exactly the environment that was asked for', async () => {
    const environment = { PGUSER: 'me', SECRET: 'no', BUN_INSPECT: 'no', BOTBUDDY_PORT_DB: '1', BOTBUDDY_DAEMON: '1' };
    await using setting = driverSetting(
      `ports = ["db"]
pass_env = ["PGUSER"]
setup = [${script('env -0 > setup-env')}]
[stack.service.db]
prepare = [${script('env -0 > env')}]
command = ${fixture('listen', '{port.db}')}
[stack.env]
URL = "db://{host}:{port.db}/{project}?{lease}"`,
      { environment },
    );
    await started(setting);
    const read = (name: string): Record<string, string> => {
      const entries = readFileSync(join(setting.paths.data, name), 'utf8').split('\0');
      return Object.fromEntries(entries.map((entry) => entry.split(/=(.*)/s)));
    };
    const { leaseId } = setting.context();
    const port = String(setting.plan.ports['db']);
    const seen = read('env');
    expect(seen).toMatchObject({
      PATH: String(process.env['PATH']),
      PGUSER: 'me',
      BOTBUDDY_LEASE_ID: leaseId,
      BOTBUDDY_REAP_MARK: leaseId,
      BOTBUDDY_STACK_PROJECT: setting.plan.project,
      BOTBUDDY_PORT_DB: port,
      URL: `db://127.0.0.1:${port}/${setting.plan.project}?${leaseId}`,
    });
    for (const name of ['SECRET', 'BUN_INSPECT', 'BOTBUDDY_DAEMON', 'BOTBUDDY_CONNECTION_FILE'])
      expect(seen[name]).toBeUndefined();
    expect(read('setup-env')['BOTBUDDY_CONNECTION_FILE']).toBe(setting.paths.connection);
  });
});

describe('a stack goes down', () => {
  test('and everything that was looked for is absent, seen before and after', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    await setting.driver.down(setting.context(), 'destroy');
    const looks = await setting.driver.absence(setting.context());
    expect(kindsOf(looks)).toEqual(['directory', 'group', 'marked', 'port', 'supervisor']);
    expect(stillThere(looks)).toEqual([]);
    const before = looks.filter((look) => look.before === 'present');
    expect(kindsOf(before)).toEqual(['directory', 'group', 'marked', 'port', 'supervisor']);
  });

  test('in reverse order, each service with its own signal', async () => {
    const service = (name: string, signal: string) => `[stack.service.${name}]
command = ${script(`{ trap 'echo ${name} INT >> ends; exit' INT; trap 'echo ${name} TERM >> ends; exit' TERM; touch ${name}; while :; do sleep 0.05; done; }`)}
ready = { exec = ["test", "-e", "{dir}/${name}"] }
stop = { signal = "${signal}", grace = "5s" }\n`;
    await using setting = driverSetting(
      [service('one', 'SIGINT'), service('two', 'SIGTERM'), service('three', 'SIGINT')].join(''),
    );
    await started(setting);
    await setting.driver.down(setting.context(), 'stop');
    expect(readFileSync(join(setting.paths.data, 'ends'), 'utf8')).toBe('three INT\ntwo TERM\none INT\n');
  });

  test('though a service ignores its signal and another one hides in a session of its own', async () => {
    await using setting = driverSetting(`ports = ["a", "b"]
[stack.service.stubborn]
command = ${fixture('stubborn', '{port.a}')}
ready = { tcp = "a" }
stop = { grace = "100ms" }
[stack.service.family]
command = ${fixture('family', '{port.b}')}
ready = { tcp = "b" }
stop = { grace = "300ms" }`);
    await started(setting);
    expect(setting.marked().length).toBe(3);
    await setting.driver.down(setting.context(), 'destroy');
    expect(setting.log('stubborn')).toContain('stays on SIGTERM');
    expect(stillThere(await setting.driver.absence(setting.context()))).toEqual([]);
  });

  test('and keeps its data with stop, which then is not looked for', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    await setting.driver.down(setting.context(), 'stop');
    const looks = await setting.driver.absence(setting.context());
    expect(existsSync(setting.paths.data)).toBe(true);
    expect(kindsOf(looks)).not.toContain('directory');
    expect(stillThere(looks)).toEqual([]);
  });

  test('twice with the same proof: what the first look saw stays in it', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    await setting.driver.down(setting.context(), 'destroy');
    await setting.driver.down(setting.context(), 'destroy');
    const looks = await setting.driver.absence(setting.context());
    expect(looks.find(({ kind }) => kind === 'group')).toMatchObject({ before: 'present', after: 'absent' });
  });

  test('while it is still starting', async () => {
    await using setting = driverSetting(
      '[stack.service.db]\ncommand = ["sleep", "600"]\nready = { exec = ["false"], timeout = "60s" }',
    );
    await setting.driver.prepare(setting.context());
    const up = setting.driver.up(setting.context());
    await eventually('a service that is not ready', () => setting.marked().length > 0);
    await setting.driver.down(setting.context(), 'destroy');
    expect(await up).toMatchObject({ outcome: 'failed', code: 'interrupted' });
    expect(stillThere(await setting.driver.absence(setting.context()))).toEqual([]);
  });

  test('after the worktree was deleted in mid-run', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    rmSync(setting.root, { recursive: true });
    await setting.driver.down(setting.context({ plan: null }), 'destroy');
    expect(stillThere(await setting.driver.absence(setting.context({ plan: null })))).toEqual([]);
  });

  test('never started: the look finds nothing, and says that nothing was there', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await setting.driver.down(setting.context(), 'destroy');
    const looks = await setting.driver.absence(setting.context());
    expect(looks.filter(({ kind }) => kind === 'port')).toHaveLength(6);
    expect(stillThere(looks)).toEqual([]);
    expect(looks.every(({ before }) => before === 'absent')).toBe(true);
  });

  test('what is left is reported as present: a listener, a marked process, a directory', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    await setting.driver.down(setting.context(), 'destroy');
    mkdirSync(setting.paths.data);
    const server = createServer();
    await new Promise<void>((done) => server.listen(setting.plan.ports['db'], '127.0.0.1', done));
    const stray = Bun.spawn(['sleep', '60'], {
      env: { ...process.env, BOTBUDDY_REAP_MARK: setting.context().leaseId },
    });
    try {
      const left = stillThere(await setting.driver.absence(setting.context()));
      expect(kindsOf(left)).toEqual(['directory', 'marked', 'port']);
    } finally {
      stray.kill();
      server.close();
      await stray.exited;
    }
  });
});

test('a slot directory that cannot be made is a typed failure', async () => {
  await using setting = driverSetting(ONE_SERVICE);
  const context = setting.context({ slotDir: join(setting.root, 'file', 'stacks', 'abcdefghijkl') });
  writeFileSync(join(setting.root, 'file'), '');
  expect(await codeOf(setting.driver.prepare(context))).toBe('state_unwritable');
});

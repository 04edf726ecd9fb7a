import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Failure } from '../../src/platform/failure.ts';
import { portIsFree } from '../../src/platform/port-probe.ts';
import { isAlive } from '../../src/platform/processes.ts';
import type { LookedFor } from '../../src/stack/driver.ts';
import { eventually } from '../support/eventually.ts';
import { type DriverSetting, driverSetting, fixture, script, started } from './_driver-setting.ts';

setDefaultTimeout(30_000);

const ONE = `ports = ["db"]
[stack.service.db]
command = ${fixture('listen', '{port.db}')}
ready = { tcp = "db", timeout = "20s" }
stop = { grace = "5s" }`;

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => null,
    (error: unknown) => (error instanceof Failure ? error.code : String(error)),
  );
const kindsOf = (looks: readonly LookedFor[]) => [...new Set(looks.map(({ kind }) => kind))].sort();
const stillThere = (looks: readonly LookedFor[]) => looks.filter(({ after }) => after !== 'absent');
const pidOf = (setting: DriverSetting, name: string): number => {
  const groups = setting.state()['groups'] as { name: string; identity: { pid: number } }[];
  return groups.find((group) => group.name === name)?.identity.pid ?? 0;
};

describe('a stack goes up', () => {
  test('without services and ports', async () => {
    await using setting = driverSetting('');
    const result = await started(setting);
    expect(result).toEqual({ outcome: 'ready', connection: { host: '127.0.0.1', ports: {}, urls: {} } });
    expect(portIsFree(setting.plan.guard_ports[0] ?? 0)).toBe(false);
  });

  test('with its services ready, its files private and its intent written first', async () => {
    await using setting = driverSetting(ONE);
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

  test('for each of two calls at once, and starts only one', async () => {
    await using setting = driverSetting(ONE);
    await setting.driver.prepare(setting.context());
    const results = await Promise.all([setting.driver.up(setting.context()), setting.driver.up(setting.context())]);
    expect(results.map(({ outcome }) => outcome)).toEqual(['ready', 'ready']);
    expect(setting.marked()).toHaveLength(1);
  });

  test('once more as the same stack after the Helper was restarted', async () => {
    await using setting = driverSetting(ONE);
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

describe('a stack that cannot start says why', () => {
  const failing: [string, string, string, Record<string, unknown>][] = [
    [
      'a service that ends before it is ready, with its last lines',
      `ports = ["db"]\n[stack.service.db]\ncommand = ["sh", "-c", "seq 30; exit 7"]\nready = { tcp = "db", timeout = "30s" }`,
      'service_failed',
      { service: 'db', exit_code: 7, lines: Array.from({ length: 20 }, (_, index) => String(index + 11)) },
    ],
    [
      'a service that never gets ready, with its last lines',
      `ports = ["db"]\n[stack.service.db]\ncommand = ["sh", "-c", "echo waiting; exec sleep 60"]\nready = { tcp = "db", timeout = "200ms" }`,
      'service_not_ready',
      { service: 'db', timeout_ms: 200, lines: ['waiting'] },
    ],
    [
      'a program that does not exist',
      '[stack.service.db]\ncommand = ["no-such-program"]',
      'command_not_found',
      { service: 'db', command: 'no-such-program' },
    ],
    [
      'a readiness check that does not exist',
      '[stack.service.db]\ncommand = ["sleep", "60"]\nready = { exec = ["no-such-program"] }',
      'command_not_found',
      { command: 'no-such-program' },
    ],
    [
      'a directory that does not exist',
      '[stack.service.db]\ncommand = ["true"]\ncwd = "missing"',
      'command_not_executable',
      { service: 'db' },
    ],
    [
      'a prepare that fails',
      '[stack.service.db]\nprepare = [["sh", "-c", "echo no; exit 3"]]\ncommand = ["sleep", "60"]',
      'prepare_failed',
      { service: 'db', command: 'sh', exit_code: 3, lines: ['no'] },
    ],
    [
      'a set-up that fails',
      'setup = [["sh", "-c", "echo no; kill -9 $$"]]',
      'setup_failed',
      { signal: 'SIGKILL', lines: ['no'] },
    ],
  ];

  test.each(failing)('%s', async (_what, toml, code, fields) => {
    await using setting = driverSetting(toml);
    const result = await started(setting);
    if (result.outcome !== 'failed') throw new Error('it went up');
    expect(result.code).toBe(code);
    expect(result.fields).toMatchObject(fields);
    expect(setting.marked()).toEqual([]);
    expect(setting.state()).toMatchObject({ phase: 'failed', failure: { code } });
  });

  test('a service that fails ends the ones before it', async () => {
    await using setting = driverSetting(
      `${ONE}\n[stack.service.api]\ncommand = ["false"]\nready = { exec = ["false"] }`,
    );
    expect(await started(setting)).toMatchObject({ outcome: 'failed', code: 'service_failed' });
    expect(portIsFree(setting.plan.ports['db'] ?? 0)).toBe(true);
    expect(setting.log('db')).toContain('left on SIGTERM');
  });

  test.each(['db', 'guard'])('a %s port that another program has', async (which) => {
    await using setting = driverSetting(ONE);
    const port = (which === 'db' ? setting.plan.ports['db'] : setting.plan.guard_ports[0]) ?? 0;
    const server = createServer();
    await new Promise<void>((done) => server.listen(port, '0.0.0.0', done));
    try {
      expect(await started(setting)).toMatchObject({ outcome: 'failed', code: 'ports_in_use', fields: { port } });
    } finally {
      server.close();
    }
  });

  test('a plan with another digest is never started', async () => {
    await using setting = driverSetting(ONE);
    expect(await codeOf(setting.driver.prepare(setting.context({ planDigest: 'f'.repeat(64) })))).toBe('plan_mismatch');
    expect(existsSync(setting.paths.creation)).toBe(false);
    await setting.driver.prepare(setting.context());
    expect(await codeOf(setting.driver.up(setting.context({ planDigest: 'f'.repeat(64) })))).toBe('plan_mismatch');
  });

  test('the same failure again for whoever asks again', async () => {
    await using setting = driverSetting('[stack.service.db]\ncommand = ["no-such-program"]');
    await started(setting);
    expect(await setting.driver.up(setting.context())).toMatchObject({ outcome: 'failed', code: 'command_not_found' });
  });
});

describe('the data directory', () => {
  const counting = (prepare: string, setup = 'true') => `setup = [${script(setup)}]
[stack.service.db]
prepare = [${script(prepare)}]
command = ["sleep", "600"]`;

  test('that was stopped is kept, and neither prepared nor set up again', async () => {
    await using setting = driverSetting(counting('echo p >> log', 'echo s >> log'));
    for (const fencingToken of [1, 2, 3]) {
      expect(await started(setting, { fencingToken })).toMatchObject({ outcome: 'ready' });
      await setting.driver.down(setting.context({ fencingToken }), 'stop');
    }
    expect(readFileSync(join(setting.paths.data, 'log'), 'utf8')).toBe('p\ns\n');
  });

  test('that was destroyed is prepared anew', async () => {
    await using setting = driverSetting(counting('test -z "$(ls)" && echo p >> log'));
    await started(setting);
    await setting.driver.down(setting.context(), 'destroy');
    expect(existsSync(setting.paths.data)).toBe(false);
    expect(await started(setting, { fencingToken: 2 })).toMatchObject({ outcome: 'ready' });
  });

  test('of an interrupted prepare is emptied before the next try', async () => {
    await using setting = driverSetting(counting('{ test -e half && exit 9; touch half; sleep 600; }'));
    await setting.driver.prepare(setting.context());
    const up = setting.driver.up(setting.context());
    await eventually('half of a prepare', () => existsSync(join(setting.paths.data, 'half')));
    process.kill(setting.supervisorPid(), 'SIGKILL');
    expect(await up).toMatchObject({ outcome: 'failed', code: 'stack_lost' });
    await setting.driver.down(setting.context(), 'stop');
    expect(existsSync(join(setting.paths.data, 'half'))).toBe(true);
    await setting.driver.prepare(setting.context({ fencingToken: 2 }));
    const again = setting.driver.up(setting.context({ fencingToken: 2 }));
    await eventually(
      'a second prepare that runs on',
      () => existsSync(join(setting.paths.data, 'half')) && setting.marked().length > 0,
    );
    expect(setting.state()).toMatchObject({ phase: 'starting' });
    await setting.driver.down(setting.context({ fencingToken: 2 }), 'destroy');
    expect(await again).toMatchObject({ outcome: 'failed' });
  });

  test('of a failed set-up is emptied before the next try', async () => {
    await using setting = driverSetting(counting('test ! -e old', '{ touch old; exit 1; }'));
    expect(await started(setting)).toMatchObject({ outcome: 'failed', code: 'setup_failed' });
    await setting.driver.down(setting.context(), 'stop');
    expect(await started(setting, { fencingToken: 2 })).toMatchObject({ outcome: 'failed', code: 'setup_failed' });
  });

  test('that somebody removed by hand is prepared anew', async () => {
    await using setting = driverSetting(counting('echo p >> log'));
    await started(setting);
    await setting.driver.down(setting.context(), 'stop');
    rmSync(setting.paths.data, { recursive: true });
    await started(setting, { fencingToken: 2 });
    expect(readFileSync(join(setting.paths.data, 'log'), 'utf8')).toBe('p\n');
  });
});

describe('a stack goes down', () => {
  test('and everything that was looked for is absent, seen before and after', async () => {
    await using setting = driverSetting(ONE);
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
command = ${script(`{ trap 'echo ${name} >> ends; exit' INT TERM; touch ${name}; while :; do sleep 0.05; done; }`)}
ready = { exec = ["test", "-e", "{dir}/${name}"] }
stop = { signal = "${signal}", grace = "5s" }\n`;
    await using setting = driverSetting(
      [service('one', 'SIGINT'), service('two', 'SIGTERM'), service('three', 'SIGINT')].join(''),
    );
    await started(setting);
    await setting.driver.down(setting.context(), 'stop');
    expect(readFileSync(join(setting.paths.data, 'ends'), 'utf8')).toBe('three\ntwo\none\n');
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
    await using setting = driverSetting(ONE);
    await started(setting);
    await setting.driver.down(setting.context(), 'stop');
    const looks = await setting.driver.absence(setting.context());
    expect(existsSync(setting.paths.data)).toBe(true);
    expect(kindsOf(looks)).not.toContain('directory');
    expect(stillThere(looks)).toEqual([]);
  });

  test('twice with the same proof: what the first look saw stays in it', async () => {
    await using setting = driverSetting(ONE);
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
    await using setting = driverSetting(ONE);
    await started(setting);
    rmSync(setting.root, { recursive: true });
    await setting.driver.down(setting.context({ plan: null }), 'destroy');
    expect(stillThere(await setting.driver.absence(setting.context({ plan: null })))).toEqual([]);
  });

  test('never started: the look finds nothing, and says that nothing was there', async () => {
    await using setting = driverSetting(ONE);
    await setting.driver.down(setting.context(), 'destroy');
    const looks = await setting.driver.absence(setting.context());
    expect(looks.filter(({ kind }) => kind === 'port')).toHaveLength(6);
    expect(stillThere(looks)).toEqual([]);
    expect(looks.every(({ before }) => before === 'absent')).toBe(true);
  });

  test('what is left is reported as present: a listener, a marked process, a directory', async () => {
    await using setting = driverSetting(ONE);
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

describe('when the supervisor was killed', () => {
  const kill = async (setting: DriverSetting) => {
    process.kill(setting.supervisorPid(), 'SIGKILL');
    const identity = setting.state()['identity'] as Parameters<typeof isAlive>[0];
    await eventually('the end of the supervisor', () => !isAlive(identity));
  };

  test('its services live on until down ends them, gracefully and proven', async () => {
    await using setting = driverSetting(ONE);
    await started(setting);
    await kill(setting);
    expect(setting.marked()).toHaveLength(1);
    const unproven = await setting.driver.absence(setting.context());
    expect(kindsOf(stillThere(unproven))).toEqual(['directory', 'group', 'marked', 'port']);
    await setting.driver.down(setting.context(), 'destroy');
    expect(setting.log('db')).toContain('left on SIGTERM');
    expect(stillThere(await setting.driver.absence(setting.context()))).toEqual([]);
  });

  test('and its state is unreadable, the mark still finds the services, and the look stays unknown', async () => {
    await using setting = driverSetting(ONE);
    await started(setting);
    await kill(setting);
    await Bun.write(setting.paths.supervisor, 'torn');
    await setting.driver.down(setting.context(), 'destroy');
    expect(setting.marked()).toEqual([]);
    expect(stillThere(await setting.driver.absence(setting.context())).map(({ after }) => after)).toEqual([
      'unknown',
      'unknown',
    ]);
    rmSync(setting.paths.supervisor);
  });

  test('a supervisor that is stopped and silent is ended with its services', async () => {
    await using setting = driverSetting('[stack.service.db]\ncommand = ["sleep", "600"]\nstop = { grace = "1ms" }');
    await started(setting);
    process.kill(setting.supervisorPid(), 'SIGSTOP');
    await setting.driver.down(setting.context(), 'destroy');
    expect(stillThere(await setting.driver.absence(setting.context()))).toEqual([]);
  });

  test('the stack is not whole', async () => {
    await using setting = driverSetting(ONE);
    await started(setting);
    await kill(setting);
    expect(await setting.driver.inspect(setting.context())).toMatchObject({ whole: false, reason: 'supervisor_gone' });
    expect(await setting.driver.renew(setting.context())).toEqual({ renewed: false });
  });

  test('a new lease of the slot first ends what the old one left', async () => {
    await using setting = driverSetting(ONE);
    await started(setting);
    const before = setting.supervisorPid();
    const next = { leaseId: crypto.randomUUID(), fencingToken: 2 };
    expect(await started(setting, next)).toMatchObject({ outcome: 'ready' });
    expect(setting.supervisorPid()).not.toBe(before);
    expect(setting.marked()).toEqual([]);
    await setting.driver.down(setting.context(next), 'destroy');
  });
});

describe('an inspection', () => {
  test('of a whole stack gives its connection', async () => {
    await using setting = driverSetting(ONE);
    await started(setting);
    expect(await setting.driver.inspect(setting.context({ fencingToken: 2 }))).toMatchObject({
      whole: true,
      connection: { ports: { db: setting.plan.ports['db'] } },
    });
  });

  test('sees another plan', async () => {
    await using setting = driverSetting(ONE);
    await started(setting);
    const other = setting.replan(`${ONE}\n[stack.env]\nA = "1"`);
    expect(await setting.driver.inspect(setting.context(other))).toMatchObject({ reason: 'plan_changed' });
  });

  test('sees another lease', async () => {
    await using setting = driverSetting(ONE);
    await started(setting);
    const context = setting.context({ leaseId: 'other', fencingToken: 2 });
    expect(await setting.driver.inspect(context)).toMatchObject({ reason: 'never_created' });
  });

  test('sees a service that ended by itself, which is noted and not restarted', async () => {
    await using setting = driverSetting(ONE);
    await started(setting);
    process.kill(pidOf(setting, 'db'), 'SIGKILL');
    await eventually('the end of the service', () => (setting.state()['service_ended'] as unknown[]).length > 0);
    expect(await setting.driver.inspect(setting.context())).toMatchObject({ reason: 'service_ended' });
    expect(await setting.driver.renew(setting.context())).toMatchObject({
      renewed: true,
      service_ended: [{ service: 'db', exit_code: null, signal: 'SIGKILL' }],
    });
    expect(setting.marked()).toEqual([]);
  });

  test('sees a service without a readiness check that ended at once', async () => {
    await using setting = driverSetting('[stack.service.a]\ncommand = ["sh", "-c", "exit 4"]');
    expect(await started(setting)).toMatchObject({ outcome: 'ready' });
    await eventually('the end of the service', () => (setting.state()['service_ended'] as unknown[]).length > 0);
    expect(setting.state()['service_ended']).toMatchObject([{ service: 'a', exit_code: 4 }]);
  });

  test('sees a port that another program has by now', async () => {
    await using setting = driverSetting('ports = ["db"]\n[stack.service.db]\ncommand = ["sleep", "600"]');
    await started(setting);
    expect(await setting.driver.inspect(setting.context())).toMatchObject({ whole: true });
    const server = createServer();
    await new Promise<void>((done) => server.listen(setting.plan.ports['db'], '127.0.0.1', done));
    try {
      expect(await setting.driver.inspect(setting.context())).toMatchObject({ reason: 'port_not_ours' });
    } finally {
      server.close();
    }
  });

  test('sees a promised port on which nobody listens any more', async () => {
    await using setting = driverSetting(`ports = ["db"]
[stack.service.db]
command = ["sh", "-c", ${JSON.stringify(`${fixture('listen', '{port.db}').slice(1, -1).split(',').join(' ')} & exec sleep 600`)}]
ready = { tcp = "db" }`);
    await started(setting);
    const listener = setting.marked().find((pid) => pid !== pidOf(setting, 'db'));
    process.kill(listener ?? 0, 'SIGKILL');
    await eventually('a free port', () => portIsFree(setting.plan.ports['db'] ?? 0));
    expect(await setting.driver.inspect(setting.context())).toMatchObject({ reason: 'port_not_bound' });
  });

  test('sees a worktree that was made anew', async () => {
    await using setting = driverSetting('[stack.service.db]\ncommand = ["sleep", "600"]');
    await started(setting);
    rmSync(setting.root, { recursive: true });
    mkdirSync(setting.root);
    expect(await setting.driver.inspect(setting.context())).toMatchObject({ reason: 'worktree_recreated' });
  });
});

describe('an older grant', () => {
  test.each(['prepare', 'up', 'inspect', 'renew', 'down'] as const)(
    'is refused in %s, and changes nothing',
    async (call) => {
      await using setting = driverSetting(ONE);
      await started(setting, { fencingToken: 5 });
      const context = setting.context({ fencingToken: 4 });
      const refused = call === 'down' ? setting.driver.down(context, 'destroy') : setting.driver[call](context);
      expect(await codeOf(refused)).toBe('OLD_GENERATION');
      expect(await setting.driver.inspect(setting.context({ fencingToken: 5 }))).toMatchObject({ whole: true });
    },
  );

  test('is refused after a newer one has only looked, though the supervisor is gone', async () => {
    await using setting = driverSetting(ONE);
    await started(setting);
    await setting.driver.inspect(setting.context({ fencingToken: 2 }));
    process.kill(setting.supervisorPid(), 'SIGKILL');
    expect(await codeOf(setting.driver.down(setting.context(), 'destroy'))).toBe('OLD_GENERATION');
    expect(setting.marked()).toHaveLength(1);
    expect(existsSync(setting.paths.data)).toBe(true);
  });

  test('of a lease that is gone cannot touch the stack of the next one', async () => {
    await using setting = driverSetting(ONE);
    const next = { leaseId: crypto.randomUUID(), fencingToken: 2 };
    await started(setting, next);
    expect(await codeOf(setting.driver.down(setting.context(), 'destroy'))).toBe('OLD_GENERATION');
    expect(await setting.driver.inspect(setting.context(next))).toMatchObject({ whole: true });
    await setting.driver.down(setting.context(next), 'destroy');
  });
});

test.skipIf(process.getuid?.() === 0)('a slot directory that cannot be written is a typed failure', async () => {
  await using setting = driverSetting(ONE);
  chmodSync(setting.paths.dir, 0o500);
  try {
    expect(await codeOf(setting.driver.prepare(setting.context()))).toBe('state_unwritable');
  } finally {
    chmodSync(setting.paths.dir, 0o700);
  }
});

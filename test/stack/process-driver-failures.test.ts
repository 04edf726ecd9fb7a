import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { portIsFree } from '../../src/platform/port-probe.ts';
import { eventually } from '../support/eventually.ts';
import { codeOf, driverSetting, ONE_SERVICE, script, started } from './_driver-setting.ts';

setDefaultTimeout(30_000);

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
      `${ONE_SERVICE}\n[stack.service.api]\ncommand = ["false"]\nready = { exec = ["false"] }`,
    );
    expect(await started(setting)).toMatchObject({ outcome: 'failed', code: 'service_failed' });
    expect(portIsFree(setting.plan.ports['db'] ?? 0)).toBe(true);
    expect(setting.log('db')).toContain('left on SIGTERM');
  });

  test.each(['db', 'guard'])('a %s port that another program has', async (which) => {
    await using setting = driverSetting(ONE_SERVICE);
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
    await using setting = driverSetting(ONE_SERVICE);
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

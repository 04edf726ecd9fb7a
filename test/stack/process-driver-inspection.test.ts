import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { mkdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { portIsFree } from '../../src/platform/port-probe.ts';
import { eventually } from '../support/eventually.ts';
import { driverSetting, fixture, ONE_SERVICE, pidOf, started } from './_driver-setting.ts';

setDefaultTimeout(30_000);

describe('an inspection', () => {
  test('of a whole stack gives its connection', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    expect(await setting.driver.inspect(setting.context({ fencingToken: 2 }))).toMatchObject({
      whole: true,
      connection: { ports: { db: setting.plan.ports['db'] } },
    });
  });

  test('sees another plan', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    const other = setting.replan(`${ONE_SERVICE}\n[stack.env]\nA = "1"`);
    expect(await setting.driver.inspect(setting.context(other))).toMatchObject({ reason: 'plan_changed' });
  });

  test('sees another lease', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    const context = setting.context({ leaseId: 'other', fencingToken: 2 });
    expect(await setting.driver.inspect(context)).toMatchObject({ reason: 'never_created' });
  });

  test('sees a service that ended by itself, which is noted and not restarted', async () => {
    await using setting = driverSetting(ONE_SERVICE);
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

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { existsSync, rmSync } from 'node:fs';
import { isAlive } from '../../src/platform/processes.ts';
import { eventually } from '../support/eventually.ts';
import {
  codeOf,
  type DriverSetting,
  driverSetting,
  kindsOf,
  ONE_SERVICE,
  started,
  stillThere,
} from './_driver-setting.ts';

setDefaultTimeout(30_000);

describe('when the supervisor was killed', () => {
  const kill = async (setting: DriverSetting) => {
    process.kill(setting.supervisorPid(), 'SIGKILL');
    const identity = setting.state()['identity'] as Parameters<typeof isAlive>[0];
    await eventually('the end of the supervisor', () => !isAlive(identity));
  };

  test('its services live on until down ends them, gracefully and proven', async () => {
    await using setting = driverSetting(ONE_SERVICE);
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
    await using setting = driverSetting(ONE_SERVICE);
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
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    await kill(setting);
    expect(await setting.driver.inspect(setting.context())).toMatchObject({ whole: false, reason: 'supervisor_gone' });
    expect(await setting.driver.renew(setting.context())).toEqual({ renewed: false });
  });

  test('a new lease of the slot first ends what the old one left', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    const before = setting.supervisorPid();
    const next = { leaseId: crypto.randomUUID(), fencingToken: 2 };
    expect(await started(setting, next)).toMatchObject({ outcome: 'ready' });
    expect(setting.supervisorPid()).not.toBe(before);
    expect(setting.marked()).toEqual([]);
    await setting.driver.down(setting.context(next), 'destroy');
  });
});

describe('an older grant', () => {
  test.each(['prepare', 'up', 'inspect', 'renew', 'down'] as const)(
    'is refused in %s, and changes nothing',
    async (call) => {
      await using setting = driverSetting(ONE_SERVICE);
      await started(setting, { fencingToken: 5 });
      const context = setting.context({ fencingToken: 4 });
      const refused = call === 'down' ? setting.driver.down(context, 'destroy') : setting.driver[call](context);
      expect(await codeOf(refused)).toBe('OLD_GENERATION');
      expect(await setting.driver.inspect(setting.context({ fencingToken: 5 }))).toMatchObject({ whole: true });
    },
  );

  test('is refused after a newer one has only looked, though the supervisor is gone', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    await setting.driver.inspect(setting.context({ fencingToken: 2 }));
    process.kill(setting.supervisorPid(), 'SIGKILL');
    expect(await codeOf(setting.driver.down(setting.context(), 'destroy'))).toBe('OLD_GENERATION');
    expect(setting.marked()).toHaveLength(1);
    expect(existsSync(setting.paths.data)).toBe(true);
  });

  test('of a lease that is gone cannot touch the stack of the next one', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    const next = { leaseId: crypto.randomUUID(), fencingToken: 2 };
    await started(setting, next);
    expect(await codeOf(setting.driver.down(setting.context(), 'destroy'))).toBe('OLD_GENERATION');
    expect(await setting.driver.inspect(setting.context(next))).toMatchObject({ whole: true });
    await setting.driver.down(setting.context(next), 'destroy');
  });
});

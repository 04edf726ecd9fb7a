import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { portIsFree } from '../../src/platform/port-probe.ts';
import { isAlive, type ProcessIdentity } from '../../src/platform/processes.ts';
import { askSupervisor } from '../../src/stack/_supervisor-client.ts';
import { EXIT_SLOT_TAKEN } from '../../src/stack/_supervisor-fence.ts';
import { lastLines } from '../../src/stack/service-log.ts';
import {
  createdStacks,
  endedServices,
  endOrphanedGroups,
  onSupervisorGone,
  type SupervisorGone,
} from '../../src/stack/supervision.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { type DriverSetting, driverSetting, fixture, ONE_SERVICE, script, started } from './_driver-setting.ts';

setDefaultTimeout(30_000);

const SUPERVISE = join(import.meta.dir, 'fixtures', 'supervise.ts');
const identityIn = (setting: DriverSetting) => setting.state()['identity'] as ProcessIdentity;

describe('a supervisor that nobody renews', () => {
  test('stops its services after its limit, keeps their data and ends', async () => {
    await using setting = driverSetting(ONE_SERVICE, { limitMs: 1_000 });
    await started(setting);
    const supervisor = identityIn(setting);
    await eventually('the end of the supervisor', () => !isAlive(supervisor));
    expect(setting.state()).toMatchObject({ phase: 'stopped', stopped_because: 'limit' });
    expect(setting.log('db')).toContain('left on SIGTERM');
    expect(setting.marked()).toEqual([]);
    expect(existsSync(setting.paths.data)).toBe(true);
  });

  test('goes on as long as somebody does', async () => {
    await using setting = driverSetting(ONE_SERVICE, { limitMs: 1_500 });
    await started(setting);
    const until = performance.now() + 4_000;
    await eventually(
      'three limits of renewals',
      async () => {
        expect(await setting.driver.renew(setting.context())).toMatchObject({ renewed: true });
        return performance.now() > until;
      },
      { everyMs: 300 },
    );
    expect(isAlive(identityIn(setting))).toBe(true);
  });

  test('is renewed by whoever waits for its start', async () => {
    await using setting = driverSetting(`setup = [${script('sleep 2.5')}]`, { limitMs: 900 });
    expect(await started(setting)).toMatchObject({ outcome: 'ready' });
  });
});

test('a supervisor that is asked to end by a signal stops its services first', async () => {
  await using setting = driverSetting(ONE_SERVICE);
  await started(setting);
  const supervisor = identityIn(setting);
  process.kill(supervisor.pid, 'SIGTERM');
  await eventually('the end of the supervisor', () => !isAlive(supervisor));
  expect(setting.state()).toMatchObject({ phase: 'stopped', stopped_because: 'signal' });
  expect(setting.marked()).toEqual([]);
});

test.each([
  ['an older grant', { fencing_token: 4 }],
  ['another lease', { lease_id: 'other', fencing_token: 9 }],
])('a supervisor obeys nothing from %s, whoever let it through', async (_who, change) => {
  await using setting = driverSetting(ONE_SERVICE);
  await started(setting, { fencingToken: 5 });
  const at = { home: setting.home, slotDir: setting.paths.dir };
  const current = { lease_id: setting.context().leaseId, fencing_token: 5, limit_ms: 60_000 };
  for (const op of ['up', 'inspect', 'renew', 'stop'] as const) {
    const answer = await askSupervisor(at, { ...current, ...change, op }, 5_000);
    expect(answer).toMatchObject({ outcome: 'failed', code: 'OLD_GENERATION' });
  }
  expect(await setting.driver.inspect(setting.context({ fencingToken: 5 }))).toMatchObject({ whole: true });
});

test('a second supervisor of a slot ends at once and changes nothing', async () => {
  await using setting = driverSetting(ONE_SERVICE);
  await started(setting);
  const before = readFileSync(setting.paths.supervisor, 'utf8');
  const second = Bun.spawn([process.execPath, SUPERVISE, setting.paths.dir], { stdio: ['ignore', 'ignore', 'ignore'] });
  expect(await second.exited).toBe(EXIT_SLOT_TAKEN);
  expect(readFileSync(setting.paths.supervisor, 'utf8')).toBe(before);
});

test.each(['', 'torn'])('without a record of a creation (%p) nothing is started', async (creation) => {
  using temp = makeTempDir();
  const slotDir = join(temp.path, 'stacks', 'abcdefghijkl');
  mkdirSync(slotDir, { recursive: true });
  if (creation !== '') writeFileSync(join(slotDir, 'creation.json'), creation);
  const supervisor = Bun.spawn([process.execPath, SUPERVISE, slotDir], { stdio: ['ignore', 'ignore', 'ignore'] });
  expect(await supervisor.exited).toBe(1);
  expect(existsSync(join(slotDir, 'supervisor.json'))).toBe(false);
});

test('a supervisor is in a session of its own, without mark and lease in its environment', async () => {
  await using setting = driverSetting(ONE_SERVICE, { environment: { BOTBUDDY_LEASE_ID: 'other' } });
  await started(setting);
  expect(setting.marked()).not.toContain(setting.supervisorPid());
  const stat = readFileSync(`/proc/${setting.supervisorPid()}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  expect(Number(stat[3])).toBe(setting.supervisorPid());
  const service = setting.marked()[0] ?? 0;
  const [, , pgid, sid] = readFileSync(`/proc/${service}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  expect([Number(pgid), Number(sid)]).toEqual([service, service]);
});

describe('whoever watches a supervisor', () => {
  const watched = async (setting: DriverSetting) => {
    const seen: SupervisorGone[] = [];
    const watch = await onSupervisorGone({ home: setting.home, slotDir: setting.paths.dir }, (gone) => seen.push(gone));
    return { seen, watch };
  };

  test('learns at once that it was killed, and can end what it left', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    const { seen } = await watched(setting);
    process.kill(setting.supervisorPid(), 'SIGKILL');
    await eventually('the call', () => seen.length > 0);
    expect(seen).toEqual([{ stopped_because: null }]);
    expect(setting.marked()).toHaveLength(1);
    const { leaseId } = setting.context();
    expect(await endOrphanedGroups({ slotDir: setting.paths.dir, leaseId })).toEqual([]);
    expect(setting.marked()).toEqual([]);
    expect(portIsFree(setting.plan.ports['db'] ?? 0)).toBe(true);
  });

  test('can tell an orderly end', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    const { seen } = await watched(setting);
    await setting.driver.down(setting.context(), 'destroy');
    await eventually('the call', () => seen.length > 0);
    expect(seen).toEqual([{ stopped_because: 'asked' }]);
  });

  test('hears nothing after it stopped watching', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    await started(setting);
    const first = await watched(setting);
    const second = await watched(setting);
    first.watch?.[Symbol.dispose]();
    process.kill(setting.supervisorPid(), 'SIGKILL');
    await eventually('the other call', () => second.seen.length > 0);
    expect(first.seen).toEqual([]);
  });

  test('is told that there is none', async () => {
    await using setting = driverSetting(ONE_SERVICE);
    expect((await watched(setting)).watch).toBeNull();
  });
});

test('stacks of a home are listed with their leases, an unreadable record too', async () => {
  await using setting = driverSetting(ONE_SERVICE);
  expect(createdStacks(setting.home)).toEqual([]);
  await setting.driver.prepare(setting.context());
  expect(createdStacks(setting.home)).toMatchObject([
    { slotDir: setting.paths.dir, creation: { lease_id: setting.context().leaseId } },
  ]);
  writeFileSync(setting.paths.creation, '{');
  expect(createdStacks(setting.home)).toEqual([{ slotDir: setting.paths.dir, creation: null }]);
});

test('a service that ended is told to the lease of the stack only', async () => {
  await using setting = driverSetting('[stack.service.a]\ncommand = ["sh", "-c", "echo last words; exit 4"]');
  await started(setting);
  const { leaseId } = setting.context();
  const ended = await eventually('the end', () => endedServices(setting.paths.dir, leaseId)[0]);
  expect(ended).toMatchObject({ service: 'a', exit_code: 4, signal: null });
  expect(endedServices(setting.paths.dir, 'other')).toEqual([]);
  expect(lastLines(setting.paths.dir, 'a')).toEqual(['last words']);
});

test('the output of a service that says too much is bounded while it runs', async () => {
  await using setting = driverSetting(`[stack.service.a]\ncommand = ${fixture('flood', String(11 * 1024 * 1024))}`);
  await started(setting);
  const file = join(setting.paths.logs, 'a.log');
  await eventually('a second log', () => existsSync(`${file}.1`) && statSync(file).size < 1024);
  expect(statSync(`${file}.1`).mode & 0o077).toBe(0);
});

test('what a new start writes stands alone, the old log beside it', async () => {
  await using setting = driverSetting('[stack.service.a]\ncommand = ["sh", "-c", "echo $$; exec sleep 600"]');
  await started(setting);
  await eventually('a line', () => lastLines(setting.paths.dir, 'a').length > 0);
  const first = setting.log('a');
  await setting.driver.down(setting.context(), 'stop');
  await started(setting, { fencingToken: 2 });
  await eventually('another line', () => lastLines(setting.paths.dir, 'a').length > 0);
  expect(setting.log('a')).not.toBe(first);
  expect(readFileSync(join(setting.paths.logs, 'a.log.1'), 'utf8')).toBe(first);
});

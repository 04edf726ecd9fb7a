import { describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findCoordinator, parseDiscovery } from '../../src/client/discovery.ts';
import { Failure } from '../../src/platform/failure.ts';
import { tryLock } from '../../src/platform/kernel-lock.ts';
import { homePaths } from '../../src/platform/paths.ts';
import { eventually } from '../support/eventually.ts';
import { makeRealHome, type RealHome } from './_real-home.ts';

async function startFailure(real: RealHome, argv: string[], startWithinMs = 2_000): Promise<Failure> {
  const client = await real.open({ startArgv: argv, startWithinMs });
  const error = await client.call('coordinator_status', {}).catch((thrown: unknown) => thrown);
  if (!(error instanceof Failure)) throw new Error('the start did not fail', { cause: error });
  return error;
}

describe('a call that finds no coordinator', () => {
  test('starts one, and later ones use it', async () => {
    await using real = makeRealHome();
    const client = await real.open();
    const first = await client.call('coordinator_status', {});
    const other = await (await real.open()).call('coordinator_status', {});
    expect(other).toEqual(first);
    expect(real.coordinators()).toBe(1);
  });

  test('together with many others starts exactly one that lives', async () => {
    await using real = makeRealHome();
    const clients = await Promise.all(Array.from({ length: 6 }, () => real.open()));
    const answers = await Promise.all(clients.map((client) => client.call('coordinator_status', {})));
    expect(new Set(answers.map(({ started_at }) => started_at)).size).toBe(1);
    await eventually('the others have left', () => real.coordinators() === 1, { withinMs: 20_000 });
  });

  test('after a kill -9 starts another one with the same truth', async () => {
    await using real = makeRealHome();
    const client = await real.open();
    const before = await client.call('coordinator_status', {});
    await real.kill();
    expect(findCoordinator(real.home)).toBeNull();
    const after = await client.call('coordinator_status', {});
    expect(after.epoch).toBe(before.epoch);
    expect(after.started_at).toBeGreaterThan(before.started_at);
  });

  test('starts none where it may not', async () => {
    await using real = makeRealHome();
    const client = await real.open({ mayStart: () => false });
    const error = await client.call('coordinator_status', {}).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'platform_unreachable', fields: { applied: 'no' } });
    expect(real.coordinators()).toBe(0);
  });
});

describe('a coordinator that does not start', () => {
  test('is reported at once with its exit code and the last lines of its log', async () => {
    await using real = makeRealHome();
    const script = 'console.log("first line"); console.log("the disk is on fire"); process.exitCode = 3;';
    const failure = await startFailure(real, [process.execPath, '-e', script], 60_000);
    expect(failure.code).toBe('embedded_start_failed');
    expect(failure.message).toContain('exit code 3');
    expect(failure.message).toContain('the disk is on fire');
    const logFile = join(homePaths(real.home).logs, 'coordinator.log');
    expect(failure.fields).toMatchObject({ log_file: logFile, log_tail: ['first line', 'the disk is on fire'] });
  });

  test('because another process holds the lock and cannot be found is reported after a bounded time', async () => {
    await using real = makeRealHome();
    await (await real.open()).call('coordinator_status', {});
    await real.kill();
    using lock = tryLock(homePaths(real.home).databaseLock);
    expect(lock).not.toBeNull();
    const failure = await startFailure(real, [process.execPath, '-e', '0'], 300);
    expect(failure.code).toBe('embedded_start_failed');
    expect(failure.message).toContain('another process holds its lock');
  });

  test('in time is reported although it still runs', async () => {
    await using real = makeRealHome();
    const failure = await startFailure(real, [process.execPath, '-e', 'setInterval(() => {}, 1000)'], 200);
    expect(failure.message).toContain('it does not answer within 200 ms');
  });
});

test('a discovery file that is no such file is no discovery', () => {
  for (const text of [
    '',
    '{',
    'null',
    '[]',
    '{"schema_version":2}',
    '{"schema_version":1,"identity":{},"settings":{}}',
  ]) {
    expect(parseDiscovery(text)).toBeNull();
  }
});

test('a start in a home that is a file is refused with its path', async () => {
  await using real = makeRealHome();
  writeFileSync(real.home, '');
  const error = await (await real.open()).call('coordinator_status', {}).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'state_unwritable', fields: { errno: 'ENOTDIR' } });
});

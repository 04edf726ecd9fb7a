import { expect, test } from 'bun:test';
import { readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../src/platform/failure.ts';
import { acquireLock, tryLock } from '../../src/platform/kernel-lock.ts';
import { fixturePath, startFixture } from '../fixtures/processes/start-fixture.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir } from '../support/temp-home.ts';

test('a lock is held once, and free again after its release', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'a.lock');
  const first = tryLock(path);
  expect(first).not.toBeNull();
  expect(tryLock(path)).toBeNull();
  first?.release();
  first?.release();
  using second = tryLock(path);
  expect(second).not.toBeNull();
});

test('a release that comes twice does not free the next holder', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'a.lock');
  const first = tryLock(path);
  first?.release();
  using second = tryLock(path);
  first?.release();
  expect(second).not.toBeNull();
  expect(tryLock(path)).toBeNull();
});

test('a lock file and its missing directories are made private under any umask', () => {
  using directory = makeTempDir();
  const before = process.umask(0);
  try {
    using lock = tryLock(join(directory.path, 'deep', 'er', 'a.lock'));
    expect(lock).not.toBeNull();
  } finally {
    process.umask(before);
  }
  expect(statSync(join(directory.path, 'deep', 'er', 'a.lock')).mode & 0o777).toBe(0o600);
  expect(statSync(join(directory.path, 'deep')).mode & 0o777).toBe(0o700);
});

test('the same file by another path is the same lock', () => {
  using directory = makeTempDir();
  symlinkSync(directory.path, join(directory.path, 'self'));
  using lock = tryLock(join(directory.path, 'a.lock'));
  expect(lock).not.toBeNull();
  expect(tryLock(join(directory.path, 'self', 'a.lock'))).toBeNull();
});

test('a lock whose handle nobody kept stays held', async () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'a.lock');
  tryLock(path);
  for (let round = 0; round < 5; round += 1) Bun.gc(true);
  expect(await lockElsewhere(path, 0)).toBe('null');
});

test('another process sees the lock, and gets it once it is released', async () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'a.lock');
  const lock = tryLock(path);
  expect(await lockElsewhere(path, 0)).toBe('null');
  lock?.release();
  expect(await lockElsewhere(path, 0)).toBe('lock');
});

test('the kernel frees the lock of a killed process', async () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'a.lock');
  const ready = join(directory.path, 'ready');
  const holder = Bun.spawn([process.execPath, fixturePath('hold-lock.ts'), path, ready]);
  await eventually('the other process holds the lock', () => statSync(ready, { throwIfNoEntry: false }));
  expect(tryLock(path)).toBeNull();
  expect(await acquireLock(path, { timeoutMs: 30 })).toBeNull();
  const waiting = acquireLock(path, { timeoutMs: 10_000 });
  holder.kill('SIGKILL');
  using lock = await waiting;
  expect(lock).not.toBeNull();
});

test('a child started while the lock is held does not hold it on', async () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'a.lock');
  const lock = tryLock(path);
  await using child = await startFixture('forever');
  lock?.release();
  expect(child.ready).toBe('');
  expect(await lockElsewhere(path, 0)).toBe('lock');
});

test('many processes that count under one lock lose nothing', async () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'a.lock');
  const counter = join(directory.path, 'counter');
  writeFileSync(counter, '0');
  const argv = [process.execPath, fixturePath('count-under-lock.ts'), path, counter, '25'];
  const workers = Array.from({ length: 4 }, () => Bun.spawn(argv));
  expect(await Promise.all(workers.map((worker) => worker.exited))).toEqual([0, 0, 0, 0]);
  expect(readFileSync(counter, 'utf8')).toBe('100');
});

test('a waiter in the same process gets the lock when it comes free', async () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'a.lock');
  const first = tryLock(path);
  const waiting = acquireLock(path, { timeoutMs: 10_000 });
  first?.release();
  using lock = await waiting;
  expect(lock?.path).toBe(path);
});

test('what is no lock file is a failure and not a busy lock', () => {
  using directory = makeTempDir();
  writeFileSync(join(directory.path, 'garbage'), 'no database '.repeat(500));
  for (const path of [join(directory.path, 'garbage'), directory.path, join(directory.path, 'garbage', 'x')]) {
    expect(codeOf(() => tryLock(path))).toBe('state_unwritable');
  }
});

async function lockElsewhere(path: string, timeoutMs: number): Promise<string> {
  const script = `import { acquireLock } from ${JSON.stringify(require.resolve('../../src/platform/kernel-lock.ts'))};
    console.log(await acquireLock(${JSON.stringify(path)}, { timeoutMs: ${timeoutMs} }) === null ? 'null' : 'lock');`;
  const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' });
  return (await new Response(child.stdout).text()).trim();
}

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    return error instanceof Failure ? error.code : String(error);
  }
  return 'nothing thrown';
}

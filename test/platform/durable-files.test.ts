import { expect, test } from 'bun:test';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import {
  createExclusive,
  ensurePrivateDir,
  listDir,
  pathExists,
  readTextIfPresent,
  realPath,
  removeDurable,
  removeTree,
  writeFileDurable,
} from '../../src/platform/durable-files.ts';
import { Failure } from '../../src/platform/failure.ts';
import { fixturePath } from '../fixtures/processes/start-fixture.ts';
import { makeTempDir } from '../support/temp-home.ts';

const UMASKS = [0o000, 0o022, 0o077, 0o777];

test.each(UMASKS)('a written file is 0600 under umask %o', (umask) => {
  using directory = makeTempDir();
  const path = join(directory.path, 'file');
  underUmask(umask, () => writeFileDurable(path, 'text'));
  expect(readFileSync(path, 'utf8')).toBe('text');
  expect(modeOf(path)).toBe(0o600);
});

test('a written file has exactly the mode that was asked for', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'file');
  underUmask(0o077, () => writeFileDurable(path, 'text', { mode: 0o644 }));
  expect(modeOf(path)).toBe(0o644);
});

test('a write replaces the content, takes bytes, and leaves nothing beside it', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'n'.repeat(250));
  writeFileDurable(path, 'a long first content');
  writeFileDurable(path, new Uint8Array([0, 255, 10]));
  expect([...readFileSync(path)]).toEqual([0, 255, 10]);
  expect(readdirSync(directory.path)).toHaveLength(1);
});

test('a write through a link replaces the link and not what it points to', () => {
  using directory = makeTempDir();
  const victim = join(directory.path, 'victim');
  writeFileSync(victim, 'untouched');
  symlinkSync(victim, join(directory.path, 'link'));
  writeFileDurable(join(directory.path, 'link'), 'new');
  expect(readFileSync(victim, 'utf8')).toBe('untouched');
  expect(readFileSync(join(directory.path, 'link'), 'utf8')).toBe('new');
});

test('a disk that takes no more is a typed failure; the old content stays and no temporary file does', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'file');
  writeFileDurable(path, 'old');
  const script = 'trap "" XFSZ; ulimit -f 8; exec "$@"';
  const argv = ['sh', '-c', script, 'sh', process.execPath, fixturePath('write-file.ts'), path, '1000000'];
  const result = Bun.spawnSync(argv, { env: { PATH: process.env['PATH'] } });
  expect(result.stdout.toString().trim()).toBe('state_unwritable EFBIG');
  expect(readFileSync(path, 'utf8')).toBe('old');
  expect(readdirSync(directory.path)).toEqual(['file']);
});

test('a missing or impossible parent is a failure with path and errno', () => {
  using directory = makeTempDir();
  writeFileSync(join(directory.path, 'file'), '');
  const missing = join(directory.path, 'missing', 'x');
  const below = join(directory.path, 'file', 'x');
  expect(failureOf(() => writeFileDurable(missing, ''))).toMatchObject(unwritable(missing, 'ENOENT'));
  expect(failureOf(() => writeFileDurable(below, ''))).toMatchObject(unwritable(below, 'ENOTDIR'));
  expect(failureOf(() => createExclusive(below, ''))).toMatchObject(unwritable(below, 'ENOTDIR'));
  expect(failureOf(() => ensurePrivateDir(below))).toMatchObject({ code: 'state_unwritable' });
});

test('a write onto a directory fails and leaves no temporary file', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'sub');
  mkdirSync(path);
  expect(failureOf(() => writeFileDurable(path, 'x')).code).toBe('state_unwritable');
  expect(readdirSync(directory.path)).toEqual(['sub']);
});

test('an exclusive file is made once, with its content and 0600', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'claim');
  expect(underUmask(0o000, () => createExclusive(path, 'first'))).toBeTrue();
  expect(createExclusive(path, 'second')).toBeFalse();
  expect(readFileSync(path, 'utf8')).toBe('first');
  expect(modeOf(path)).toBe(0o600);
  expect(readdirSync(directory.path)).toEqual(['claim']);
});

test('an exclusive file does not replace a dangling link', () => {
  using directory = makeTempDir();
  symlinkSync('/nowhere/at/all', join(directory.path, 'claim'));
  expect(createExclusive(join(directory.path, 'claim'), 'x')).toBeFalse();
});

test('a missing file reads as null, an unreadable one is a failure', () => {
  using directory = makeTempDir();
  writeFileSync(join(directory.path, 'there'), 'päth');
  expect(readTextIfPresent(join(directory.path, 'there'))).toBe('päth');
  expect(readTextIfPresent(join(directory.path, 'not'))).toBeNull();
  expect(failureOf(() => readTextIfPresent(directory.path))).toMatchObject(unwritable(directory.path, 'EISDIR'));
});

test('removal says whether there was something', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'file');
  writeFileSync(path, '');
  expect(removeDurable(path)).toBeTrue();
  expect(pathExists(path)).toBeFalse();
  expect(removeDurable(path)).toBeFalse();
  expect(failureOf(() => removeDurable(directory.path)).code).toBe('state_unwritable');
});

test('a tree is removed with all in it, but not what its links point to', () => {
  using directory = makeTempDir();
  mkdirSync(join(directory.path, 'tree', 'deep'), { recursive: true });
  writeFileSync(join(directory.path, 'outside'), 'stays');
  symlinkSync(join(directory.path, 'outside'), join(directory.path, 'tree', 'deep', 'link'));
  removeTree(join(directory.path, 'tree'));
  removeTree(join(directory.path, 'tree'));
  expect(readdirSync(directory.path)).toEqual(['outside']);
});

test('a listing is sorted, and empty for a missing directory', () => {
  using directory = makeTempDir();
  for (const name of ['b', 'a', 'c']) writeFileSync(join(directory.path, name), '');
  expect(listDir(directory.path)).toEqual(['a', 'b', 'c']);
  expect(listDir(join(directory.path, 'missing'))).toEqual([]);
});

test('a dangling link exists, a link is resolved by its real path', () => {
  using directory = makeTempDir();
  symlinkSync('/nowhere/at/all', join(directory.path, 'dangling'));
  symlinkSync(directory.path, join(directory.path, 'self'));
  expect(pathExists(join(directory.path, 'dangling'))).toBeTrue();
  expect(realPath(join(directory.path, 'self'))).toBe(directory.path);
  expect(failureOf(() => realPath(join(directory.path, 'dangling'))).fields['errno']).toBe('ENOENT');
});

test.each(UMASKS)('a private directory and what is missing above it are 0700 under umask %o', (umask) => {
  using directory = makeTempDir();
  const path = join(directory.path, 'a', 'b', 'c');
  underUmask(umask, () => ensurePrivateDir(path));
  for (const each of [path, join(path, '..'), join(path, '..', '..')]) expect(modeOf(each)).toBe(0o700);
});

test('a directory of ours that others could read becomes private, and what lies above it stays', () => {
  using directory = makeTempDir();
  chmodSync(directory.path, 0o755);
  mkdirSync(join(directory.path, 'home'));
  chmodSync(join(directory.path, 'home'), 0o777);
  ensurePrivateDir(join(directory.path, 'home'));
  expect(modeOf(join(directory.path, 'home'))).toBe(0o700);
  expect(modeOf(directory.path)).toBe(0o755);
});

test('a place that all users share is refused and keeps its mode', () => {
  using directory = makeTempDir();
  chmodSync(directory.path, 0o1777);
  expect(failureOf(() => ensurePrivateDir(directory.path)).code).toBe('state_foreign');
  expect(statSync(directory.path).mode & 0o7777).toBe(0o1777);
});

test('a directory of another user is refused, through a link too', () => {
  using directory = makeTempDir();
  const foreign = foreignDirectory(directory.path);
  symlinkSync(foreign, join(directory.path, 'link'));
  for (const path of [foreign, join(directory.path, 'link')]) {
    expect(failureOf(() => ensurePrivateDir(path))).toMatchObject({ code: 'state_foreign', fields: { path } });
  }
});

test('a file where a directory should be is a failure', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'file');
  writeFileSync(path, '');
  expect(failureOf(() => ensurePrivateDir(path))).toMatchObject(unwritable(path, 'ENOTDIR'));
});

/** As root one is made; anybody else has the root directory. */
function foreignDirectory(parent: string): string {
  if (process.geteuid?.() !== 0) return '/';
  const path = join(parent, 'foreign');
  mkdirSync(path);
  chownSync(path, 65_534, 65_534);
  return path;
}

function underUmask<T>(mask: number, action: () => T): T {
  const before = process.umask(mask);
  try {
    return action();
  } finally {
    process.umask(before);
  }
}

function modeOf(path: string): number {
  return statSync(path).mode & 0o777;
}

function unwritable(path: string, errno: string) {
  return { code: 'state_unwritable', fields: { path, errno } };
}

function failureOf(action: () => unknown): Failure {
  try {
    action();
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

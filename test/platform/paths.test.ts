import { expect, test } from 'bun:test';
import { mkdirSync, rmdirSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { homeDir, homePaths, socketPath } from '../../src/platform/paths.ts';
import { makeTempDir } from '../support/temp-home.ts';

test('the home is what the environment names, else a directory of the user; always absolute', () => {
  expect(homeDir({ BOTBUDDY_HOME: '/srv/bb', HOME: '/home/u' })).toBe('/srv/bb');
  expect(homeDir({ BOTBUDDY_HOME: 'rel/home' })).toBe(join(process.cwd(), 'rel/home'));
  expect(homeDir({ BOTBUDDY_HOME: '', HOME: '/home/u' })).toBe('/home/u/.botbuddy');
  expect(homeDir({})).toMatch(/^\/.*\/\.botbuddy$/);
});

test('every path of a home lies inside of it and none twice', () => {
  const { home, ...rest } = homePaths('/h');
  expect(home).toBe('/h');
  expect(Object.values(rest).every((path) => path.startsWith('/h/'))).toBeTrue();
  expect(new Set(Object.values(rest)).size).toBe(Object.keys(rest).length);
  expect(rest.databaseLock).toBe(`${rest.database}.lock`);
});

test('a socket lives in the home where its path is short enough', () => {
  using directory = makeTempDir();
  const path = socketPath(directory.path, 'sup-abc');
  expect(path).toBe(join(directory.path, 'run', 'sup-abc.sock'));
  expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
});

test('the socket of a deep home has a short path that depends on home and name and can be listened on', async () => {
  using directory = makeTempDir();
  const deep = join(directory.path, 'd'.repeat(80));
  mkdirSync(deep);
  const path = socketPath(deep, 'sup-abc');
  expect(Buffer.byteLength(path)).toBeLessThanOrEqual(103);
  expect(socketPath(deep, 'sup-abc')).toBe(path);
  expect(socketPath(deep, 'sup-abd')).not.toBe(path);
  expect(socketPath(join(deep, 'x'), 'sup-abc')).not.toBe(path);
  const directoryStats = statSync(dirname(path));
  expect([directoryStats.mode & 0o777, directoryStats.uid]).toEqual([0o700, process.getuid?.() ?? -1]);
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(path, resolve));
  expect(statSync(path).isSocket()).toBeTrue();
  await new Promise((resolve) => server.close(resolve));
  try {
    rmdirSync(dirname(path));
  } catch {}
});

test('the length limit counts bytes and not characters', () => {
  using directory = makeTempDir();
  const home = join(directory.path, 'ü'.repeat(40));
  mkdirSync(home);
  expect(socketPath(home, 'sup')).toStartWith('/tmp/botbuddy-');
});

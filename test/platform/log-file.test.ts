import { expect, test } from 'bun:test';
import { appendFileSync, closeSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { keepLogBounded, readTail, rotateLog } from '../../src/platform/log-file.ts';
import { makeTempDir } from '../support/temp-home.ts';

test('a small log stays, a missing one is not made', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'logs', 'a.log');
  rotateLog(path, 10);
  expect(statSync(join(directory.path, 'logs')).mode & 0o777).toBe(0o700);
  writeFileSync(path, '0123456789');
  rotateLog(path, 10);
  expect(readFileSync(path, 'utf8')).toBe('0123456789');
});

test('a large log becomes the older generation, and its writer goes on in the emptied file', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'a.log');
  writeFileSync(path, '', { mode: 0o600 });
  const writer = openSync(path, 'a');
  writeSync(writer, 'first generation\n');
  rotateLog(path, 10);
  writeSync(writer, 'second\n');
  closeSync(writer);
  expect(readFileSync(`${path}.1`, 'utf8')).toBe('first generation\n');
  expect(readFileSync(path, 'utf8')).toBe('second\n');
  expect(statSync(`${path}.1`).mode & 0o777).toBe(0o600);
});

test('a bounded log can be left alone', () => {
  using directory = makeTempDir();
  const stop = keepLogBounded(join(directory.path, 'a.log'));
  stop();
});

test('the tail is whole lines within the limit', () => {
  using directory = makeTempDir();
  const path = join(directory.path, 'a.log');
  expect(readTail(path, 100)).toBeNull();
  writeFileSync(path, '');
  expect(readTail(path, 100)).toBe('');
  appendFileSync(path, 'one\ntwo\nthree');
  expect(readTail(path, 100)).toBe('one\ntwo\nthree');
  expect(readTail(path, 8)).toBe('three');
  expect(readTail(path, 9)).toBe('two\nthree');
  expect(readTail(path, 12)).toBe('two\nthree');
});

import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { errnoOf, Failure } from '../../src/platform/failure.ts';

test('a failure carries its code, its cause and its fields', () => {
  const cause = new Error('below');
  const failure = new Failure('state_unwritable', 'cannot write', { cause, fields: { path: '/x' } });
  expect(failure).toBeInstanceOf(Error);
  expect(failure.code).toBe('state_unwritable');
  expect(failure.message).toBe('cannot write');
  expect(failure.cause).toBe(cause);
  expect(failure.fields).toEqual({ path: '/x' });
});

test('the errno is found at the error itself, in a failure and below it', () => {
  const missing = caught(() => readFileSync('/nowhere/at/all'));
  expect(errnoOf(missing)).toBe('ENOENT');
  expect(errnoOf(new Failure('internal', 'x', { cause: missing }))).toBe('ENOENT');
  expect(errnoOf(new Failure('internal', 'x', { fields: { errno: 'ENOSPC' }, cause: missing }))).toBe('ENOSPC');
});

test('what carries no errno has none', () => {
  expect(errnoOf(new Error('x'))).toBeNull();
  expect(errnoOf(Object.assign(new Error('x'), { code: 'ERR_INVALID_ARG' }))).toBe(null);
  expect(errnoOf('ENOENT')).toBeNull();
  expect(errnoOf(undefined)).toBeNull();
});

function caught(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

import { describe, expect, test } from 'bun:test';
import { mergedIncident, troubleKind, withFailure, withRecovery } from '../../src/client/incident-rules.ts';

const TROUBLE = { status: null, code: null, message: 'x' };

test.each([
  [null, 'unreachable'],
  [302, 'unreachable'],
  [400, 'refused'],
  [401, 'auth'],
  [403, 'auth'],
  [404, 'refused'],
  [408, 'unreachable'],
  [409, 'refused'],
  [426, 'refused'],
  [429, 'unreachable'],
  [500, 'unreachable'],
  [599, 'unreachable'],
])('a trouble of status %p is %s', (status, kind) => {
  expect(troubleKind({ ...TROUBLE, status })).toBe(kind as never);
});

describe('the incident of a command', () => {
  const early = withRecovery(withFailure(null, 'auth', TROUBLE, 1_000));
  const late = withFailure(withFailure(null, 'unreachable', TROUBLE, 3_000), 'unreachable', TROUBLE, 4_000);

  test('of two parks begins with the first, counts both, and stands as the latest does', () => {
    const merged = {
      reason: 'platform_unreachable',
      first_at: '1970-01-01T00:00:01.000Z',
      last_at: '1970-01-01T00:00:04.000Z',
      attempts: 3,
      recovered: false,
    };
    expect(mergedIncident(early, late)).toMatchObject(merged);
    expect(mergedIncident(late, early)).toMatchObject(merged);
  });

  test('is the only one there is', () => {
    expect(mergedIncident(null, early)).toBe(early);
    expect(mergedIncident(late, null)).toBe(late);
    expect(mergedIncident(null, null)).toBeNull();
    expect(withRecovery(null)).toBeNull();
  });
});

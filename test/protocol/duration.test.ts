import { describe, expect, test } from 'bun:test';
import { parseDurationMs, readDurationMs } from '../../src/protocol/duration.ts';

describe('a duration', () => {
  test.each([
    ['20', 20_000],
    [20, 20_000],
    ['20s', 20_000],
    ['250ms', 250],
    ['1.5m', 90_000],
    [0.5, 500],
    ['2h', 7_200_000],
  ])('%p is %p ms', (text, ms) => {
    expect(readDurationMs(text)).toBe(ms);
    expect(parseDurationMs(text)).toBe(ms);
  });

  test.each([
    '',
    '0',
    '0s',
    -1,
    '-5s',
    '5 s',
    '5d',
    's',
    '1e3',
    'Infinity',
    Number.NaN,
    Number.POSITIVE_INFINITY,
    '0.1ms',
    '9999999999h',
    null,
    true,
  ])('%p is refused', (value) => {
    expect(readDurationMs(value)).toBeNull();
    if (typeof value === 'string') expect(() => parseDurationMs(value)).toThrow('is not a duration');
  });
});

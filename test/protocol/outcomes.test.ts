import { describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { exitCodeOf, OUTCOMES, outcomeOf, SIGNAL_EXIT } from '../../src/protocol/outcomes.ts';

const CODES = Object.keys(OUTCOMES);
const STACK_EXITS = new Set([1, 2, 3, 4, 5, 6, 7, 8, 130]);
const WAIT_EXITS = new Set([2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 130]);
const OTHER_EXITS = new Set([2, 3, 4, 5, 6, 7, 8, 130]);

describe('every outcome', () => {
  for (const code of CODES) {
    const outcome = outcomeOf(code);
    test(`${code} has an error status and exit codes of each family`, () => {
      expect(outcome.status).toBeGreaterThanOrEqual(400);
      expect(outcome.status).toBeLessThan(600);
      expect(STACK_EXITS.has(outcome.exit.stack)).toBe(true);
      expect(WAIT_EXITS.has(outcome.exit.wait)).toBe(true);
      expect(OTHER_EXITS.has(outcome.exit.other)).toBe(true);
    });
  }

  test('that may be repeated is not an answer about arguments or rights', () => {
    const wrong = CODES.filter(
      (code) => outcomeOf(code).retryable && [400, 401, 403, 404].includes(outcomeOf(code).status),
    );
    expect(wrong).toEqual([]);
  });

  test('spells the program as botbuddy in its hints', () => {
    const wrong = CODES.filter((code) => /(^|[^a-z])bb /.test(outcomeOf(code).hint ?? ''));
    expect(wrong).toEqual([]);
  });
});

describe('the exit codes of the design', () => {
  const rows: readonly [string, number | null, number | null][] = [
    ['timeout', 2, 2],
    ['HARD_TTL', 2, null],
    ['unauthenticated', 3, 3],
    ['platform_auth_unavailable', 3, 3],
    ['invalid_arguments', 4, 4],
    ['invalid_condition', 4, 4],
    ['not_a_repository', 4, null],
    ['config_invalid', 4, null],
    ['stack_path_root_refused', 4, null],
    ['STACK_CONTEXT_ALREADY_BOUND', 5, null],
    ['STACK_CONTEXT_BIND_FAILED', 5, null],
    ['SLOT_HELD', 5, null],
    ['state_unwritable', 5, 5],
    ['LEASE_LOST', 6, 9],
    ['internal', 7, 7],
    ['cleanup_unproven', 8, null],
    ['lease_cleanup_failed', 8, 12],
    ['wait_abandoned', null, 11],
    ['interrupted', 130, 130],
    ['platform_unreachable', 2, 2],
  ];
  for (const [code, stack, wait] of rows) {
    test(`${code}: stack ${stack ?? 'any'}, wait ${wait ?? 'any'}`, () => {
      if (stack !== null) expect(exitCodeOf(code, 'stack')).toBe(stack);
      if (wait !== null) expect(exitCodeOf(code, 'wait')).toBe(wait);
    });
  }

  test('of signals are 128 and their number', () => {
    expect(SIGNAL_EXIT).toEqual({ SIGHUP: 129, SIGINT: 130, SIGTERM: 143 });
  });

  test('of a code that nobody knows is that of an internal error', () => {
    expect(outcomeOf('what_is_this')).toEqual(OUTCOMES.internal);
    expect(exitCodeOf('constructor', 'stack')).toBe(7);
  });
});

describe('the machines', () => {
  test('refuse only with codes of the table', () => {
    const core = join(import.meta.dir, '../../src/core');
    const refused = readdirSync(core).flatMap((file) =>
      [...readFileSync(join(core, file), 'utf8').matchAll(/refuse\(\s*'([A-Za-z_]+)'/g)].map((match) => match[1] ?? ''),
    );
    expect(refused.length).toBeGreaterThan(20);
    expect(refused.filter((code) => !CODES.includes(code))).toEqual([]);
  });
});

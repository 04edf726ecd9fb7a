import { describe, expect, test } from 'bun:test';
import { childExitCode, judgeEnd, outcomeRecord } from '../../src/flows/stack-run-ends.ts';
import type { CleanupState, RunEnd } from '../../src/flows/stack-run-model.ts';

const PROVEN: CleanupState = { kind: 'proven', proof: 'signed_reap', receipt_id: 'r' };
const UNPROVEN: CleanupState = { kind: 'unproven', code: 'cleanup_unproven', message: 'nobody looked' };

const park = (phase: 'queue' | 'provision', kind: 'timeout' | 'lost' | 'auth' | 'error'): RunEnd => ({
  by: 'park',
  phase,
  kind,
  code: kind,
  message: kind,
});
const child = (exitCode: number): RunEnd => ({ by: 'child', exit_code: exitCode, signal: null });
const signal = (name: string): RunEnd => ({ by: 'signal', signal: name });

describe('exit codes of a run', () => {
  const table: [string, RunEnd, proven: number, unproven: number][] = [
    ['SIGHUP', signal('SIGHUP'), 129, 129],
    ['SIGINT', signal('SIGINT'), 130, 130],
    ['SIGTERM', signal('SIGTERM'), 143, 143],
    ['queue: time-out', park('queue', 'timeout'), 2, 2],
    ['queue: lost', park('queue', 'lost'), 6, 6],
    ['queue: permanent error', park('queue', 'error'), 6, 6],
    ['queue: auth', park('queue', 'auth'), 3, 8],
    ['provision: auth', park('provision', 'auth'), 3, 8],
    ['provision: time-out', park('provision', 'timeout'), 2, 8],
    ['provision: lost', park('provision', 'lost'), 6, 8],
    ['provision: permanent error', park('provision', 'error'), 6, 8],
    ['fence', { by: 'fence', code: 'LEASE_LOST', message: 'lost' }, 6, 6],
    ['hard TTL', { by: 'hard_ttl' }, 2, 2],
    ['child 1', child(1), 1, 1],
    ['child 255', child(255), 255, 255],
    ['child killed by another', { by: 'child', exit_code: null, signal: 'SIGKILL' }, 137, 137],
    ['child 0', child(0), 0, 8],
  ];
  test.each(table)('%s', (_, end, proven, unproven) => {
    expect(judgeEnd(end, PROVEN, 'run').exitCode).toBe(proven);
    expect(judgeEnd(end, { kind: 'idle' }, 'run').exitCode).toBe(proven);
    expect(judgeEnd(end, { kind: 'not_needed' }, 'run').exitCode).toBe(proven);
    expect(judgeEnd(end, UNPROVEN, 'run').exitCode).toBe(unproven);
  });

  test('a permanent wait error is 5 in up', () => {
    expect(judgeEnd(park('queue', 'error'), { kind: 'not_needed' }, 'up').exitCode).toBe(5);
  });

  test('a provisioning time-out with unproven cleanup stays a time-out, with the error of the cleanup', () => {
    expect(judgeEnd(park('provision', 'timeout'), UNPROVEN, 'run')).toMatchObject({
      outcome: 'timeout',
      error: 'nobody looked',
    });
  });

  test('a lost stack with unproven cleanup keeps its own error', () => {
    expect(judgeEnd(park('provision', 'lost'), UNPROVEN, 'run')).toMatchObject({ outcome: 'error', error: 'lost' });
  });

  test('every exit code and signal of the child is its own', () => {
    for (let code = 0; code <= 255; code += 1) expect(childExitCode(code, null)).toBe(code);
    expect(childExitCode(null, 'SIGSEGV')).toBe(139);
  });
});

describe('who decided', () => {
  const decide = (end: RunEnd, cleanup: CleanupState = PROVEN, facts = { admitted: true, hadIncident: false }) =>
    outcomeRecord(end, judgeEnd(end, cleanup, 'run'), facts).category;

  test.each<[string, string, string]>([
    ['a signal', decide(signal('SIGTERM')), 'interrupted'],
    ['a fence', decide({ by: 'fence', code: 'LEASE_LOST', message: '' }), 'platform'],
    ['a passing script', decide(child(0)), 'script'],
    ['a failing script', decide(child(3)), 'script'],
    ['a passing script whose cleanup is unproven', decide(child(0), UNPROVEN), 'platform'],
    ['the hard TTL', decide({ by: 'hard_ttl' }), 'script'],
    ['a time-out after admission', decide(park('provision', 'timeout')), 'platform'],
    [
      'a time-out in the queue',
      decide(park('queue', 'timeout'), PROVEN, { admitted: false, hadIncident: false }),
      'capacity',
    ],
    [
      'a time-out in an incident',
      decide(park('queue', 'timeout'), PROVEN, { admitted: false, hadIncident: true }),
      'platform',
    ],
    ['a command that is not there', decide({ by: 'failure', code: 'command_not_found', message: '' }), 'usage'],
    ['a refusal', decide({ by: 'failure', code: 'SLOT_HELD', message: '' }), 'internal'],
  ])('%s', (_, decided, expected) => {
    expect(decided).toBe(expected);
  });
});

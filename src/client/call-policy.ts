/** What may be repeated, and when: by the outcome of the attempt and by what the tool does. */
import { outcomeOf } from '../protocol/outcomes.ts';
import type { ToolName } from '../protocol/tool-calls.ts';
import type { Attempt } from './calls.ts';

/**
 * `keyed` calls carry an idempotency key, which a repetition keeps; `level` ones mean the same however often they come;
 * `once` ones must not be repeated when it is unknown whether they arrived: their caller looks first.
 */
export const REPETITION: Readonly<Record<ToolName, 'keyed' | 'level' | 'once'>> = {
  request_stack_lease: 'keyed',
  get_stack_lease: 'level',
  list_stack_leases: 'level',
  touch_stack_lease: 'level',
  release_stack_lease: 'keyed',
  wait: 'keyed',
  get_wait: 'level',
  cancel_wait: 'keyed',
  list_hosts: 'level',
  get_host_ledger: 'level',
  report_outcome: 'keyed',
  coordinator_status: 'level',
  register_host: 'level',
  host_beacon: 'level',
  claim_job: 'once',
  renew_job: 'level',
  complete_job: 'once',
  fail_job: 'once',
  defer_job: 'once',
  report_stack_lost: 'level',
};

const PAUSE_MS_FIRST = 50;
const PAUSE_MS_MAX = 2_000;

export function mayRepeat(name: ToolName, attempt: Attempt): boolean {
  if (attempt.ok || attempt.final) return false;
  if (attempt.sent === 'answered') return attempt.trouble.code !== null && outcomeOf(attempt.trouble.code).retryable;
  return attempt.sent === 'no' || REPETITION[name] !== 'once';
}

/** In the upper half of a doubling range. */
export function pauseMsBefore(repetition: number, spread: number): number {
  const baseMs = Math.min(PAUSE_MS_FIRST * 2 ** (repetition - 1), PAUSE_MS_MAX);
  return baseMs * (0.5 + spread / 2);
}

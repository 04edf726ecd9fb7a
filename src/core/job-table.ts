/** What a Helper may do with a job in each state. Total; source: jobs are finished exactly once, by the holder. */
import type { JobKind, JobState } from './model.ts';

export type JobVerb = 'claim' | 'renew' | 'complete' | 'fail' | 'defer';
export type JobAnswer = 'allowed' | 'held_by_another' | 'not_claimed' | 'not_due' | 'wrong_kind';

export const JOB_ANSWER: Record<JobState, Record<JobVerb, JobAnswer>> = {
  open: {
    claim: 'allowed',
    renew: 'not_claimed',
    complete: 'not_claimed',
    fail: 'not_claimed',
    defer: 'not_claimed',
  },
  claimed: {
    claim: 'held_by_another',
    renew: 'allowed',
    complete: 'allowed',
    fail: 'allowed',
    defer: 'allowed',
  },
  waiting: {
    claim: 'not_due',
    renew: 'not_claimed',
    complete: 'not_claimed',
    fail: 'not_claimed',
    defer: 'not_claimed',
  },
};

export const DEFERRABLE: Record<JobKind, boolean> = {
  provision_stack: true,
  readopt_stack: true,
  reap_stack: false,
};

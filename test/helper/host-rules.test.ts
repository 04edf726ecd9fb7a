import { describe, expect, test } from 'bun:test';
import {
  isTakenBack,
  type JobStep,
  judgeAbsence,
  judgeCallFailure,
  judgeJob,
  judgeStack,
  judgeStatementFile,
  judgeStrayClaim,
  judgeSupervisor,
  type OwnWorkFacts,
  retryDelayMs,
  type StackWatch,
  type SupervisorStep,
} from '../../src/helper/host-rules.ts';
import type { Job, JobKind, LeaseState } from '../../src/protocol/records.ts';

const job = (over: Partial<Job> = {}): Job => ({
  job_id: 'L.1',
  kind: 'provision_stack',
  lease_id: 'L',
  host_id: 'H',
  state: 'open',
  job_token: null,
  claimed_by: null,
  claimed_at: null,
  attempts: 0,
  not_before: null,
  opened_at: 0,
  ...over,
});
const claimed = (by: string, token = 5) => job({ state: 'claimed', job_token: token, claimed_by: by });
const own = (over: Partial<OwnWorkFacts> = {}): OwnWorkFacts => ({
  job_id: 'L.1',
  job_token: 5,
  reporting: false,
  ...over,
});

describe('a job that a beacon lists', () => {
  const cases: [string, Job, OwnWorkFacts | null, JobStep][] = [
    ['open', job(), null, 'take'],
    ['open, claim on its way', job(), own({ job_token: null }), 'go_on'],
    ['open, report on its way', job(), own({ reporting: true }), 'go_on'],
    ['open again while worked on', job(), own(), 'drop_and_take'],
    ['claimed by this life, answer lost', claimed('me'), null, 'resume'],
    ['claimed by this life, in hand', claimed('me'), own(), 'go_on'],
    ['claimed by this life, in hand under an older token', claimed('me', 6), own(), 'drop_and_take'],
    ['claimed by another life', claimed('other'), null, 'leave'],
    ['waiting for its next try', job({ state: 'waiting', not_before: 1 }), null, 'leave'],
  ];
  test.each(cases)('%s', (_name, listed, mine, step) => {
    expect(judgeJob(listed, mine, 'me', false)).toBe(step);
  });

  const kinds: Record<JobKind, JobStep> = { provision_stack: 'leave', readopt_stack: 'leave', reap_stack: 'take' };
  test.each(Object.entries(kinds))('a draining Helper and an open %s: %s', (kind, step) => {
    expect(judgeJob(job({ kind: kind as JobKind }), null, 'me', true)).toBe(step);
  });

  test('work whose job is not listed was taken back, unless its claim or report is on the way', () => {
    expect(isTakenBack(own(), [])).toBe(true);
    expect(isTakenBack(own(), [job()])).toBe(false);
    expect(isTakenBack(own({ reporting: true }), [])).toBe(false);
    expect(isTakenBack(own({ job_token: null }), [])).toBe(false);
  });
});

describe('a supervisor at a beacon', () => {
  const lease = (state: LeaseState) => ({ lease_id: 'L', state, fencing_token: 9, created_fencing_token: 4 });
  const states: Record<LeaseState, SupervisorStep> = {
    queued: 'leave_to_job',
    provisioning: 'renew',
    active: 'renew',
    idle: 'renew',
    reaping: 'leave_to_job',
    reap_failed: 'leave_to_job',
    reaped: 'leave_to_job',
  };
  test.each(Object.entries(states))('of its own grant, lease %s: %s', (state, step) => {
    for (const fencing_token of [9, 6, 4]) {
      const supervisor = { lease_id: 'L', fencing_token, owned: true };
      expect(judgeSupervisor(supervisor, [lease(state as LeaseState)])).toBe(step);
    }
  });

  test('of another grant of a known lease is never renewed and never ended here', () => {
    for (const fencing_token of [3, 10]) {
      for (const state of Object.keys(states)) {
        const supervisor = { lease_id: 'L', fencing_token, owned: true };
        expect(judgeSupervisor(supervisor, [lease(state as LeaseState)])).toBe('keep_and_say');
      }
    }
  });

  test('of a lease that nobody knows is ended only when it is provably ours', () => {
    expect(judgeSupervisor({ lease_id: 'K', fencing_token: 1, owned: true }, [lease('active')])).toBe('end');
    expect(judgeSupervisor({ lease_id: 'K', fencing_token: 1, owned: false }, [lease('active')])).toBe('keep_and_say');
  });
});

describe('a stack whose supervisor lives or is gone', () => {
  const table: Record<LeaseState, [alive: StackWatch, gone: StackWatch]> = {
    queued: ['nothing', 'nothing'],
    provisioning: ['watch', 'nothing'],
    active: ['watch', 'report_lost'],
    idle: ['watch', 'report_lost'],
    reaping: ['nothing', 'nothing'],
    reap_failed: ['nothing', 'nothing'],
    reaped: ['nothing', 'nothing'],
  };
  test.each(Object.entries(table))('%s', (state, expected) => {
    expect([judgeStack(state as LeaseState, 'alive', false), judgeStack(state as LeaseState, 'gone', false)]).toEqual(
      expected,
    );
  });

  test('is not reported while a job of the lease is in hand', () => {
    expect(judgeStack('active', 'gone', true)).toBe('nothing');
  });
});

describe('a signed statement on the disk', () => {
  const pending = { state: 'pending', frees_claim: true } as const;
  const accepted = { ...pending, state: 'accepted' } as const;

  test('stays while its lease is alive or nobody answers', () => {
    expect(judgeStatementFile(pending, 'live', 'dead')).toBe('keep');
    expect(judgeStatementFile(pending, 'no_answer', 'dead')).toBe('keep');
  });

  test('whose acceptance was never heard of counts as accepted when the lease is proven gone', () => {
    expect(judgeStatementFile(pending, 'proven_gone', 'dead')).toBe('accept');
    expect(judgeStatementFile(pending, 'gone', 'dead')).toBe('archive');
  });

  test('frees the claim of a dead owner, and leaves that of a living one alone', () => {
    expect(judgeStatementFile(accepted, 'proven_gone', 'dead')).toBe('release_claim');
    expect(judgeStatementFile(accepted, 'proven_gone', 'alive')).toBe('keep');
    expect(judgeStatementFile(accepted, 'proven_gone', 'no_claim')).toBe('archive');
    expect(judgeStatementFile({ ...accepted, frees_claim: false }, 'live', 'dead')).toBe('archive');
  });
});

test('the end of an unlisted lease is asked for only when nobody is left to release its claim', () => {
  expect(judgeStrayClaim('dead', false)).toBe('ask');
  expect(judgeStrayClaim('dead', true)).toBe('leave');
  expect(judgeStrayClaim('alive', false)).toBe('leave');
  expect(judgeStrayClaim('no_claim', false)).toBe('leave');
});

describe('a call that was refused', () => {
  test('says that the job is lost only by a code that means so', () => {
    expect(judgeCallFailure('JOB_CLAIM_LOST')).toBe('lost');
    expect(judgeCallFailure('OLD_GENERATION')).toBe('lost');
    expect(judgeCallFailure('HOST_NOT_FOUND')).toBe('register');
    expect(judgeCallFailure('HELPER_SUPERSEDED')).toBe('register');
    for (const code of ['platform_unreachable', 'log_unavailable', 'state_unwritable', 'unauthenticated', 'internal']) {
      expect(judgeCallFailure(code)).toBe('retry');
    }
  });

  test('is tried again after pauses that grow to a bound', () => {
    expect([1, 2, 3].map(retryDelayMs)).toEqual([250, 500, 1000]);
    expect(retryDelayMs(50)).toBe(5_000);
  });
});

describe('a Helper without a coordinator', () => {
  const gone = {
    coordinator: 'gone',
    embedded: true,
    known_leases: 0,
    gone_for_ms: 0,
    idle_exit_ms: 900_000,
  } as const;

  test('goes to the next one as soon as there is one', () => {
    expect(judgeAbsence({ ...gone, coordinator: 'alive' })).toBe('attach');
  });

  test('starts one while it knows of a lease', () => {
    expect(judgeAbsence({ ...gone, known_leases: 1 })).toBe('start_one');
  });

  test('waits without a lease, and not for ever', () => {
    expect(judgeAbsence(gone)).toBe('wait');
    expect(judgeAbsence({ ...gone, gone_for_ms: 900_000 })).toBe('end');
  });

  test('of a shared coordinator only waits', () => {
    expect(judgeAbsence({ ...gone, embedded: false, known_leases: 1 })).toBe('wait');
  });
});

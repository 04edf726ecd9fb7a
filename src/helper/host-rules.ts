/**
 * What a Helper does beside its jobs, decided at each beacon's answer: which jobs it takes up, drops or resumes, which
 * supervisors it renews or ends, which stacks it reports lost, which claims it releases, and what a refused call means.
 * Pure. The answer lists all that is alive, so nothing here remembers anything between beacons.
 */
import type { Job, JobKind, LeaseState } from '../protocol/records.ts';

/** One piece of work that this Helper has in hand. */
export interface OwnWorkFacts {
  job_id: string;
  job_token: number | null;
  /** Its result is on the way to the coordinator: only the answer to that counts now. */
  reporting: boolean;
}

export type JobStep = 'take' | 'resume' | 'go_on' | 'drop_and_take' | 'leave';

const HELD_BY: Record<Job['state'], 'nobody' | 'claimant'> = { open: 'nobody', claimed: 'claimant', waiting: 'nobody' };

/** A reap is taken even while draining: nothing may stay behind that a Helper could have proven gone. */
const TAKEN_WHILE_DRAINING: Record<JobKind, boolean> = {
  provision_stack: false,
  readopt_stack: false,
  reap_stack: true,
};

export function judgeJob(job: Job, own: OwnWorkFacts | null, incarnation: string, draining: boolean): JobStep {
  if (job.state === 'waiting') return 'leave';
  const mayTake = !draining || TAKEN_WHILE_DRAINING[job.kind];
  if (HELD_BY[job.state] === 'nobody') {
    if (own === null) return mayTake ? 'take' : 'leave';
    // Work that waits for the answer to its claim has no token yet; one that has a token lost it.
    return own.job_token === null || own.reporting ? 'go_on' : 'drop_and_take';
  }
  if (job.claimed_by !== incarnation) return own === null ? 'leave' : 'go_on';
  if (own === null) return mayTake ? 'resume' : 'leave';
  return own.job_token === null || own.job_token === job.job_token ? 'go_on' : 'drop_and_take';
}

/** Work whose job the answer does not list was taken back, unless the answer to its own report is still due. */
export function isTakenBack(own: OwnWorkFacts, jobs: readonly Job[]): boolean {
  return own.job_token !== null && !own.reporting && !jobs.some((job) => job.job_id === own.job_id);
}

export interface GrantTokens {
  lease_id: string;
  state: LeaseState;
  fencing_token: number | null;
  created_fencing_token: number | null;
}

/** A supervisor as it was seen *before* the beacon was sent; seen later it proves nothing about the answer. */
export interface SupervisorFacts {
  lease_id: string;
  fencing_token: number;
  /** This home's own record, the living process and its answer name the same lease, grant and process. */
  owned: boolean;
}

export type SupervisorStep = 'renew' | 'leave_to_job' | 'keep_and_say' | 'end';

const RENEWED_IN: Record<LeaseState, SupervisorStep> = {
  queued: 'leave_to_job',
  provisioning: 'renew',
  active: 'renew',
  idle: 'renew',
  reaping: 'leave_to_job',
  reap_failed: 'leave_to_job',
  reaped: 'leave_to_job',
};

export function judgeSupervisor(supervisor: SupervisorFacts, leases: readonly GrantTokens[]): SupervisorStep {
  const lease = leases.find((known) => known.lease_id === supervisor.lease_id);
  if (lease === undefined) return supervisor.owned ? 'end' : 'keep_and_say';
  const { fencing_token: last, created_fencing_token: created } = lease;
  const token = supervisor.fencing_token;
  // Every grant since the one that created the stack may have been the last to act on it.
  const own = last !== null && token <= last && token >= (created ?? last);
  return own ? RENEWED_IN[lease.state] : 'keep_and_say';
}

export type StackWatch = 'watch' | 'report_lost' | 'nothing';

const WATCHED_IN: Record<LeaseState, Record<'alive' | 'gone', StackWatch>> = {
  queued: { alive: 'nothing', gone: 'nothing' },
  provisioning: { alive: 'watch', gone: 'nothing' },
  active: { alive: 'watch', gone: 'report_lost' },
  idle: { alive: 'watch', gone: 'report_lost' },
  reaping: { alive: 'nothing', gone: 'nothing' },
  reap_failed: { alive: 'nothing', gone: 'nothing' },
  reaped: { alive: 'nothing', gone: 'nothing' },
};

/** What a lease's supervisor, alive or gone, asks for; while a job of the lease is in hand, the job sees to it. */
export function judgeStack(state: LeaseState, supervisor: 'alive' | 'gone', inHand: boolean): StackWatch {
  const watch = WATCHED_IN[state][supervisor];
  return watch === 'report_lost' && inHand ? 'nothing' : watch;
}

export type StatementState = 'pending' | 'accepted';
export type StatementStep = 'keep' | 'accept' | 'archive' | 'release_claim';

/** What the coordinator says of the lease that a kept statement is about; `gone` when it knows of none. */
export type StatementLease = 'live' | 'proven_gone' | 'gone' | 'no_answer';

const PENDING: Record<StatementLease, StatementStep> = {
  live: 'keep',
  no_answer: 'keep',
  // The answer to the report was lost, or a later look proved the same.
  proven_gone: 'accept',
  gone: 'archive',
};

/**
 * A statement stays until the coordinator took it; then the claim of a dead owner goes, and only then the statement.
 * A living owner releases its own claim.
 */
export function judgeStatementFile(
  statement: { state: StatementState; frees_claim: boolean },
  lease: StatementLease,
  owner: 'alive' | 'dead' | 'no_claim',
): StatementStep {
  if (statement.state === 'pending') return PENDING[lease];
  if (!statement.frees_claim || owner === 'no_claim') return 'archive';
  return owner === 'dead' ? 'release_claim' : 'keep';
}

/** A claim bound to a lease that the coordinator does not list: its end may be asked for, once nobody uses it. */
export function judgeStrayClaim(owner: 'alive' | 'dead' | 'no_claim', leaseListed: boolean): 'ask' | 'leave' {
  return owner === 'dead' && !leaseListed ? 'ask' : 'leave';
}

export type CallVerdict = 'retry' | 'lost' | 'register' | 'give_up';

const CALL_VERDICTS: Readonly<Record<string, CallVerdict>> = {
  JOB_CLAIM_LOST: 'lost',
  JOB_NOT_OPEN: 'lost',
  JOB_NOT_YOURS: 'lost',
  LEASE_NOT_FOUND: 'lost',
  OLD_GENERATION: 'lost',
  HOST_NOT_FOUND: 'register',
  HELPER_SUPERSEDED: 'register',
  HOST_KEY_MISMATCH: 'give_up',
  JOB_NOT_DEFERRABLE: 'give_up',
  CONNECTION_MISSING: 'give_up',
  invalid_arguments: 'give_up',
  version_mismatch: 'give_up',
};

/** A refusal that is not named here says nothing about the job: a blip, tried again. */
export function judgeCallFailure(code: string): CallVerdict {
  return Object.hasOwn(CALL_VERDICTS, code) ? (CALL_VERDICTS[code] ?? 'retry') : 'retry';
}

const RETRY_MS_MIN = 250;
const RETRY_MS_MAX = 5_000;

/** Pause before the given retry (1 is the first), without jitter. */
export function retryDelayMs(retry: number): number {
  return Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(retry - 1, 10));
}

/** How often a job's claim is renewed: a third of the time after which it lapses. */
export const JOB_RENEW_MS = 15_000;

export type CoordinatorStep = 'attach' | 'start_one' | 'wait' | 'end';

/** What a Helper does about its coordinator. A farewell never comes here: it ends the Helper at once. */
export function judgeAbsence(facts: {
  coordinator: 'alive' | 'gone';
  embedded: boolean;
  known_leases: number;
  gone_for_ms: number;
  idle_exit_ms: number;
}): CoordinatorStep {
  if (facts.coordinator === 'alive') return 'attach';
  if (!facts.embedded) return 'wait';
  if (facts.known_leases > 0) return 'start_one';
  return facts.gone_for_ms >= facts.idle_exit_ms ? 'end' : 'wait';
}

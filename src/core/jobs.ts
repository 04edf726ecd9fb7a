/** A Helper's work: claimed with a token that grows with each claim, finished exactly once by the holder of the last. */
import { must } from './assertion.ts';
import { type Draft, refuse } from './draft.ts';
import { currentHost } from './hosts.ts';
import type { Input, Replies } from './inputs.ts';
import { DEFERRABLE, JOB_ANSWER, type JobVerb } from './job-table.ts';
import type { Job, Lease } from './model.ts';
import { judgeStatement } from './proof.ts';
import { beginReaping, closeJob, finishReaped, reapTryFailed } from './reaping.ts';

type InputOf<T extends Input['type']> = Extract<Input, { type: T }>;

function findJob(draft: Draft, jobId: string): Job {
  return (
    draft.state.jobs.get(jobId) ??
    refuse('JOB_CLAIM_LOST', `job ${jobId} is finished or was taken back`, { job_id: jobId })
  );
}

/** The job, for the holder of its last claim only: every older token is refused. */
function heldJob(draft: Draft, jobId: string, jobToken: number, verb: JobVerb): { job: Job; lease: Lease } {
  const job = findJob(draft, jobId);
  if (JOB_ANSWER[job.state][verb] !== 'allowed' || job.job_token !== jobToken) {
    refuse('JOB_CLAIM_LOST', `the claim on job ${jobId} was lost`, { job_id: jobId, job_token: job.job_token });
  }
  return { job, lease: must(draft.state.leases.get(job.lease_id), `lease of job ${jobId}`) };
}

export function claimJob(draft: Draft, input: InputOf<'claim_job'>): Replies['claim_job'] {
  const host = currentHost(draft, input.host_id, input.incarnation);
  const job = findJob(draft, input.job_id);
  if (job.host_id !== host.host_id) refuse('JOB_NOT_YOURS', `job ${job.job_id} belongs to another host`);
  const answer = JOB_ANSWER[job.state].claim;
  if (answer !== 'allowed') refuse('JOB_NOT_OPEN', `job ${job.job_id} is ${job.state}`, { reason: answer });
  draft.emit({
    type: 'job_claimed',
    job_id: job.job_id,
    incarnation: input.incarnation,
    job_token: draft.state.next_token,
  });
  return { job, lease: must(draft.state.leases.get(job.lease_id), `lease of job ${job.job_id}`) };
}

export function renewJob(draft: Draft, input: InputOf<'renew_job'>): Replies['renew_job'] {
  return { job: heldJob(draft, input.job_id, input.job_token, 'renew').job };
}

export function completeJob(draft: Draft, input: InputOf<'complete_job'>): Replies['complete_job'] {
  const { job, lease } = heldJob(draft, input.job_id, input.job_token, 'complete');
  if (job.kind === 'reap_stack') {
    const verdict = judgeStatement(lease, job, input.statement);
    if (verdict === 'proven') {
      closeJob(draft, lease, 'completed');
      const proof = input.statement?.kind === 'pre_driver' ? 'pre_driver_absence' : 'signed_reap';
      finishReaped(draft, lease, proof, input.statement?.receipt_id ?? null);
    } else {
      reapTryFailed(draft, lease, `cleanup is not proven: ${verdict}`, `cleanup_${verdict}`);
    }
    return { lease };
  }
  const connection = input.connection ?? refuse('CONNECTION_MISSING', 'a provisioned stack has a connection');
  closeJob(draft, lease, 'completed');
  draft.emit({
    type: 'lease_activated',
    lease_id: lease.lease_id,
    connection,
    reprovisioned: job.kind === 'readopt_stack' ? input.reprovisioned : null,
  });
  return { lease };
}

export function failJob(draft: Draft, input: InputOf<'fail_job'>): Replies['fail_job'] {
  const { job, lease } = heldJob(draft, input.job_id, input.job_token, 'fail');
  if (job.kind === 'reap_stack') {
    reapTryFailed(draft, lease, input.error, input.error_class);
    return { lease };
  }
  const verdict = judgeStatement(lease, job, input.statement);
  beginReaping(draft, lease, {
    reason: 'provision_failed',
    disposition: 'destroy',
    error: input.error,
    errorClass: input.error_class,
  });
  if (verdict === 'proven') {
    closeJob(draft, lease, 'cancelled');
    const proof = input.statement?.kind === 'pre_driver' ? 'pre_driver_absence' : 'signed_reap';
    finishReaped(draft, lease, proof, input.statement?.receipt_id ?? null);
  }
  return { lease };
}

export function deferJob(draft: Draft, input: InputOf<'defer_job'>): Replies['defer_job'] {
  const { job, lease } = heldJob(draft, input.job_id, input.job_token, 'defer');
  if (!DEFERRABLE[job.kind]) refuse('JOB_NOT_DEFERRABLE', `a ${job.kind} job cannot be deferred`);
  const verdict = judgeStatement(lease, job, input.statement);
  if (verdict === 'proven') {
    closeJob(draft, lease, 'deferred');
    draft.emit({
      type: 'lease_deferred',
      lease_id: lease.lease_id,
      reason: input.reason,
      receipt_id: must(input.statement, 'statement').receipt_id,
    });
  } else {
    beginReaping(draft, lease, {
      reason: 'provision_failed',
      disposition: 'destroy',
      error: `deferred (${input.reason}), but the roll-back is not proven: ${verdict}`,
      errorClass: 'rollback_unproven',
    });
  }
  return { lease };
}

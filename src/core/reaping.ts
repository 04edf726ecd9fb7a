/**
 * The way out of a lease. Units, slot and ports stay taken until one of the proofs is there; the only reap without a
 * Helper's look is that of a lease which no Helper ever touched, or whose roll-back a Helper has proven.
 * Read next: `proof.ts`.
 */
import { must } from './assertion.ts';
import { BOUNDS } from './bounds.ts';
import type { Draft } from './draft.ts';
import type { CleanupProof, Disposition, Job, JobKind, Lease, ReapReason } from './model.ts';

export interface ReapCause {
  reason: ReapReason;
  disposition: Disposition;
  error?: string;
  errorClass?: string;
}

export function openJob(draft: Draft, lease: Lease, kind: JobKind): void {
  const job: Job = {
    job_id: `${lease.lease_id}.${lease.jobs_opened + 1}`,
    kind,
    lease_id: lease.lease_id,
    host_id: lease.host_id,
    state: 'open',
    job_token: null,
    claimed_by: null,
    claimed_at: null,
    attempts: 0,
    not_before: null,
    opened_at: draft.now,
  };
  draft.emit({ type: 'job_opened', job });
}

export function closeJob(draft: Draft, lease: Lease, outcome: 'completed' | 'failed' | 'deferred' | 'cancelled'): void {
  const jobId = draft.state.index.jobByLease.get(lease.lease_id);
  if (jobId !== undefined) draft.emit({ type: 'job_closed', job_id: jobId, outcome });
}

/** Absence that is known without a Helper's look; null when a Helper has to look. */
export function proofWithoutLook(lease: Lease): { proof: CleanupProof; receiptId: string | null } | null {
  if (!lease.ever_claimed) return { proof: 'never_provisioned', receiptId: null };
  if (lease.state === 'queued' && lease.rollback_receipt_id !== null) {
    return { proof: 'signed_reap', receiptId: lease.rollback_receipt_id };
  }
  return null;
}

export function beginReaping(draft: Draft, lease: Lease, cause: ReapCause): void {
  const known = proofWithoutLook(lease);
  closeJob(draft, lease, 'cancelled');
  draft.emit({
    type: 'lease_reaping',
    lease_id: lease.lease_id,
    reap_reason: cause.reason,
    disposition: cause.disposition,
    deadline_at: draft.now + BOUNDS.reapDeadlineMs,
    error: cause.error ?? null,
    error_class: cause.errorClass ?? null,
  });
  if (known === null) openJob(draft, lease, 'reap_stack');
  else finishReaped(draft, lease, known.proof, known.receiptId);
}

export function finishReaped(draft: Draft, lease: Lease, proof: CleanupProof, receiptId: string | null): void {
  draft.emit({
    type: 'lease_reaped',
    lease_id: lease.lease_id,
    cleanup_proof: proof,
    cleanup_receipt_id: receiptId,
  });
}

/** One try of the reap came back without a proof: again later, or fenced when the budget is used up. */
export function reapTryFailed(draft: Draft, lease: Lease, error: string, errorClass: string): void {
  const jobId = must(draft.state.index.jobByLease.get(lease.lease_id), 'reap job');
  const job = must(draft.state.jobs.get(jobId), 'reap job');
  const attempts = job.attempts + 1;
  if (attempts < BOUNDS.reapAttemptsMax) {
    const notBefore = draft.now + BOUNDS.reapBackoffMs * attempts;
    draft.emit({ type: 'job_retry_later', job_id: jobId, attempts, not_before: notBefore, error });
    return;
  }
  giveUpReap(draft, lease, error, errorClass);
}

export function giveUpReap(draft: Draft, lease: Lease, error: string, errorClass: string): void {
  closeJob(draft, lease, 'failed');
  draft.emit({ type: 'lease_reap_failed', lease_id: lease.lease_id, error, error_class: errorClass });
}

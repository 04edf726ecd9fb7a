/**
 * When each object has to be looked at again, and why. The heap holds a time no later than the true deadline; a
 * deadline that hangs on a last-seen time is computed again when it comes due, so renewals never touch the heap.
 */
import { BOUNDS } from './bounds.ts';
import type { DeadlineKind } from './deadline-heap.ts';
import type { Liveness } from './inputs.ts';
import type { Job, Lease, ReapReason, State, Wait } from './model.ts';

export type LeaseDeadlineReason = { action: 'reap'; reap_reason: ReapReason } | { action: 'give_up_reap' };

export interface Deadline<Reason> {
  at: number;
  reason: Reason;
  /** Waits for the grace period after a downtime, jump or suspend; a timer does not. */
  graced: boolean;
}

type LastSeen = (kind: DeadlineKind, id: string) => number;

function earliest<R>(deadlines: (Deadline<R> | null)[]): Deadline<R> | null {
  let first: Deadline<R> | null = null;
  for (const deadline of deadlines) {
    if (deadline !== null && (first === null || deadline.at < first.at)) first = deadline;
  }
  return first;
}

const reapAt = (at: number, reason: ReapReason): Deadline<LeaseDeadlineReason> => ({
  at,
  reason: { action: 'reap', reap_reason: reason },
  graced: true,
});

function heldDeadline(lease: Lease, lastSeen: LastSeen): Deadline<LeaseDeadlineReason> {
  const seenAt = Math.max(lease.since, lastSeen('lease', lease.lease_id));
  return lease.mode === 'attached'
    ? reapAt(seenAt + lease.ttl_ms, 'heartbeat_lost')
    : reapAt(seenAt + lease.idle_ttl_ms, 'idle_ttl');
}

/** Nobody stays with a detached lease: one that no Helper ever finishes must not hold its units for good. */
function unprovisionedDeadline(lease: Lease, lastSeen: LastSeen): Deadline<LeaseDeadlineReason> {
  const seenAt = Math.max(lease.since, lastSeen('lease', lease.lease_id));
  return reapAt(seenAt + Math.max(lease.idle_ttl_ms, BOUNDS.detachedProvisionMs), 'host_lost');
}

/** The deadline of a lease in its present state; null where only an input can move it. */
export function leaseDeadline(lease: Lease, lastSeen: LastSeen): Deadline<LeaseDeadlineReason> | null {
  switch (lease.state) {
    case 'queued':
      return earliest([
        lease.mode === 'attached' ? heldDeadline(lease, lastSeen) : null,
        lease.queue_deadline_at === null ? null : reapAt(lease.queue_deadline_at, 'queue_deadline'),
      ]);
    case 'provisioning':
      return lease.mode === 'attached' ? heldDeadline(lease, lastSeen) : unprovisionedDeadline(lease, lastSeen);
    case 'active':
      return earliest([
        heldDeadline(lease, lastSeen),
        lease.hard_ttl_ms === null || lease.active_at === null
          ? null
          : reapAt(lease.active_at + lease.hard_ttl_ms + lease.ttl_ms, 'hard_ttl'),
      ]);
    case 'idle':
      return reapAt((lease.idle_since ?? lease.since) + lease.idle_ttl_ms, 'idle_ttl');
    case 'reaping':
      return lease.reap_deadline_at === null
        ? null
        : { at: lease.reap_deadline_at, reason: { action: 'give_up_reap' }, graced: true };
    case 'reap_failed':
    case 'reaped':
      return null;
  }
}

export type JobDeadlineReason = 'claim_lapsed' | 'retry';

export function jobDeadline(job: Job, lastSeen: LastSeen): Deadline<JobDeadlineReason> | null {
  switch (job.state) {
    case 'open':
      return null;
    case 'claimed': {
      const seenAt = Math.max(job.claimed_at ?? 0, lastSeen('job', job.job_id));
      return { at: seenAt + BOUNDS.jobClaimTtlMs, reason: 'claim_lapsed', graced: true };
    }
    case 'waiting':
      return job.not_before === null ? null : { at: job.not_before, reason: 'retry', graced: false };
  }
}

export type WaitDeadlineReason = 'timer' | 'deadline' | 'abandoned';

export function waitDeadline(wait: Wait, lastSeen: LastSeen): Deadline<WaitDeadlineReason> | null {
  const open = wait.conditions
    .map((condition, index) => ({ condition, index }))
    .filter(({ index }) => !wait.matched.some((match) => match.condition === index));
  const timers = open.map(({ condition }): Deadline<WaitDeadlineReason> | null =>
    condition.type === 'timer' ? { at: condition.at, reason: 'timer', graced: false } : null,
  );
  const seenAt = Math.max(wait.registered_at, lastSeen('wait', wait.wait_session_id));
  return earliest<WaitDeadlineReason>([
    ...timers,
    { at: wait.deadline_at, reason: 'deadline', graced: true },
    { at: seenAt + BOUNDS.waitAbandonedAfterMs, reason: 'abandoned', graced: true },
  ]);
}

const unseen: LastSeen = () => 0;

export function scheduleLease(state: State, lease: Lease): void {
  const deadline = leaseDeadline(lease, unseen);
  if (deadline !== null) state.index.deadlines.schedule('lease', lease.lease_id, deadline.at);
}

export function scheduleJob(state: State, job: Job): void {
  const deadline = jobDeadline(job, unseen);
  if (deadline !== null) state.index.deadlines.schedule('job', job.job_id, deadline.at);
}

export function scheduleWait(state: State, wait: Wait): void {
  const deadline = waitDeadline(wait, unseen);
  if (deadline !== null) state.index.deadlines.schedule('wait', wait.wait_session_id, deadline.at);
}

/** When `tick` has something to look at next, and what; null when nothing is alive. */
export function nextDeadline(state: State): { at: number; reason: string } | null {
  const top = state.index.deadlines.peek();
  return top === null ? null : { at: top.at, reason: `${top.kind} ${top.id}` };
}

export const lastSeenOf =
  (liveness: Liveness): LastSeen =>
  (kind, id) =>
    liveness.lastSeenAt(kind, id);

/**
 * The fold: the only code that changes state, so that a replay of the log gives what the live process had.
 * It decides nothing and never refuses; an event that contradicts the state is an assertion.
 */
import { AssertionFailure, assert, must } from './assertion.ts';
import { scheduleJob, scheduleLease, scheduleWait } from './deadlines.ts';
import type { Event, SequencedEvent } from './events.ts';
import { LEASE_MOVES, type LeaseMove } from './lease-table.ts';
import type { Job, Lease, State } from './model.ts';
import { indexWait, unindexWait } from './state.ts';

export function apply(state: State, { seq, at, event }: SequencedEvent): void {
  assert(seq === state.seq + 1, `event ${seq} follows ${state.seq}`);
  assert(at >= state.at, `event ${seq} goes back in time`);
  fold(state, at, seq, event);
  state.seq = seq;
  state.at = at;
}

function fold(state: State, at: number, seq: number, event: Event): void {
  switch (event.type) {
    case 'host_registered':
      state.hosts.set(event.host.host_id, structuredClone(event.host));
      return;
    case 'host_beaconed': {
      const host = must(state.hosts.get(event.host_id), `host ${event.host_id}`);
      host.capacity_units = event.capacity_units;
      host.ready = true;
      return;
    }
    case 'lease_requested': {
      const lease = structuredClone(event.lease);
      assert(!state.leases.has(lease.lease_id), `lease ${lease.lease_id} is new`);
      assert(!state.index.leaseBySlot.has(lease.slot), `slot ${lease.slot} has no other live lease`);
      lease.arrival_seq = seq;
      state.leases.set(lease.lease_id, lease);
      state.index.leaseBySlot.set(lease.slot, lease.lease_id);
      scheduleLease(state, lease);
      return;
    }
    case 'job_opened':
    case 'job_claimed':
    case 'job_reopened':
    case 'job_retry_later':
    case 'job_closed':
      foldJob(state, at, event);
      return;
    case 'wait_registered':
    case 'wait_matched':
    case 'wait_ended':
      foldWait(state, seq, event);
      return;
    default:
      foldLease(state, at, seq, event);
  }
}

type LeaseEvent = Extract<Event, { type: `lease_${string}` }>;
type LeaseOf<T extends LeaseEvent['type']> = Extract<LeaseEvent, { type: T }>;

function move(lease: Lease, by: LeaseMove, at: number): void {
  const next = LEASE_MOVES[lease.state][by];
  if (next === 'impossible') throw new AssertionFailure(`lease ${lease.lease_id}: ${by} in ${lease.state}`);
  lease.state = next;
  lease.since = at;
}

function takeToken(state: State, token: number): void {
  assert(token === state.next_token, `token ${token} is the next one, ${state.next_token}`);
  state.next_token = token + 1;
}

type LeaseMoved = Exclude<LeaseEvent, { type: 'lease_requested' }>;

function foldLease(state: State, at: number, seq: number, event: LeaseMoved): void {
  const lease = must(state.leases.get(event.lease_id), `lease ${event.lease_id}`);
  switch (event.type) {
    case 'lease_granted':
      move(lease, 'grant', at);
      takeToken(state, event.fencing_token);
      lease.fencing_token = event.fencing_token;
      lease.created_fencing_token = event.fencing_token;
      lease.placement_reason = event.placement_reason;
      lease.provision_defer_reason = null;
      lease.rollback_receipt_id = null;
      break;
    case 'lease_readopting':
      move(lease, 'readopt', at);
      takeToken(state, event.fencing_token);
      foldReadopting(lease, at, seq, event);
      break;
    case 'lease_activated':
      move(lease, 'activate', at);
      lease.connection = event.connection;
      lease.active_at = at;
      lease.reprovisioned = event.reprovisioned;
      if (event.reprovisioned !== null) lease.created_fencing_token = lease.fencing_token;
      break;
    case 'lease_deferred':
      move(lease, 'defer', at);
      lease.provision_defer_reason = event.reason;
      lease.rollback_receipt_id = event.receipt_id;
      lease.reused = null;
      break;
    case 'lease_idled':
      move(lease, 'idle', at);
      lease.idle_since = at;
      lease.idle_reason = event.idle_reason;
      lease.idle_ttl_ms = event.idle_ttl_ms;
      lease.reap_disposition = event.disposition;
      break;
    case 'lease_reaping':
      foldReaping(lease, at, event);
      break;
    case 'lease_reaped':
      move(lease, 'reaped', at);
      lease.cleanup_verified = true;
      lease.cleanup_proof = event.cleanup_proof;
      lease.cleanup_receipt_id = event.cleanup_receipt_id;
      lease.last_reap_outcome = 'succeeded';
      lease.connection = null;
      forgetLease(state, lease);
      return;
    case 'lease_reap_failed':
      move(lease, 'reap_failed', at);
      lease.reap_failed_at = at;
      lease.last_reap_outcome = 'failed';
      lease.error = event.error;
      lease.error_class = event.error_class;
      break;
  }
  scheduleLease(state, lease);
}

/** A re-adoption is a request of its own: nothing of the earlier one's place, deadline or disposition goes on. */
function foldReadopting(lease: Lease, at: number, seq: number, event: LeaseOf<'lease_readopting'>): void {
  Object.assign(lease, structuredClone(event.terms));
  lease.fencing_token = event.fencing_token;
  lease.requested_at = at;
  lease.arrival_seq = seq;
  lease.queue_deadline_at = event.queue_deadline_at;
  lease.reap_disposition = 'destroy';
  lease.reused = 'idle';
  lease.idle_since = null;
  lease.idle_reason = null;
  lease.reprovisioned = null;
  lease.connection = null;
}

function foldReaping(lease: Lease, at: number, event: LeaseOf<'lease_reaping'>): void {
  const retried = lease.state === 'reap_failed';
  move(lease, 'reap', at);
  if (retried) {
    lease.reap_failed_at = null;
    lease.last_reap_outcome = null;
  } else {
    lease.reap_requested_at = at;
    lease.reap_reason = event.reap_reason;
    lease.error = event.error;
    lease.error_class = event.error_class;
  }
  lease.reap_disposition = event.disposition;
  lease.reap_deadline_at = event.deadline_at;
}

function forgetLease(state: State, lease: Lease): void {
  state.leases.delete(lease.lease_id);
  state.index.leaseBySlot.delete(lease.slot);
  state.index.deadlines.forget('lease', lease.lease_id);
}

type JobEvent = Extract<Event, { type: `job_${string}` }>;

function foldJob(state: State, at: number, event: JobEvent): void {
  if (event.type === 'job_opened') {
    const job = structuredClone(event.job);
    assert(!state.index.jobByLease.has(job.lease_id), `lease ${job.lease_id} has no other job`);
    state.jobs.set(job.job_id, job);
    state.index.jobByLease.set(job.lease_id, job.job_id);
    const lease = must(state.leases.get(job.lease_id), `lease ${job.lease_id}`);
    lease.jobs_opened += 1;
    return;
  }
  const job = must(state.jobs.get(event.job_id), `job ${event.job_id}`);
  switch (event.type) {
    case 'job_claimed':
      assert(job.state === 'open', `job ${job.job_id} is open`);
      takeToken(state, event.job_token);
      job.state = 'claimed';
      job.job_token = event.job_token;
      job.claimed_by = event.incarnation;
      job.claimed_at = at;
      must(state.leases.get(job.lease_id), `lease ${job.lease_id}`).ever_claimed = true;
      break;
    case 'job_reopened':
      reopen(job);
      break;
    case 'job_retry_later':
      reopen(job);
      job.state = 'waiting';
      job.attempts = event.attempts;
      job.not_before = event.not_before;
      break;
    case 'job_closed':
      state.jobs.delete(job.job_id);
      state.index.jobByLease.delete(job.lease_id);
      state.index.deadlines.forget('job', job.job_id);
      return;
  }
  scheduleJob(state, job);
}

function reopen(job: Job): void {
  job.state = 'open';
  job.job_token = null;
  job.claimed_by = null;
  job.claimed_at = null;
  job.not_before = null;
}

type WaitEvent = Extract<Event, { type: `wait_${string}` }>;

function foldWait(state: State, seq: number, event: WaitEvent): void {
  if (event.type === 'wait_registered') {
    const wait = structuredClone(event.wait);
    wait.cursor_start = seq;
    state.waits.set(wait.wait_session_id, wait);
    indexWait(state, wait);
    scheduleWait(state, wait);
    return;
  }
  const wait = must(state.waits.get(event.wait_session_id), `wait ${event.wait_session_id}`);
  if (event.type === 'wait_matched') {
    wait.matched.push(event.match);
    scheduleWait(state, wait);
    return;
  }
  state.waits.delete(wait.wait_session_id);
  unindexWait(state, wait);
  state.index.deadlines.forget('wait', wait.wait_session_id);
}

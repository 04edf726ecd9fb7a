/** The empty state, and its stored form. Indexes and deadlines are derived from the records and never stored. */
import { DeadlineHeap } from './deadline-heap.ts';
import { scheduleJob, scheduleLease, scheduleWait } from './deadlines.ts';
import type { Host, Job, Lease, State, Wait } from './model.ts';

export const SNAPSHOT_VERSION = 1;

export interface Snapshot {
  version: typeof SNAPSHOT_VERSION;
  seq: number;
  at: number;
  next_token: number;
  hosts: Host[];
  leases: Lease[];
  jobs: Job[];
  waits: Wait[];
}

export function emptyState(): State {
  return {
    seq: 0,
    at: 0,
    next_token: 1,
    hosts: new Map(),
    leases: new Map(),
    jobs: new Map(),
    waits: new Map(),
    index: {
      leaseBySlot: new Map(),
      jobByLease: new Map(),
      waitsByLease: new Map(),
      deadlines: new DeadlineHeap(),
    },
  };
}

/** The returned records are shared with the state: encode them before the next `apply`. */
export function toSnapshot(state: State): Snapshot {
  return {
    version: SNAPSHOT_VERSION,
    seq: state.seq,
    at: state.at,
    next_token: state.next_token,
    hosts: [...state.hosts.values()],
    leases: [...state.leases.values()],
    jobs: [...state.jobs.values()],
    waits: [...state.waits.values()],
  };
}

/** Takes ownership of the snapshot's records. */
export function fromSnapshot(snapshot: Snapshot): State {
  const state = emptyState();
  state.seq = snapshot.seq;
  state.at = snapshot.at;
  state.next_token = snapshot.next_token;
  for (const host of snapshot.hosts) {
    state.hosts.set(host.host_id, host);
  }
  for (const lease of snapshot.leases) {
    state.leases.set(lease.lease_id, lease);
    state.index.leaseBySlot.set(lease.slot, lease.lease_id);
    scheduleLease(state, lease);
  }
  for (const job of snapshot.jobs) {
    state.jobs.set(job.job_id, job);
    state.index.jobByLease.set(job.lease_id, job.job_id);
    scheduleJob(state, job);
  }
  for (const wait of snapshot.waits) {
    state.waits.set(wait.wait_session_id, wait);
    indexWait(state, wait);
    scheduleWait(state, wait);
  }
  return state;
}

export function indexWait(state: State, wait: Wait): void {
  for (const condition of wait.conditions) {
    if (condition.type !== 'lease') continue;
    const waits = state.index.waitsByLease.get(condition.lease_id);
    if (waits === undefined) state.index.waitsByLease.set(condition.lease_id, new Set([wait.wait_session_id]));
    else waits.add(wait.wait_session_id);
  }
}

export function unindexWait(state: State, wait: Wait): void {
  for (const condition of wait.conditions) {
    if (condition.type !== 'lease') continue;
    const waits = state.index.waitsByLease.get(condition.lease_id);
    waits?.delete(wait.wait_session_id);
    if (waits?.size === 0) state.index.waitsByLease.delete(condition.lease_id);
  }
}

/**
 * The records that the fold is made of. They are stored and sent as they stand here, so their fields are snake_case.
 * Times are milliseconds since the epoch on the coordinator's clock. Read next: `step.ts`, then `lease-table.ts`.
 */
import type { DeadlineHeap } from './deadline-heap.ts';

export type Disposition = 'destroy' | 'stop';

export const LEASE_STATES = ['queued', 'provisioning', 'active', 'idle', 'reaping', 'reaped', 'reap_failed'] as const;
export type LeaseState = (typeof LEASE_STATES)[number];

export const REAP_REASONS = [
  'released',
  'idle_ttl',
  'preempted_idle',
  'heartbeat_lost',
  'orphaned_agent',
  'provision_failed',
  'stack_lost',
  'hard_ttl',
  'host_lost',
  'operator',
  'queue_deadline',
] as const;
export type ReapReason = (typeof REAP_REASONS)[number];

export type CleanupProof = 'signed_reap' | 'never_provisioned' | 'local_exec_teardown' | 'pre_driver_absence';

export interface PortBlock {
  port_base: number;
  size: number;
}

export interface Connection {
  host: string;
  ports: Record<string, number>;
  urls: Record<string, string>;
}

/** Attached leases live by their owner's heartbeat, detached ones until they are released or untouched too long. */
export type LeaseMode = 'attached' | 'detached';

/** What a request fixes and a re-adoption may change. */
export interface LeaseTerms {
  principal: string;
  agent: string;
  mode: LeaseMode;
  claim_token: string;
  plan_digest: string;
  ttl_ms: number;
  idle_ttl_ms: number;
  hard_ttl_ms: number | null;
  labels: Record<string, string>;
}

export interface Lease extends LeaseTerms {
  lease_id: string;
  tenant: string;
  slot: string;
  project: string;
  host_id: string;
  worktree_root: string;
  stack_path: string;
  units: number;
  priority: number;
  blocks: PortBlock[];
  state: LeaseState;
  requested_at: number;
  /** Position in arrival order; kept through a deferral. */
  arrival_seq: number;
  queue_deadline_at: number | null;
  since: number;
  fencing_token: number | null;
  created_fencing_token: number | null;
  placement_reason: string | null;
  provision_defer_reason: string | null;
  /** A job of this lease was claimed by a Helper, so only a Helper can prove absence. */
  ever_claimed: boolean;
  /** Receipt of the last proven roll-back; valid until the next grant. */
  rollback_receipt_id: string | null;
  connection: Connection | null;
  active_at: number | null;
  reused: 'idle' | null;
  reprovisioned: string | null;
  idle_since: number | null;
  idle_reason: string | null;
  reap_requested_at: number | null;
  reap_reason: ReapReason | null;
  reap_disposition: Disposition;
  reap_deadline_at: number | null;
  reap_failed_at: number | null;
  last_reap_outcome: 'failed' | 'succeeded' | null;
  error: string | null;
  error_class: string | null;
  cleanup_verified?: boolean;
  cleanup_proof: CleanupProof | null;
  cleanup_receipt_id: string | null;
  jobs_opened: number;
}

export type JobKind = 'provision_stack' | 'readopt_stack' | 'reap_stack';
export const JOB_STATES = ['open', 'claimed', 'waiting'] as const;
/** `waiting` is a reap that failed and will be opened again at `not_before`. A finished job leaves the state. */
export type JobState = (typeof JOB_STATES)[number];

export interface Job {
  job_id: string;
  kind: JobKind;
  lease_id: string;
  host_id: string;
  state: JobState;
  job_token: number | null;
  claimed_by: string | null;
  claimed_at: number | null;
  attempts: number;
  not_before: number | null;
  opened_at: number;
}

export interface Host {
  host_id: string;
  host_key: string;
  capacity_units: number;
  protocol_version: number;
  helper_version: string;
  /** One life of the Helper process; a new one takes over the jobs of the old one. */
  incarnation: string;
  /** Public keys by id; old ones stay known so that old statements stay verifiable. */
  keys: Record<string, string>;
  ready: boolean;
  registered_at: number;
}

export type Condition =
  | { type: 'lease'; lease_id: string; state: 'provisioning' | 'active' | 'reaped' | null }
  | { type: 'timer'; at: number };

export type WaitOutcome = 'matched' | 'timeout' | 'lease_lost' | 'lease_cleanup_failed' | 'abandoned';

export interface Match {
  condition: number;
  seq: number;
  subject: string;
}

export interface Wait {
  wait_session_id: string;
  tenant: string;
  principal: string;
  agent: string;
  conditions: Condition[];
  mode: 'all' | 'any';
  deadline_at: number;
  registered_at: number;
  cursor_start: number;
  matched: Match[];
}

/** A wait that ended, as it is archived and streamed. */
export interface EndedWait {
  wait_session_id: string;
  outcome: WaitOutcome;
  matched: Match[];
  state: Record<string, string | number | boolean | null>;
  ended_at: number;
}

export interface State {
  seq: number;
  /** Time of the last event: the coordinator's clock never goes behind it. */
  at: number;
  next_token: number;
  hosts: Map<string, Host>;
  leases: Map<string, Lease>;
  jobs: Map<string, Job>;
  waits: Map<string, Wait>;
  /** Derived, rebuilt on load. */
  index: Indexes;
}

export interface Indexes {
  /** The one live lease of a slot. */
  leaseBySlot: Map<string, string>;
  /** The one unfinished job of a lease. */
  jobByLease: Map<string, string>;
  waitsByLease: Map<string, Set<string>>;
  deadlines: DeadlineHeap;
}

export const UNIT_HOLDING: Record<LeaseState, boolean> = {
  queued: false,
  provisioning: true,
  active: true,
  idle: true,
  reaping: true,
  reap_failed: true,
  reaped: false,
};

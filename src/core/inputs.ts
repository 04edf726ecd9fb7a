/** What may be asked of the machines. Ids, random values and verified signatures arrive in here: `step` makes none. */
import type { SequencedEvent } from './events.ts';
import type { Connection, Disposition, EndedWait, Host, Job, Lease, LeaseTerms, PortBlock, Wait } from './model.ts';

/** Who asks. Until identities exist the owner credential is the principal and the worktree the agent. */
export interface Principal {
  principal: string;
  tenant: string;
}

/** A Helper's signed statement as the coordinator parsed it; the signature was checked against the host's keys. */
export interface StatementFacts {
  receipt_id: string;
  signature_valid: boolean;
  kind: 'reap' | 'rollback' | 'pre_driver';
  lease_id: string;
  slot: string;
  tenant: string;
  host_id: string;
  fencing_token: number;
  plan_digest: string;
  disposition: Disposition;
  looked_for: readonly { kind: string; id: string; after: 'absent' | 'present' | 'unknown' }[];
}

export interface LeaseRequest extends LeaseTerms {
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
  queue_timeout_ms: number;
}

export type Input =
  | {
      type: 'register_host';
      host_id: string;
      host_key: string;
      capacity_units: number;
      protocol_version: number;
      helper_version: string;
      incarnation: string;
      key_id: string;
      public_key: string;
    }
  | { type: 'host_beacon'; host_id: string; incarnation: string; capacity_units: number }
  | { type: 'request_lease'; request: LeaseRequest }
  | { type: 'touch_lease'; lease_id: string; by: Principal; fencing_token: number | null }
  | {
      type: 'release_lease';
      lease_id: string;
      by: Principal;
      /** The invocation that gives its lease back; null for a person who names the lease itself. */
      claim_token: string | null;
      how: 'idle' | 'reap';
      disposition: Disposition;
      idle_ttl_ms: number | null;
      reason: string;
      archived: Lease | null;
    }
  | { type: 'stack_lost'; lease_id: string; host_id: string; incarnation: string; fencing_token: number; error: string }
  | { type: 'claim_job'; job_id: string; host_id: string; incarnation: string }
  | { type: 'renew_job'; job_id: string; job_token: number }
  | {
      type: 'complete_job';
      job_id: string;
      job_token: number;
      connection: Connection | null;
      reprovisioned: string | null;
      statement: StatementFacts | null;
    }
  | {
      type: 'fail_job';
      job_id: string;
      job_token: number;
      error: string;
      error_class: string;
      statement: StatementFacts | null;
    }
  | { type: 'defer_job'; job_id: string; job_token: number; reason: string; statement: StatementFacts | null }
  | {
      type: 'register_wait';
      wait: Omit<Wait, 'cursor_start' | 'matched' | 'registered_at'>;
      archived: Record<string, Lease>;
    }
  | { type: 'cancel_wait'; wait_session_id: string; by: Principal; reason: 'cancelled' | 'abandoned' }
  | { type: 'tick' };

export type InputType = Input['type'];

export interface Liveness {
  /** Last time that the object was heard of; the coordinator's start when it never was. */
  lastSeenAt(kind: 'lease' | 'job' | 'wait', id: string): number;
}

export interface StepContext {
  now: number;
  liveness: Liveness;
  /** Nothing expires before this time: set after a downtime, a clock jump or a suspend. */
  grace_until: number;
}

export interface Refusal {
  code: string;
  message: string;
  fields: Record<string, string | number | boolean | null>;
}

export interface Replies {
  register_host: { host: Host };
  host_beacon: { host: Host };
  request_lease: { lease: Lease; reused: 'idle' | null };
  touch_lease: { lease: Lease };
  release_lease: { lease: Lease; retried: boolean; budget_reset: boolean; changed: boolean };
  stack_lost: { lease: Lease };
  claim_job: { job: Job; lease: Lease };
  renew_job: { job: Job };
  complete_job: { lease: Lease };
  fail_job: { lease: Lease };
  defer_job: { lease: Lease };
  register_wait: { wait: Wait; ended: EndedWait | null };
  cancel_wait: { ended: EndedWait };
  tick: { fired: number };
}

/** Rows that left memory with this input; written to the archive in the same transaction. */
export type ArchiveRow =
  | { kind: 'lease'; id: string; body: Lease }
  | { kind: 'wait'; id: string; body: { wait: Wait; ended: EndedWait } };

export type StepResult<T extends InputType = InputType> =
  | { ok: true; reply: Replies[T]; events: SequencedEvent[]; archive: ArchiveRow[] }
  | { ok: false; refusal: Refusal; events: SequencedEvent[]; archive: ArchiveRow[] };

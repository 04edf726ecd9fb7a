/** The committed facts. Each is one row of the log; `EVENT_VERSION` grows when a shape changes, old shapes stay readable. */
import type {
  CleanupProof,
  Connection,
  Disposition,
  Host,
  Job,
  Lease,
  LeaseTerms,
  Match,
  ReapReason,
  Wait,
  WaitOutcome,
} from './model.ts';

export const EVENT_VERSION = 1;

export type Event =
  | { type: 'host_registered'; host: Host }
  | { type: 'host_beaconed'; host_id: string; capacity_units: number }
  | { type: 'lease_requested'; lease: Lease }
  | { type: 'lease_granted'; lease_id: string; fencing_token: number; placement_reason: string }
  | {
      type: 'lease_readopting';
      lease_id: string;
      fencing_token: number;
      terms: LeaseTerms;
      queue_deadline_at: number | null;
    }
  | { type: 'lease_activated'; lease_id: string; connection: Connection; reprovisioned: string | null }
  | { type: 'lease_deferred'; lease_id: string; reason: string; receipt_id: string }
  | { type: 'lease_idled'; lease_id: string; idle_reason: string; disposition: Disposition; idle_ttl_ms: number }
  | {
      type: 'lease_reaping';
      lease_id: string;
      reap_reason: ReapReason;
      disposition: Disposition;
      deadline_at: number;
      error: string | null;
      error_class: string | null;
    }
  | { type: 'lease_reaped'; lease_id: string; cleanup_proof: CleanupProof; cleanup_receipt_id: string | null }
  | { type: 'lease_reap_failed'; lease_id: string; error: string; error_class: string }
  | { type: 'job_opened'; job: Job }
  | { type: 'job_claimed'; job_id: string; incarnation: string; job_token: number }
  | { type: 'job_reopened'; job_id: string; reason: 'claim_lapsed' | 'helper_restarted' | 'retry' }
  | { type: 'job_retry_later'; job_id: string; attempts: number; not_before: number; error: string }
  | { type: 'job_closed'; job_id: string; outcome: 'completed' | 'failed' | 'deferred' | 'cancelled' }
  | { type: 'wait_registered'; wait: Wait }
  | { type: 'wait_matched'; wait_session_id: string; match: Match }
  | {
      type: 'wait_ended';
      wait_session_id: string;
      outcome: WaitOutcome;
      state: Record<string, string | number | boolean | null>;
    };

export type EventType = Event['type'];

/** One committed event with its place in the total order. */
export interface SequencedEvent {
  seq: number;
  at: number;
  event: Event;
}

/**
 * The tools of the coordinator as types: name -> arguments and result, exactly as they cross the wire at
 * `POST /v1/tools/NAME`. Must not import zod, so that small commands stay small; `tool-schemas.ts` is the door.
 */
import type {
  Connection,
  Disposition,
  EndedWait,
  HostLedger,
  Job,
  Lease,
  LeaseMode,
  LeaseView,
  PortBlock,
  StatementKind,
} from './records.ts';

export interface SignedStatement {
  /** The exact bytes that were signed, as UTF-8 JSON text; never serialised again. */
  statement: string;
  key_id: string;
  /** Ed25519, base64. */
  signature: string;
}

/** What a signed statement says, once parsed. */
export interface StatementBody {
  schema_version: 1;
  kind: StatementKind;
  lease_id: string;
  slot: string;
  tenant: string;
  host_id: string;
  fencing_token: number;
  plan_digest: string;
  disposition: Disposition;
  looked_for: { kind: string; id: string; before: string; after: 'absent' | 'present' | 'unknown' }[];
  looked_at: string;
  helper_version: string;
  nonce: string;
}

export interface LeaseForHelper
  extends Pick<
    Lease,
    | 'lease_id'
    | 'tenant'
    | 'slot'
    | 'project'
    | 'state'
    | 'mode'
    | 'blocks'
    | 'claim_token'
    | 'plan_digest'
    | 'fencing_token'
    | 'created_fencing_token'
    | 'reap_disposition'
    | 'reap_reason'
    | 'ttl_ms'
    | 'idle_ttl_ms'
    | 'worktree_root'
    | 'stack_path'
  > {}

export interface ConsideredHost {
  host_key: string;
  verdict_code: string;
}

export interface WaitView {
  wait_session_id: string;
  conditions: string[];
  mode: 'all' | 'any';
  deadline_at: number;
  registered_at: number;
  cursor: string;
  status: 'pending' | 'ended';
  ended: EndedWait | null;
}

export interface RequestStackLeaseArgs {
  lease_id?: string;
  agent: string;
  slot: string;
  project: string;
  host_key: string;
  machine_id: string | null;
  worktree_root: string;
  stack_path: string;
  mode: LeaseMode;
  units: number;
  priority: number;
  blocks: PortBlock[];
  claim_token: string;
  plan_digest: string;
  ttl_ms: number;
  idle_ttl_ms: number;
  hard_ttl_ms: number | null;
  queue_timeout_ms: number;
  labels: Record<string, string>;
  idempotency_key: string;
}

export interface ToolCalls {
  request_stack_lease: {
    args: RequestStackLeaseArgs;
    result: {
      lease: LeaseView;
      reused: 'idle' | null;
      considered: ConsideredHost[];
      ledger: HostLedger | null;
    };
  };
  get_stack_lease: {
    args: { lease_id: string };
    result: { lease: LeaseView; archived: boolean; ledger: HostLedger | null };
  };
  list_stack_leases: {
    args: { worktree_root?: string; slot?: string; claim_token?: string };
    result: { leases: LeaseView[] };
  };
  touch_stack_lease: {
    args: { lease_id: string; fencing_token: number | null };
    result: { lease: LeaseView };
  };
  release_stack_lease: {
    args: {
      lease_id: string;
      /** The invocation that gives its lease back; null where a person names the lease itself. */
      claim_token: string | null;
      how: 'idle' | 'reap';
      disposition: Disposition;
      idle_ttl_ms: number | null;
      reason: string;
      idempotency_key: string;
    };
    result: { lease: LeaseView; retried: boolean; budget_reset: boolean; changed: boolean };
  };
  wait: {
    args: {
      wait_session_id: string;
      agent: string;
      conditions: string[];
      mode: 'all' | 'any';
      timeout_ms: number;
      idempotency_key: string;
    };
    result: WaitView;
  };
  get_wait: { args: { wait_session_id: string }; result: WaitView };
  cancel_wait: { args: { wait_session_id: string; idempotency_key: string }; result: WaitView };
  list_hosts: { args: Record<string, never>; result: { hosts: HostView[] } };
  get_host_ledger: { args: { host_key?: string }; result: { ledger: HostLedger | null } };
  report_outcome: {
    args: { lease_id: string | null; category: string; code: string; idempotency_key: string };
    result: { accepted: true };
  };
  coordinator_status: {
    args: Record<string, never>;
    result: {
      version: string;
      epoch: string;
      started_at: number;
      alive: { leases: number; jobs: number; waits: number };
    };
  };
  register_host: {
    args: {
      host_id: string;
      host_key: string;
      machine_id: string | null;
      capacity_units: number;
      protocol_version: number;
      helper_version: string;
      incarnation: string;
      key_id: string;
      /** Ed25519, SPKI, base64. */
      public_key: string;
    };
    result: { host_id: string };
  };
  host_beacon: {
    args: { host_id: string; incarnation: string; capacity_units: number };
    /** All of the host that is alive, and all its work: level-triggered, so a Helper may start from nothing. */
    result: { leases: LeaseForHelper[]; jobs: Job[]; cursor: string };
  };
  claim_job: {
    args: { job_id: string; host_id: string; incarnation: string };
    result: { job: Job; lease: LeaseForHelper };
  };
  renew_job: { args: { job_id: string; job_token: number }; result: { job_id: string } };
  complete_job: {
    args: {
      job_id: string;
      job_token: number;
      connection: Connection | null;
      reprovisioned: string | null;
      statement: SignedStatement | null;
    };
    result: { lease: LeaseView };
  };
  fail_job: {
    args: { job_id: string; job_token: number; error: string; error_class: string; statement: SignedStatement | null };
    result: { lease: LeaseView };
  };
  defer_job: {
    args: { job_id: string; job_token: number; reason: string; statement: SignedStatement | null };
    result: { lease: LeaseView };
  };
  report_stack_lost: {
    args: { lease_id: string; host_id: string; incarnation: string; fencing_token: number; error: string };
    result: { lease: LeaseView };
  };
}

export interface HostView {
  host_id: string;
  host_key: string;
  capacity_units: number;
  ready: boolean;
  protocol_version: number;
  helper_version: string;
  beacon_age_ms: number | null;
}

export type ToolName = keyof ToolCalls;

/** The answer of every tool call: `seq` is the highest event that the answer reflects. */
export type ToolAnswer<N extends ToolName = ToolName> =
  | { ok: true; seq: number; result: ToolCalls[N]['result'] }
  | { ok: false; seq: number; error: { code: string; message: string; fields: Record<string, unknown> } };

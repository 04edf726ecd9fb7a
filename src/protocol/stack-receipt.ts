/** The one JSON object with which every `stack` command ends, and how it is cut to size. */
import type { Connection, Disposition, HostLedger } from './records.ts';
import type { ConsideredHost } from './tool-calls.ts';

export const RECEIPT_SCHEMA_VERSION = 1;
export const RECEIPT_BYTES_MAX = 10_240;
const SMALLEST_ERROR_CHARS = 160;

export interface PlatformIncidentReceipt {
  reason: 'platform_auth_unavailable' | 'platform_unreachable';
  first_at: string;
  last_at: string;
  attempts: number;
  recovered: boolean;
  last_error: string;
  last_error_code: string | null;
}

export interface Recovery {
  status: string;
  wait: string;
  release: string;
}

export interface PortBlockOutcome {
  released: boolean;
  reason: string | null;
  cleanup_proof: string | null;
  cleanup_receipt_id: string | null;
}

export interface StackReceipt {
  schema_version: typeof RECEIPT_SCHEMA_VERSION;
  command: string;
  outcome: string;
  code: string | null;
  lease_id: string | null;
  state: string | null;
  host_key?: string | null;
  slot?: string | null;
  queued?: boolean;
  queue_position?: number | null;
  queue_reason?: string | null;
  holders?: { lease_id: string | null; state: string; since: string }[];
  park_reason?: string | null;
  placement_reason?: string | null;
  considered?: ConsideredHost[];
  connection?: Connection | null;
  env_names?: string[];
  /** The command ran on the stack of the run around it. */
  nested?: true;
  child_exit_code?: number | null;
  cleanup: boolean | null | { idle: true; idle_since: string | null };
  cleanup_code: string | null;
  cleanup_error: string | null;
  recovery?: Recovery;
  port_block?: PortBlockOutcome;
  wanted?: number;
  got?: number;
  disposition?: Disposition;
  teardown?: boolean;
  retried?: boolean;
  budget_reset?: boolean;
  reused?: 'idle' | null;
  reprovisioned?: string | null;
  volumes_kept?: boolean;
  idle_since?: string | null;
  idle_reason?: string | null;
  idle_ttl_secs?: number;
  reap_requested_at?: string | null;
  reap_failed_at?: string | null;
  reap_reason?: string | null;
  fenced: boolean;
  platform_incident?: PlatformIncidentReceipt;
  unit_ledger?: HostLedger | null;
  service_ended?: { service: string; exit_code: number | null; signal: string | null }[];
  service_log?: { service: string; lines: string[] };
  survivors_ended?: number;
  warnings?: string[];
  leases?: unknown[];
  truncated?: true;
  exit_code: number;
  error: string | null;
}

/** What goes first when a receipt is too long; what is not named here stays until the smallest form. */
const CUT_ORDER: readonly (keyof StackReceipt)[] = [
  'unit_ledger',
  'considered',
  'warnings',
  'holders',
  'env_names',
  'service_log',
  'service_ended',
  'connection',
  'leases',
  'platform_incident',
  'placement_reason',
  'park_reason',
  'queue_reason',
  'recovery',
];

const SMALLEST: readonly (keyof StackReceipt)[] = [
  'schema_version',
  'command',
  'outcome',
  'lease_id',
  'state',
  'exit_code',
  'error',
  'cleanup',
  'fenced',
  'cleanup_code',
  'cleanup_error',
];

const bytesOf = (value: unknown): number => new TextEncoder().encode(JSON.stringify(value)).length;

/** The receipt in at most `bytesMax` bytes, marked as truncated when anything was left out. */
export function cutReceipt(receipt: StackReceipt, bytesMax = RECEIPT_BYTES_MAX): Partial<StackReceipt> {
  if (bytesOf(receipt) <= bytesMax) return receipt;
  const cut: Partial<StackReceipt> = { ...receipt, truncated: true };
  for (const field of CUT_ORDER) {
    delete cut[field];
    if (bytesOf(cut) <= bytesMax) return cut;
  }
  const smallest: Record<string, unknown> = {};
  for (const field of SMALLEST) smallest[field] = cutText(receipt[field]);
  return { ...smallest, truncated: true } as Partial<StackReceipt>;
}

function cutText(value: unknown): unknown {
  return typeof value === 'string' && value.length > SMALLEST_ERROR_CHARS
    ? value.slice(0, SMALLEST_ERROR_CHARS)
    : value;
}

/** Commands ready to paste for a lease whose cleanup is not proven. */
export function recoveryOf(leaseId: string): Recovery {
  return {
    status: `botbuddy stack status ${leaseId}`,
    wait: `botbuddy wait 'lease:id=${leaseId},state=reaped'`,
    release: `botbuddy stack done ${leaseId} --reap`,
  };
}

export const isoOf = (ms: number | null | undefined): string | null =>
  ms === null || ms === undefined ? null : new Date(ms).toISOString();

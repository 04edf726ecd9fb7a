/** Receipts of the commands that look at or end one lease. */

import { SIGNAL_EXIT } from '../protocol/outcomes.ts';
import type { LeaseView } from '../protocol/records.ts';
import { isoOf, recoveryOf, type StackReceipt } from '../protocol/stack-receipt.ts';
import type { EndedLease } from './end-lease.ts';
import { EXIT_CLEANUP_UNPROVEN } from './stack-run-ends.ts';

export function leaseReceipt(command: string, lease: LeaseView): StackReceipt {
  return {
    schema_version: 1,
    command,
    outcome: lease.state,
    code: null,
    lease_id: lease.lease_id,
    state: lease.state,
    host_key: lease.host_key,
    slot: lease.slot,
    ...(lease.state === 'queued'
      ? { queued: true, queue_position: lease.queue_position, queue_reason: lease.queue_reason }
      : {}),
    ...(lease.connection === null ? {} : { connection: lease.connection }),
    cleanup: cleanupOf(lease),
    cleanup_code: lease.state === 'reap_failed' ? (lease.error_class ?? 'cleanup_unproven') : null,
    cleanup_error: lease.state === 'reap_failed' ? (lease.error ?? 'the reap failed') : null,
    ...(lease.state === 'reap_failed' ? { recovery: recoveryOf(lease.lease_id) } : {}),
    ...idleFields(lease),
    ...reapFields(lease),
    fenced: lease.state === 'reap_failed',
    exit_code: 0,
    error: lease.error,
  };
}

/** Since when and why a lease is idle; nothing for one that is not. */
export function idleFields(lease: LeaseView): Partial<StackReceipt> {
  if (lease.idle_since === null) return {};
  return {
    idle_since: isoOf(lease.idle_since),
    idle_reason: lease.idle_reason,
    idle_ttl_secs: lease.idle_ttl_ms / 1_000,
  };
}

/** Why and how a lease was torn down; nothing for one that was not. */
export function reapFields(lease: LeaseView): Partial<StackReceipt> {
  if (lease.reap_reason === null) return {};
  return {
    disposition: lease.reap_disposition,
    reap_reason: lease.reap_reason,
    reap_requested_at: isoOf(lease.reap_requested_at),
    reap_failed_at: isoOf(lease.reap_failed_at),
  };
}

function cleanupOf(lease: LeaseView): StackReceipt['cleanup'] {
  if (lease.state === 'idle') return { idle: true, idle_since: isoOf(lease.idle_since) };
  if (lease.state === 'reaped') return lease.cleanup_verified === true;
  return lease.state === 'reap_failed' ? false : null;
}

/** The receipt of `done --reap`: released, or an error with what holds and what to do. */
export function endedReceipt(command: string, ended: EndedLease): StackReceipt {
  const { lease, portBlock } = ended;
  const kept = portBlock !== null && !portBlock.released;
  const signalExit = ended.interruptedBy === null ? null : (SIGNAL_EXIT[ended.interruptedBy] ?? 128);
  const unproven = ended.cleanup === false;
  return {
    ...leaseReceipt(command, lease),
    outcome: signalExit !== null ? 'interrupted' : kept ? 'error' : 'released',
    code: signalExit !== null ? 'interrupted' : kept ? (ended.cleanupCode ?? 'cleanup_unproven') : null,
    disposition: lease.reap_disposition,
    teardown: lease.cleanup_proof !== 'never_provisioned',
    retried: ended.retried,
    budget_reset: ended.budgetReset,
    cleanup: ended.cleanup,
    cleanup_code: unproven ? (ended.cleanupCode ?? 'cleanup_unproven') : null,
    cleanup_error: unproven ? (ended.cleanupError ?? 'the cleanup is not proven') : null,
    ...(unproven ? { recovery: recoveryOf(lease.lease_id) } : {}),
    ...(portBlock === null ? {} : { port_block: portBlock }),
    ...(ended.incident === null ? {} : { platform_incident: ended.incident }),
    fenced: unproven,
    exit_code: signalExit ?? (kept ? EXIT_CLEANUP_UNPROVEN : 0),
    error: kept ? (ended.cleanupError ?? `the port claim is kept: ${portBlock.reason}`) : null,
  };
}

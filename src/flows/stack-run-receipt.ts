/** One receipt from what a run decided and what it learned. */

import { isoOf, recoveryOf, type StackReceipt } from '../protocol/stack-receipt.ts';
import { lastLines, loggedNames } from '../stack/service-log.ts';
import { idleFields, reapFields } from './lease-receipt.ts';
import type { StackContext } from './stack-context.ts';
import { judgeEnd } from './stack-run-ends.ts';
import type { RunFacts } from './stack-run-facts.ts';
import type { CleanupState, RunEnd, RunState } from './stack-run-model.ts';
import type { RunRequest } from './stack-run-request.ts';

interface ReceiptQuestion {
  context: StackContext;
  request: Pick<RunRequest, 'command'>;
  state: RunState;
  facts: RunFacts;
}

export function runReceipt({ context, request, state, facts }: ReceiptQuestion): StackReceipt {
  const end = state.end as RunEnd;
  const verdict = judgeEnd(end, state.cleanup, request.command === 'stack run' ? 'run' : 'up');
  const lease = facts.lease;
  const leaseId = state.lease?.lease_id ?? (end.by === 'refusal' ? end.refusal.lease_id : null);
  const unproven = state.cleanup.kind === 'unproven' ? state.cleanup : null;
  return {
    schema_version: 1,
    command: request.command,
    outcome: verdict.outcome,
    code: verdict.code,
    lease_id: leaseId,
    state: lease?.state ?? (end.by === 'refusal' ? end.refusal.state : null),
    host_key: context.hostKey,
    slot: context.slot.slot,
    ...queueFields(facts, end),
    ...(request.command === 'stack up' && end.by === 'ready' ? { connection: lease?.connection ?? null } : {}),
    ...(facts.envNames.length > 0 ? { env_names: facts.envNames } : {}),
    ...(verdict.childExitCode === null ? {} : { child_exit_code: verdict.childExitCode }),
    cleanup: cleanupField(state.cleanup, facts),
    cleanup_code: unproven?.code ?? null,
    cleanup_error: unproven === null ? null : unproven.message || 'the cleanup is not proven',
    ...(leaseId !== null && (unproven !== null || isOwnLeaseRefused(end)) ? { recovery: recoveryOf(leaseId) } : {}),
    ...portFields(state, facts),
    ...leaseFields(facts),
    fenced: end.by === 'fence' || unproven !== null,
    ...(facts.incident === null ? {} : { platform_incident: facts.incident }),
    ...serviceLog(context, end),
    ...(facts.survivorsEnded > 0 ? { survivors_ended: facts.survivorsEnded } : {}),
    ...(facts.warnings.length > 0 ? { warnings: facts.warnings } : {}),
    exit_code: verdict.exitCode,
    error: lossInWords(end, facts) ?? verdict.error ?? unproven?.message ?? null,
  };
}

/** Our own earlier lease stands in the way: the same three commands look at it, wait for it and end it. */
const isOwnLeaseRefused = (end: RunEnd): boolean => end.by === 'refusal' && end.refusal.own;

function lossInWords(end: RunEnd, { lease }: RunFacts): string | null {
  if (end.by !== 'fence' || lease === null || lease.reap_reason === null) return null;
  return `lease ${lease.lease_id} was lost (${lease.reap_reason}); the command was ended`;
}

function cleanupField(cleanup: CleanupState, facts: RunFacts): StackReceipt['cleanup'] {
  switch (cleanup.kind) {
    case 'not_needed':
      return null;
    case 'idle':
      return { idle: true, idle_since: isoOf(facts.lease?.idle_since) };
    case 'proven':
      return true;
    case 'unproven':
      return false;
  }
}

function queueFields(facts: RunFacts, end: RunEnd): Partial<StackReceipt> {
  const waiting =
    facts.lease?.state === 'queued' || end.by === 'queued' || (end.by === 'park' && end.phase === 'queue');
  if (!waiting) return facts.parkReason === null ? {} : { park_reason: facts.parkReason };
  return {
    queued: facts.lease?.state === 'queued',
    queue_position: facts.lease?.queue_position ?? null,
    queue_reason: facts.lease?.queue_reason ?? null,
    park_reason: facts.parkReason,
    holders: (facts.ledger?.leases ?? []).map(({ lease_id, state, since }) => ({
      lease_id,
      state,
      since: isoOf(since) ?? '?',
    })),
    ...(facts.considered === null ? {} : { considered: facts.considered }),
    unit_ledger: facts.ledger,
  };
}

function portFields(state: RunState, facts: RunFacts): Partial<StackReceipt> {
  const moved = facts.wantedBase !== null && facts.gotBase !== facts.wantedBase;
  const claim = { cleanup_proof: null, cleanup_receipt_id: null };
  const kept = state.claim === 'kept' || state.claim === 'lost' || state.claim === 'bound';
  const block = facts.portBlock ?? (kept ? { released: false, reason: state.claimReason, ...claim } : null);
  return {
    ...(block === null ? {} : { port_block: block }),
    ...(moved ? { wanted: facts.wantedBase as number, got: facts.gotBase as number } : {}),
  };
}

function leaseFields({ lease }: RunFacts): Partial<StackReceipt> {
  if (lease === null) return {};
  return {
    ...(lease.placement_reason === null ? {} : { placement_reason: lease.placement_reason }),
    ...(lease.reused === null ? {} : { reused: lease.reused }),
    ...(lease.reprovisioned === null ? {} : { reprovisioned: lease.reprovisioned }),
    ...idleFields(lease),
    ...reapFields(lease),
  };
}

/** The last words of the service that kept the stack from getting ready, read here and never sent anywhere. */
function serviceLog(context: StackContext, end: RunEnd): Partial<StackReceipt> {
  if (end.by !== 'park' || end.phase !== 'provision' || end.kind !== 'lost') return {};
  const named = loggedNames(context.slotDir).find((name) => end.message.includes(name));
  if (named === undefined) return {};
  const lines = lastLines(context.slotDir, named);
  return lines.length === 0 ? {} : { service_log: { service: named, lines } };
}

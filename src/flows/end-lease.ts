/**
 * Ends a lease from outside of its run (`done --reap`, `down`): asks for the release once, waits for the proof through
 * blips until one fixed deadline, and releases the claim that this worktree holds on this host.
 */
import type { CoordinatorClient } from '../client/calls.ts';
import { park } from '../client/park.ts';
import { systemClock } from '../platform/clock.ts';
import { Failure } from '../platform/failure.ts';
import { newId } from '../platform/random.ts';
import { onTerminationSignals } from '../platform/signals.ts';
import { sleepMs } from '../platform/timers.ts';
import type { Disposition, LeaseView } from '../protocol/records.ts';
import type { PlatformIncidentReceipt, PortBlockOutcome } from '../protocol/stack-receipt.ts';
import { claimsOfLease } from '../stack/claim-registry.ts';
import { type ReleasingContext, releaseHold } from './claim-phase.ts';

const HELPER_RELEASES_MS = 2_000;
const LOOK_MS = 20;

export interface EndRequest {
  readonly leaseId: string;
  readonly disposition: Disposition;
  readonly reapTimeoutMs: number;
  readonly lockWaitMs: number;
  /** Wait for proof even where this worktree holds no claim of the lease. */
  readonly releaseClaim: boolean;
}

export interface EndedLease {
  lease: LeaseView;
  retried: boolean;
  budgetReset: boolean;
  /** Null where the proof was not waited for. */
  cleanup: boolean | null;
  cleanupCode: string | null;
  cleanupError: string | null;
  portBlock: PortBlockOutcome | null;
  incident: PlatformIncidentReceipt | null;
  interruptedBy: string | null;
}

export async function endLease(
  context: ReleasingContext,
  client: CoordinatorClient,
  request: EndRequest,
): Promise<EndedLease> {
  const { leaseId, disposition } = request;
  const deadlineMs = systemClock.monotonicMs() + request.reapTimeoutMs;
  const answer = await client.call('release_stack_lease', {
    lease_id: leaseId,
    claim_token: null,
    how: 'reap',
    disposition,
    idle_ttl_ms: null,
    reason: 'released by its owner',
    idempotency_key: newId(),
  });
  const ended: EndedLease = {
    lease: answer.lease,
    retried: answer.retried,
    budgetReset: answer.budget_reset,
    cleanup: null,
    cleanupCode: null,
    cleanupError: null,
    portBlock: null,
    incident: null,
    interruptedBy: null,
  };
  const holdsClaim =
    claimsOfLease(context.home, leaseId).length > 0 && answer.lease.worktree_root === context.worktreeRoot;
  if (!holdsClaim && !request.releaseClaim) return ended;
  await waitForProof(client, ended, deadlineMs);
  ended.portBlock = ended.cleanup
    ? await releaseClaimsOf(context, client, ended.lease, request.lockWaitMs)
    : { released: false, reason: 'cleanup_unproven', cleanup_proof: null, cleanup_receipt_id: null };
  return ended;
}

/** A busy slot keeps its claims; but it may be the Helper that is just releasing these very ones. */
async function releaseClaimsOf(
  context: ReleasingContext,
  client: CoordinatorClient,
  lease: LeaseView,
  lockWaitMs: number,
): Promise<PortBlockOutcome> {
  const first = await releaseHold(context, client, lease, { lockWaitMs });
  if (first.released || first.reason !== 'owner_alive') return first;
  const until = systemClock.monotonicMs() + HELPER_RELEASES_MS;
  while (claimsOfLease(context.home, lease.lease_id).length > 0) {
    if (systemClock.monotonicMs() > until) return first;
    await sleepMs(LOOK_MS);
  }
  return releaseHold(context, client, lease, { lockWaitMs: HELPER_RELEASES_MS });
}

async function waitForProof(client: CoordinatorClient, ended: EndedLease, deadlineMs: number): Promise<void> {
  const abort = new AbortController();
  const unlisten = onTerminationSignals((signal) => {
    ended.interruptedBy ??= signal;
    abort.abort();
  });
  try {
    if (ended.lease.state !== 'reaped') {
      const leaseId = ended.lease.lease_id;
      const end = await park(client, {
        waitId: newId(),
        conditions: [`lease:id=${leaseId},state=reaped`],
        mode: 'all',
        deadlineMs,
        leaseId,
        agent: ended.lease.worktree_root,
        signal: abort.signal,
      });
      // A wait that had ended when it was registered tells its outcome, and not the lease.
      ended.lease = end.lease ?? (await client.call('get_stack_lease', { lease_id: leaseId })).lease;
      ended.incident = end.incident;
      ended.cleanupCode = end.code;
      ended.cleanupError = end.error;
    }
    ended.cleanup = ended.lease.state === 'reaped' && ended.lease.cleanup_verified === true;
    if (ended.cleanup) {
      ended.cleanupCode = null;
      ended.cleanupError = null;
    } else {
      ended.cleanupCode ??= ended.lease.error_class ?? 'cleanup_unproven';
      ended.cleanupError ??= ended.lease.error ?? 'no proof of the cleanup came in time';
    }
  } finally {
    unlisten();
  }
}

/** The live lease that is meant: the one named, else the only one of this worktree. */
export async function leaseMeant(
  client: CoordinatorClient,
  leaseId: string | undefined,
  worktreeRoot: () => string,
): Promise<string> {
  if (leaseId !== undefined) return leaseId;
  const root = worktreeRoot();
  const { leases } = await client.call('list_stack_leases', { worktree_root: root });
  const [only, second] = leases;
  if (only === undefined) {
    throw new Failure('LEASE_NOT_FOUND', `this worktree has no live lease (${root})`, {
      fields: { worktree_root: root },
    });
  }
  if (second !== undefined) {
    const ids = leases.map(({ lease_id }) => lease_id).join(', ');
    throw new Failure('invalid_arguments', `this worktree has ${leases.length} leases, name one: ${ids}`);
  }
  return only.lease_id;
}

/** Asking for a lease, keeping it, and losing its stack. One live lease a slot; no two live leases share a port. */
import { rankedQueue } from './admission.ts';
import { BOUNDS } from './bounds.ts';
import { type Draft, refuse } from './draft.ts';
import { currentHost } from './hosts.ts';
import type { Input, LeaseRequest, Principal, Replies } from './inputs.ts';
import { SLOT_ANSWER, TOUCH_ANSWER } from './lease-table.ts';
import type { Lease, LeaseTerms, PortBlock, State } from './model.ts';
import { beginReaping, openJob } from './reaping.ts';

export function requestLease(draft: Draft, request: LeaseRequest): Replies['request_lease'] {
  checkBounds(draft, request);
  const liveId = draft.state.index.leaseBySlot.get(request.slot);
  const live = liveId === undefined ? undefined : draft.state.leases.get(liveId);
  if (live !== undefined) return requestHeldSlot(draft, request, live);
  checkRoomInQueue(draft.state, request);
  refuseOverlap(draft.state, request.host_id, request.slot, request.blocks);
  const lease = newLease(draft, request);
  draft.emit({ type: 'lease_requested', lease });
  return { lease: draft.state.leases.get(lease.lease_id) ?? lease, reused: null };
}

function checkBounds(draft: Draft, request: LeaseRequest): void {
  const host = draft.state.hosts.get(request.host_id);
  if (!Number.isInteger(request.units) || request.units < 1 || request.units > BOUNDS.unitsMax) {
    refuse('INVALID_UNITS', `units must be a whole number from 1 to ${BOUNDS.unitsMax}`, { units: request.units });
  }
  if (host?.ready && request.units > host.capacity_units) {
    refuse(
      'HOST_CAPACITY_BUDGET_FULL',
      `the stack asks for ${request.units} units and host ${host.host_key} has ${host.capacity_units} in all`,
      { units: request.units, capacity_units: host.capacity_units },
    );
  }
  if (!Number.isInteger(request.priority) || Math.abs(request.priority) > BOUNDS.priorityMax) {
    refuse('INVALID_PRIORITY', `priority must be a whole number of at most ${BOUNDS.priorityMax}`, {
      priority: request.priority,
    });
  }
  if (request.blocks.length > BOUNDS.blocksPerLeaseMax) {
    refuse('TOO_MANY_PORT_BLOCKS', `a lease carries at most ${BOUNDS.blocksPerLeaseMax} port blocks`);
  }
  const labels = Object.entries(request.labels).flat();
  if (labels.length > 2 * BOUNDS.labelsMax || labels.some((text) => text.length > BOUNDS.labelLengthMax)) {
    refuse('TOO_MANY_LABELS', `at most ${BOUNDS.labelsMax} labels of ${BOUNDS.labelLengthMax} characters`);
  }
}

function checkRoomInQueue(state: State, request: LeaseRequest): void {
  const queued = () => rankedQueue(state, request.host_id).length;
  if (state.leases.has(request.lease_id)) {
    refuse('LEASE_ID_TAKEN', `there is another lease ${request.lease_id}`, { lease_id: request.lease_id });
  }
  if (state.leases.size >= BOUNDS.queuedPerHostMax && queued() >= BOUNDS.queuedPerHostMax) {
    refuse('QUEUE_FULL', `the queue of host ${request.host_id} holds ${BOUNDS.queuedPerHostMax} leases`);
  }
}

export const blocksOverlap = (a: PortBlock, b: PortBlock): boolean =>
  a.port_base < b.port_base + b.size && b.port_base < a.port_base + a.size;

function refuseOverlap(state: State, hostId: string, slot: string, blocks: readonly PortBlock[]): void {
  for (const lease of state.leases.values()) {
    if (lease.host_id !== hostId || lease.slot === slot) continue;
    const taken = lease.blocks.find((held) => blocks.some((asked) => blocksOverlap(asked, held)));
    if (taken === undefined) continue;
    refuse('PORT_BLOCK_TAKEN', `ports ${taken.port_base}-${taken.port_base + taken.size - 1} belong to another lease`, {
      port_base: taken.port_base,
      size: taken.size,
    });
  }
}

function requestHeldSlot(draft: Draft, request: LeaseRequest, live: Lease): Replies['request_lease'] {
  const own = live.tenant === request.tenant && live.principal === request.principal && live.agent === request.agent;
  const answer = SLOT_ANSWER[live.state as Exclude<Lease['state'], 'reaped'>][own ? 'own' : 'other'];
  const fields = {
    lease_id: live.lease_id,
    state: live.state,
    since: live.since,
    reap_reason: live.reap_reason,
    own,
    // Whoever ends its own predecessor names the invocation that it was told of: a later one may have taken over.
    ...(own ? { claim_token: live.claim_token } : {}),
  };
  switch (answer) {
    case 'readopt':
      return readopt(draft, request, live);
    case 'held':
      return refuse('SLOT_HELD', `another agent holds this slot: lease ${live.lease_id}, ${live.state}`, fields);
    case 'being_reaped':
      return refuse('SLOT_REAPING', `lease ${live.lease_id} of this slot is ${live.state}`, fields);
    case 'already_bound':
      if (live.claim_token === request.claim_token) return { lease: live, reused: live.reused };
      return refuse('STACK_CONTEXT_ALREADY_BOUND', `this slot has lease ${live.lease_id}, ${live.state}`, fields);
  }
}

const sameBlocks = (a: readonly PortBlock[], b: readonly PortBlock[]): boolean =>
  a.length === b.length && a.every((block, i) => block.port_base === b[i]?.port_base && block.size === b[i]?.size);

function readopt(draft: Draft, request: LeaseRequest, live: Lease): Replies['request_lease'] {
  if (live.host_id !== request.host_id) {
    refuse('STACK_EXECUTION_MODE_MISMATCH', `the idle lease ${live.lease_id} of this slot is on another host`, {
      lease_id: live.lease_id,
      state: live.state,
    });
  }
  if (live.units !== request.units || !sameBlocks(live.blocks, request.blocks)) {
    refuse('IDLE_STACK_DIFFERS', `the idle lease ${live.lease_id} has other units or ports`, {
      lease_id: live.lease_id,
      state: live.state,
      claim_token: live.claim_token,
      own: true,
    });
  }
  draft.emit({
    type: 'lease_readopting',
    lease_id: live.lease_id,
    fencing_token: draft.state.next_token,
    terms: termsOf(request),
    queue_deadline_at: queueDeadline(draft, request),
  });
  openJob(draft, live, 'readopt_stack');
  return { lease: live, reused: 'idle' };
}

function termsOf(request: LeaseRequest): LeaseTerms {
  const { principal, agent, mode, claim_token, plan_digest, ttl_ms, idle_ttl_ms, hard_ttl_ms, labels } = request;
  return { principal, agent, mode, claim_token, plan_digest, ttl_ms, idle_ttl_ms, hard_ttl_ms, labels };
}

/** Nobody waits with a detached lease; an attached one stays in the queue as long as its owner does. */
function queueDeadline(draft: Draft, { mode, queue_timeout_ms }: LeaseRequest): number | null {
  return mode === 'detached' ? draft.now + queue_timeout_ms : null;
}

function newLease(draft: Draft, request: LeaseRequest): Lease {
  const { queue_timeout_ms, ...asked } = request;
  return {
    ...asked,
    state: 'queued',
    requested_at: draft.now,
    arrival_seq: 0,
    queue_deadline_at: queueDeadline(draft, request),
    since: draft.now,
    fencing_token: null,
    created_fencing_token: null,
    placement_reason: null,
    provision_defer_reason: null,
    ever_claimed: false,
    rollback_receipt_id: null,
    connection: null,
    active_at: null,
    reused: null,
    reprovisioned: null,
    idle_since: null,
    idle_reason: null,
    reap_requested_at: null,
    reap_reason: null,
    reap_disposition: 'destroy',
    reap_deadline_at: null,
    reap_failed_at: null,
    last_reap_outcome: null,
    error: null,
    error_class: null,
    cleanup_proof: null,
    cleanup_receipt_id: null,
    jobs_opened: 0,
  };
}

export function ownLease(draft: Draft, leaseId: string, by: Principal): Lease {
  const lease = draft.state.leases.get(leaseId);
  if (lease === undefined || lease.tenant !== by.tenant) {
    return refuse('LEASE_NOT_FOUND', `there is no live lease ${leaseId}`, { lease_id: leaseId });
  }
  if (lease.principal !== by.principal) {
    refuse('LEASE_NOT_OWNED', `lease ${leaseId} belongs to another principal`, { lease_id: leaseId });
  }
  return lease;
}

export function touchLease(draft: Draft, input: Extract<Input, { type: 'touch_lease' }>): Replies['touch_lease'] {
  const lease = ownLease(draft, input.lease_id, input.by);
  const superseded = input.fencing_token !== null && input.fencing_token !== lease.fencing_token;
  if (TOUCH_ANSWER[lease.state] === 'fenced' || superseded) {
    refuse('LEASE_LOST', `lease ${lease.lease_id} is ${superseded ? 'granted anew' : lease.state}`, {
      lease_id: lease.lease_id,
      state: lease.state,
      reap_reason: lease.reap_reason,
    });
  }
  return { lease };
}

export function loseStack(draft: Draft, input: Extract<Input, { type: 'stack_lost' }>): Replies['stack_lost'] {
  currentHost(draft, input.host_id, input.incarnation);
  const lease = draft.state.leases.get(input.lease_id);
  if (lease === undefined || lease.host_id !== input.host_id) {
    return refuse('LEASE_NOT_FOUND', `there is no live lease ${input.lease_id} on this host`);
  }
  if (lease.fencing_token !== input.fencing_token) {
    refuse('OLD_GENERATION', `lease ${lease.lease_id} was granted anew since`, { lease_id: lease.lease_id });
  }
  if (lease.state === 'active' || lease.state === 'idle') {
    beginReaping(draft, lease, {
      reason: 'stack_lost',
      disposition: lease.reap_disposition,
      error: input.error,
      errorClass: 'stack_lost',
    });
  }
  return { lease };
}

/** What may be seen of the state: a lease as its owner sees it, and a host's ledger. Derived, never stored. */
import { rankedQueue, unitsTaken } from './admission.ts';
import type { Lease, PortBlock, State } from './model.ts';

export interface LeaseView {
  lease_id: string;
  tenant: string;
  state: Lease['state'];
  mode: Lease['mode'];
  slot: string;
  project: string;
  host_id: string;
  host_key: string | null;
  worktree_root: string;
  stack_path: string;
  units: number;
  priority: number;
  blocks: PortBlock[];
  claim_token: string;
  plan_digest: string;
  ttl_ms: number;
  since: number;
  requested_at: number;
  fencing_token: number | null;
  created_fencing_token: number | null;
  queue_position: number | null;
  queue_reason: string | null;
  queue_deadline_at: number | null;
  placement_reason: string | null;
  provision_defer_reason: string | null;
  connection: Lease['connection'];
  reused: Lease['reused'];
  reprovisioned: string | null;
  idle_since: number | null;
  idle_reason: string | null;
  idle_ttl_ms: number;
  reap_requested_at: number | null;
  reap_reason: Lease['reap_reason'];
  reap_disposition: Lease['reap_disposition'];
  reap_failed_at: number | null;
  last_reap_outcome: Lease['last_reap_outcome'];
  error: string | null;
  error_class: string | null;
  cleanup_verified?: boolean;
  cleanup_proof: Lease['cleanup_proof'];
  cleanup_receipt_id: string | null;
}

/** Why a queued lease waits, in one word; null when its turn only has to come. */
function queueStanding(state: State, lease: Lease): { position: number | null; reason: string | null } {
  if (lease.state !== 'queued') return { position: null, reason: null };
  const host = state.hosts.get(lease.host_id);
  if (host === undefined || !host.ready) return { position: null, reason: 'host_starting' };
  if (lease.units > host.capacity_units) return { position: null, reason: 'over_capacity' };
  const queue = rankedQueue(state, lease.host_id).filter((other) => other.units <= host.capacity_units);
  const position = queue.findIndex((other) => other.lease_id === lease.lease_id) + 1;
  return { position, reason: lease.provision_defer_reason ?? 'capacity' };
}

export function leaseView(state: State, lease: Lease): LeaseView {
  const standing = queueStanding(state, lease);
  return {
    lease_id: lease.lease_id,
    tenant: lease.tenant,
    state: lease.state,
    mode: lease.mode,
    slot: lease.slot,
    project: lease.project,
    host_id: lease.host_id,
    host_key: state.hosts.get(lease.host_id)?.host_key ?? null,
    worktree_root: lease.worktree_root,
    stack_path: lease.stack_path,
    units: lease.units,
    priority: lease.priority,
    blocks: lease.blocks,
    claim_token: lease.claim_token,
    plan_digest: lease.plan_digest,
    ttl_ms: lease.ttl_ms,
    since: lease.since,
    requested_at: lease.requested_at,
    fencing_token: lease.fencing_token,
    created_fencing_token: lease.created_fencing_token,
    queue_position: standing.position,
    queue_reason: standing.reason,
    queue_deadline_at: lease.queue_deadline_at,
    placement_reason: lease.placement_reason,
    provision_defer_reason: lease.provision_defer_reason,
    connection: lease.connection,
    reused: lease.reused,
    reprovisioned: lease.reprovisioned,
    idle_since: lease.idle_since,
    idle_reason: lease.idle_reason,
    idle_ttl_ms: lease.idle_ttl_ms,
    reap_requested_at: lease.reap_requested_at,
    reap_reason: lease.reap_reason,
    reap_disposition: lease.reap_disposition,
    reap_failed_at: lease.reap_failed_at,
    last_reap_outcome: lease.last_reap_outcome,
    error: lease.error,
    error_class: lease.error_class,
    ...(lease.cleanup_verified === undefined ? {} : { cleanup_verified: lease.cleanup_verified }),
    cleanup_proof: lease.cleanup_proof,
    cleanup_receipt_id: lease.cleanup_receipt_id,
  };
}

export interface LedgerEntry {
  lease_id: string | null;
  tenant_id: string;
  state: Lease['state'];
  since: number;
  slot: string | null;
  project: string | null;
  units: number;
  reap_reason: string | null;
}

export interface HostLedger {
  host_id: string;
  host_key: string;
  capacity_units: number;
  verdict: 'OK' | 'HOST_CAPACITY_WAIT' | 'HOST_STARTING';
  capacity: { free_slots: number; budget_free_slots: number; observed_unmanaged_projects: number };
  queued: number;
  leases: LedgerEntry[];
}

/** Who holds a host's units since when. Of other tenants only tenant, state, units and since. */
export function hostLedger(state: State, hostId: string, tenant: string): HostLedger | null {
  const host = state.hosts.get(hostId);
  if (host === undefined) return null;
  const free = Math.max(0, host.capacity_units - unitsTaken(state, hostId));
  let queued = 0;
  const leases: LedgerEntry[] = [];
  for (const lease of state.leases.values()) {
    if (lease.host_id !== hostId) continue;
    if (lease.state === 'queued') {
      queued += 1;
      continue;
    }
    const own = lease.tenant === tenant;
    leases.push({
      lease_id: own ? lease.lease_id : null,
      tenant_id: lease.tenant,
      state: lease.state,
      since: lease.since,
      slot: own ? lease.slot : null,
      project: own ? lease.project : null,
      units: lease.units,
      reap_reason: own ? lease.reap_reason : null,
    });
  }
  return {
    host_id: hostId,
    host_key: host.host_key,
    capacity_units: host.capacity_units,
    verdict: host.ready ? (free > 0 ? 'OK' : 'HOST_CAPACITY_WAIT') : 'HOST_STARTING',
    capacity: { free_slots: free, budget_free_slots: free, observed_unmanaged_projects: 0 },
    queued,
    leases: leases.sort((a, b) => a.since - b.since),
  };
}

/** Something that keeps an embedded coordinator alive: it may end by itself only when this is false. */
export function hasAnythingAlive(state: State): boolean {
  return state.leases.size > 0 || state.jobs.size > 0 || state.waits.size > 0;
}

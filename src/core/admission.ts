/**
 * Who gets a host's units next. Rank: priority with ageing, then arrival. The first in rank that does not fit holds
 * back everybody behind it on that host, so that small leases never starve a large one; idle stacks make room for it,
 * oldest first. Must not free a unit without a proof: units of a reaping lease stay taken.
 */
import { BOUNDS } from './bounds.ts';
import type { Draft } from './draft.ts';
import { type Host, type Lease, type State, UNIT_HOLDING } from './model.ts';
import { beginReaping, openJob } from './reaping.ts';

/**
 * Priority with ageing: each step of priority is worth one ageing interval of waiting. Everybody ages alike, so the
 * order of two leases never changes while they wait, and no lease waits for ever.
 */
export function rankTime(lease: Lease): number {
  return lease.requested_at - lease.priority * BOUNDS.ageingStepMs;
}

/** The queue of a host, first in rank first. */
export function rankedQueue(state: State, hostId: string): Lease[] {
  const queue: Lease[] = [];
  for (const lease of state.leases.values()) {
    if (lease.state === 'queued' && lease.host_id === hostId) queue.push(lease);
  }
  return queue.sort((a, b) => rankTime(a) - rankTime(b) || a.arrival_seq - b.arrival_seq);
}

export function unitsTaken(state: State, hostId: string): number {
  let units = 0;
  for (const lease of state.leases.values()) {
    if (lease.host_id === hostId && UNIT_HOLDING[lease.state]) units += lease.units;
  }
  return units;
}

export type AdmissionVerdict = 'admit' | 'host_starting' | 'capacity' | 'over_capacity';

/** Whether this lease may have its units now. The whole rule of capacity. */
export function judgeAdmission(lease: Lease, host: Host | undefined, takenUnits: number): AdmissionVerdict {
  if (host === undefined || !host.ready) return 'host_starting';
  if (lease.units > host.capacity_units) return 'over_capacity';
  return takenUnits + lease.units <= host.capacity_units ? 'admit' : 'capacity';
}

export function settleHosts(draft: Draft): void {
  for (const hostId of draft.stirredHosts) {
    draft.stirredHosts.delete(hostId);
    admitHost(draft, hostId);
  }
}

function admitHost(draft: Draft, hostId: string): void {
  for (const lease of rankedQueue(draft.state, hostId)) {
    const host = draft.state.hosts.get(hostId);
    const verdict = judgeAdmission(lease, host, unitsTaken(draft.state, hostId));
    if (verdict === 'over_capacity') continue;
    if (verdict === 'admit') {
      grant(draft, lease);
      continue;
    }
    if (verdict === 'capacity') preemptIdle(draft, lease, host as Host);
    return;
  }
}

function grant(draft: Draft, lease: Lease): void {
  draft.emit({
    type: 'lease_granted',
    lease_id: lease.lease_id,
    fencing_token: draft.state.next_token,
    placement_reason: 'local',
  });
  openJob(draft, lease, 'provision_stack');
}

/** Reaps as many idle leases, oldest first, as the ranked one needs on top of what is already on its way out. */
function preemptIdle(draft: Draft, wanting: Lease, host: Host): void {
  let missing = wanting.units - (host.capacity_units - unitsTaken(draft.state, host.host_id));
  const idle: Lease[] = [];
  for (const lease of draft.state.leases.values()) {
    if (lease.host_id !== host.host_id) continue;
    if (lease.state === 'reaping') missing -= lease.units;
    if (lease.state === 'idle') idle.push(lease);
  }
  idle.sort((a, b) => (a.idle_since ?? 0) - (b.idle_since ?? 0) || a.arrival_seq - b.arrival_seq);
  for (const lease of idle) {
    if (missing <= 0) return;
    missing -= lease.units;
    beginReaping(draft, lease, { reason: 'preempted_idle', disposition: lease.reap_disposition });
  }
}

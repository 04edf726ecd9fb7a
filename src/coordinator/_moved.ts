/** Whom a commit concerns: the leases that moved, the waits that ended, the hosts that have something to do. */
import type { Event, SequencedEvent } from '../core/events.ts';
import type { ArchiveRow } from '../core/inputs.ts';
import type { EndedWait, Lease, State } from '../core/model.ts';

export interface Moved {
  leases: Map<string, Lease>;
  endedWaits: Map<string, EndedWait>;
  /** Host id -> what moved there first. */
  hosts: Map<string, string>;
}

/** What the Helper did itself, or cannot act upon. */
const NO_WORK_FOR_HELPER: ReadonlySet<Event['type']> = new Set([
  'host_beaconed',
  'lease_requested',
  'lease_activated',
  'job_claimed',
]);

export function movedBy(state: State, events: readonly SequencedEvent[], ended: readonly ArchiveRow[]): Moved {
  const moved: Moved = { leases: new Map(), endedWaits: new Map(), hosts: new Map() };
  const endedLeases = new Map<string, Lease>();
  for (const row of ended) {
    if (row.kind === 'wait') moved.endedWaits.set(row.id, row.body.ended);
    else endedLeases.set(row.id, row.body);
  }
  const leaseOf = (id: string) => state.leases.get(id) ?? endedLeases.get(id);
  for (const { event } of events) {
    const lease = 'lease_id' in event ? leaseOf(event.lease_id) : undefined;
    const known = event.type === 'lease_requested' ? leaseOf(event.lease.lease_id) : lease;
    if (known !== undefined) moved.leases.set(known.lease_id, known);
    const hostId = hostOf(state, event, known);
    if (hostId === null || NO_WORK_FOR_HELPER.has(event.type) || moved.hosts.has(hostId)) continue;
    moved.hosts.set(hostId, event.type);
  }
  return moved;
}

function hostOf(state: State, event: Event, lease: Lease | undefined): string | null {
  if (lease !== undefined) return lease.host_id;
  switch (event.type) {
    case 'host_registered':
      return event.host.host_id;
    case 'host_beaconed':
      return event.host_id;
    case 'job_opened':
      return event.job.host_id;
    case 'job_claimed':
    case 'job_reopened':
    case 'job_retry_later':
      return state.jobs.get(event.job_id)?.host_id ?? null;
    default:
      return null;
  }
}

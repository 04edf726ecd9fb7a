/** What must hold after every input, each as a function that answers with its violations. The simulation runs all. */
import { unitsTaken } from './admission.ts';
import type { DeadlineKind } from './deadline-heap.ts';
import { jobDeadline, leaseDeadline, waitDeadline } from './deadlines.ts';
import type { SequencedEvent } from './events.ts';
import { blocksOverlap } from './lease-request.ts';
import type { State } from './model.ts';

/** `events` are those of the input that led to the state. */
export type Invariant = (state: State, events: readonly SequencedEvent[]) => string[];

/** No grant exceeds its host. A host that shrank under its leases runs more than it has until they end. */
const capacityIsNeverExceeded: Invariant = (state, events) => {
  const violations: string[] = [];
  for (const { event } of events) {
    if (event.type !== 'lease_granted') continue;
    const lease = state.leases.get(event.lease_id);
    if (lease === undefined) continue;
    const host = state.hosts.get(lease.host_id);
    const taken = host === undefined ? 0 : unitsTaken(state, host.host_id);
    if (host === undefined) violations.push(`lease ${event.lease_id} is granted without a host`);
    else if (taken > host.capacity_units) {
      violations.push(`host ${host.host_id} runs ${taken} of ${host.capacity_units} units after a grant`);
    }
  }
  return violations;
};

const slotsHaveOneLease: Invariant = (state) => {
  const seen = new Map<string, string>();
  const violations: string[] = [];
  for (const lease of state.leases.values()) {
    const other = seen.get(lease.slot);
    if (other !== undefined) violations.push(`slot ${lease.slot} has leases ${other} and ${lease.lease_id}`);
    seen.set(lease.slot, lease.lease_id);
    if (state.index.leaseBySlot.get(lease.slot) !== lease.lease_id)
      violations.push(`slot ${lease.slot} is not indexed`);
  }
  if (state.index.leaseBySlot.size !== state.leases.size) violations.push('the slot index has leases that are gone');
  return violations;
};

const blocksAreDisjoint: Invariant = (state) => {
  const violations: string[] = [];
  const leases = [...state.leases.values()];
  for (const [i, a] of leases.entries()) {
    for (const b of leases.slice(i + 1)) {
      if (a.host_id !== b.host_id) continue;
      if (a.blocks.some((block) => b.blocks.some((other) => blocksOverlap(block, other)))) {
        violations.push(`leases ${a.lease_id} and ${b.lease_id} share ports`);
      }
    }
  }
  return violations;
};

const tokensAreUnique: Invariant = (state) => {
  const tokens = [
    ...[...state.leases.values()].map((lease) => lease.fencing_token),
    ...[...state.jobs.values()].map((job) => job.job_token),
  ].filter((token) => token !== null);
  const violations = new Set(tokens).size === tokens.length ? [] : ['two grants have one fencing token'];
  return tokens.some((token) => token >= state.next_token)
    ? [...violations, 'a token is ahead of the counter']
    : violations;
};

const jobsFitTheirLeases: Invariant = (state) => {
  const violations: string[] = [];
  for (const job of state.jobs.values()) {
    const lease = state.leases.get(job.lease_id);
    const expected = job.kind === 'reap_stack' ? 'reaping' : 'provisioning';
    if (lease?.state !== expected) violations.push(`job ${job.job_id} (${job.kind}) has a lease in ${lease?.state}`);
  }
  for (const lease of state.leases.values()) {
    const working = lease.state === 'reaping' || lease.state === 'provisioning';
    if (working !== state.index.jobByLease.has(lease.lease_id)) {
      violations.push(`lease ${lease.lease_id} in ${lease.state} ${working ? 'has no job' : 'has a job'}`);
    }
  }
  return violations;
};

const grantsHaveTokens: Invariant = (state) =>
  [...state.leases.values()]
    .filter((lease) => lease.state === 'provisioning' || lease.state === 'active')
    .filter((lease) => lease.fencing_token === null)
    .map((lease) => `lease ${lease.lease_id} is granted without a token`);

const unseen = (): number => 0;

/** Whatever has a deadline has an entry in the heap, and nothing that is gone has one. */
const deadlinesAreWatched: Invariant = (state) => {
  const { deadlines } = state.index;
  const violations: string[] = [];
  const watch = (kind: DeadlineKind, id: string, deadline: unknown) => {
    if (deadline !== null && deadlines.scheduledAt(kind, id) === null) violations.push(`${kind} ${id} is not watched`);
  };
  for (const lease of state.leases.values()) watch('lease', lease.lease_id, leaseDeadline(lease, unseen));
  for (const job of state.jobs.values()) watch('job', job.job_id, jobDeadline(job, unseen));
  for (const wait of state.waits.values()) watch('wait', wait.wait_session_id, waitDeadline(wait, unseen));
  const alive = state.leases.size + state.jobs.size + state.waits.size;
  if (deadlines.size > alive) violations.push('the deadline heap outlives its objects');
  return violations;
};

export const INVARIANTS: Record<string, Invariant> = {
  capacityIsNeverExceeded,
  slotsHaveOneLease,
  blocksAreDisjoint,
  tokensAreUnique,
  jobsFitTheirLeases,
  grantsHaveTokens,
  deadlinesAreWatched,
};

/** All violations in one list, each with its invariant's name; empty when everything holds. */
export function violationsOf(state: State, events: readonly SequencedEvent[] = []): string[] {
  return Object.entries(INVARIANTS).flatMap(([name, holds]) =>
    holds(state, events).map((violation) => `${name}: ${violation}`),
  );
}

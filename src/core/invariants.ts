/** What must hold after every input, each as a function that answers with its violations. The simulation runs all. */
import { unitsTaken } from './admission.ts';
import { blocksOverlap } from './lease-request.ts';
import type { State } from './model.ts';

export type Invariant = (state: State) => string[];

const capacityIsNeverExceeded: Invariant = (state) =>
  [...state.hosts.values()]
    .filter((host) => unitsTaken(state, host.host_id) > host.capacity_units)
    .map((host) => `host ${host.host_id} runs ${unitsTaken(state, host.host_id)} of ${host.capacity_units} units`);

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

const deadlinesAreWatched: Invariant = (state) => {
  const alive = state.leases.size + state.jobs.size + state.waits.size;
  return state.index.deadlines.size <= alive ? [] : ['the deadline heap outlives its objects'];
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
export function violationsOf(state: State): string[] {
  return Object.entries(INVARIANTS).flatMap(([name, holds]) =>
    holds(state).map((violation) => `${name}: ${violation}`),
  );
}

/**
 * The naive model: plain lists, no index, no table, no cleverness. It follows the committed events and says of each
 * whether it may be; and it says beforehand of each input whether the answer has to be a no. It shares no code with the
 * core on purpose: what both get wrong has to be got wrong twice.
 */
import type { SequencedEvent } from '../../src/core/events.ts';
import type { Input, StatementFacts } from '../../src/core/inputs.ts';
import type { Job, Lease, PortBlock, State } from '../../src/core/model.ts';

interface ModelLease {
  id: string;
  slot: string;
  host: string;
  units: number;
  blocks: readonly PortBlock[];
  state: string;
  token: number;
  /** When a lease of no priority would have had to ask to stand where this one stands. */
  rank: number;
  arrival: number;
  claimedOnce: boolean;
  rolledBack: boolean;
  idleSince: number;
}

interface ModelHost {
  id: string;
  capacity: number;
  open: boolean;
}

/** One step of priority weighs as much as waiting this long. */
const PRIORITY_STEP_MS = 300_000;
const LIVE_UNITS = ['provisioning', 'active', 'idle', 'reaping', 'reap_failed'];
const PROOFS_BY_STATEMENT = ['signed_reap', 'pre_driver_absence'];

const touches = (a: PortBlock, b: PortBlock): boolean =>
  Math.max(a.port_base, b.port_base) < Math.min(a.port_base + a.size, b.port_base + b.size);

export class ReferenceModel {
  readonly leases: ModelLease[] = [];
  readonly reaped = new Map<string, ModelLease>();
  readonly #hosts: ModelHost[] = [];
  readonly #jobs: { id: string; lease: string; state: string; token: number }[] = [];
  readonly #statements = new Map<string, StatementFacts>();
  readonly #openWaits = new Set<string>();
  readonly #endedWaits = new Set<string>();
  #highestToken = 0;
  readonly #complain: (promise: string, what: string) => void;

  constructor(complain: (promise: string, what: string) => void) {
    this.#complain = complain;
  }

  lease(id: string): ModelLease | undefined {
    return this.leases.find((lease) => lease.id === id);
  }

  unitsOn(host: string): number {
    return this.leases
      .filter((lease) => lease.host === host && LIVE_UNITS.includes(lease.state))
      .reduce((sum, lease) => sum + lease.units, 0);
  }

  /** A statement is on its way in; which one proved what is told by its receipt. */
  told(statement: StatementFacts): void {
    this.#statements.set(statement.receipt_id, statement);
  }

  observe({ seq, at, event }: SequencedEvent): void {
    switch (event.type) {
      case 'host_registered':
        this.#hostIs(event.host.host_id, event.host.capacity_units, false);
        return;
      case 'host_beaconed':
        this.#hostIs(event.host_id, event.capacity_units, true);
        return;
      case 'lease_requested':
        this.#requested(event.lease, seq);
        return;
      case 'lease_granted':
        this.#granted(event.lease_id, event.fencing_token);
        return;
      case 'lease_readopting':
        this.#readopting(event.lease_id, event.fencing_token, at, seq);
        return;
      case 'lease_activated':
        this.#move(event.lease_id, ['provisioning'], 'active');
        return;
      case 'lease_deferred':
        this.#provenBy(event.lease_id, event.receipt_id);
        this.#move(event.lease_id, ['provisioning'], 'queued');
        this.#change(event.lease_id, { rolledBack: true });
        return;
      case 'lease_idled':
        this.#move(event.lease_id, ['active'], 'idle');
        this.#change(event.lease_id, { idleSince: at });
        return;
      case 'lease_reaping':
        if (event.reap_reason === 'preempted_idle') this.#preempted(event.lease_id);
        this.#move(event.lease_id, ['queued', 'provisioning', 'active', 'idle', 'reap_failed'], 'reaping');
        return;
      case 'lease_reaped':
        this.#reaped(event.lease_id, event.cleanup_proof, event.cleanup_receipt_id);
        return;
      case 'lease_reap_failed':
        this.#move(event.lease_id, ['reaping'], 'reap_failed');
        return;
      default:
        this.#observeRest(event);
        return;
    }
  }

  #observeRest(event: SequencedEvent['event']): void {
    switch (event.type) {
      case 'job_opened':
        this.#jobs.push({ id: event.job.job_id, lease: event.job.lease_id, state: 'open', token: 0 });
        return;
      case 'job_claimed': {
        const job = this.#jobs.find(({ id }) => id === event.job_id);
        if (job?.state !== 'open') this.#complain('jobs', `${event.job_id} is claimed while ${job?.state}`);
        this.#takeToken(event.job_token, `the claim of ${event.job_id}`);
        if (job !== undefined) Object.assign(job, { state: 'claimed', token: event.job_token });
        const lease = this.lease(job?.lease ?? '');
        if (lease !== undefined) lease.claimedOnce = true;
        return;
      }
      case 'job_reopened':
      case 'job_retry_later': {
        const job = this.#jobs.find(({ id }) => id === event.job_id);
        if (job !== undefined) job.state = event.type === 'job_reopened' ? 'open' : 'waiting';
        return;
      }
      case 'job_closed':
        this.#jobs.splice(
          this.#jobs.findIndex(({ id }) => id === event.job_id),
          1,
        );
        return;
      case 'wait_registered':
        this.#openWaits.add(event.wait.wait_session_id);
        return;
      case 'wait_ended':
        if (!this.#openWaits.delete(event.wait_session_id) || this.#endedWaits.has(event.wait_session_id)) {
          this.#complain('one outcome a wait', `wait ${event.wait_session_id} ends again as ${event.outcome}`);
        }
        this.#endedWaits.add(event.wait_session_id);
        return;
      default:
        return;
    }
  }

  #hostIs(id: string, capacity: number, open: boolean): void {
    const host = this.#hosts.find((known) => known.id === id);
    if (host === undefined) this.#hosts.push({ id, capacity, open });
    else Object.assign(host, { capacity, open });
  }

  #requested(asked: Lease, seq: number): void {
    for (const other of this.leases) {
      if (other.slot === asked.slot)
        this.#complain('one lease a slot', `${asked.lease_id} and ${other.id} on ${other.slot}`);
      if (other.host === asked.host_id && other.blocks.some((a) => asked.blocks.some((b) => touches(a, b)))) {
        this.#complain('blocks disjoint', `${asked.lease_id} shares ports with ${other.id}`);
      }
    }
    this.leases.push({
      id: asked.lease_id,
      slot: asked.slot,
      host: asked.host_id,
      units: asked.units,
      blocks: asked.blocks,
      state: 'queued',
      token: 0,
      rank: asked.requested_at - asked.priority * PRIORITY_STEP_MS,
      arrival: seq,
      claimedOnce: false,
      rolledBack: false,
      idleSince: 0,
    });
  }

  #granted(id: string, token: number): void {
    const lease = this.lease(id);
    const host = this.#hosts.find((known) => known.id === lease?.host);
    if (lease === undefined || host === undefined) {
      this.#complain('capacity', `grant of ${id} on no host`);
      return;
    }
    if (!host.open) this.#complain('capacity', `${id} is granted on a host that is not open`);
    const ahead = this.leases.find(
      (other) =>
        other !== lease &&
        other.state === 'queued' &&
        other.host === lease.host &&
        other.units <= host.capacity &&
        (other.rank < lease.rank || (other.rank === lease.rank && other.arrival < lease.arrival)),
    );
    if (ahead !== undefined) this.#complain('queue order', `${id} is granted before ${ahead.id}`);
    this.#move(id, ['queued'], 'provisioning');
    const units = this.unitsOn(host.id);
    if (units > host.capacity) this.#complain('capacity', `${units} of ${host.capacity} units with the grant of ${id}`);
    this.#takeToken(token, `the grant of ${id}`);
    this.#change(id, { token, rolledBack: false });
  }

  #readopting(id: string, token: number, at: number, seq: number): void {
    this.#move(id, ['idle'], 'provisioning');
    this.#takeToken(token, `the re-adoption of ${id}`);
    this.#change(id, { token, rank: at, arrival: seq });
  }

  #preempted(id: string): void {
    const lease = this.lease(id);
    if (lease?.state !== 'idle') return;
    const waits = this.leases.some((other) => other.state === 'queued' && other.host === lease?.host);
    if (!waits) this.#complain('idle preemption', `${id} is preempted for nobody`);
    const older = this.leases.find(
      (other) => other.host === lease?.host && other.state === 'idle' && other.idleSince < (lease?.idleSince ?? 0),
    );
    if (older !== undefined) this.#complain('idle preemption', `${id} is preempted before ${older.id}`);
  }

  #reaped(id: string, proof: string, receipt: string | null): void {
    const lease = this.lease(id);
    this.#move(id, ['reaping'], 'reaped');
    if (lease === undefined) return;
    if (proof === 'never_provisioned' && lease.claimedOnce) {
      this.#complain('proof', `${id} counts as never provisioned, and a Helper had its job`);
    }
    if (PROOFS_BY_STATEMENT.includes(proof)) this.#provenBy(id, receipt);
    this.leases.splice(this.leases.indexOf(lease), 1);
    this.reaped.set(id, lease);
  }

  /** Signed, about this very grant, and everything that was looked for was absent. */
  #provenBy(id: string, receipt: string | null): void {
    const said = this.#statements.get(receipt ?? '');
    const lease = this.lease(id);
    const absent = said?.looked_for.every(({ after }) => after === 'absent') && said.looked_for.length > 0;
    const same = said?.lease_id === id && said.slot === lease?.slot && said.fencing_token === lease.token;
    if (!said?.signature_valid || !absent || !same)
      this.#complain('proof', `${id} is freed by a statement that proves nothing`);
  }

  #move(id: string, from: readonly string[], to: string): void {
    const lease = this.lease(id);
    if (lease === undefined || !from.includes(lease.state)) {
      this.#complain('lease states', `${id} goes from ${lease?.state} to ${to}`);
    }
    if (lease !== undefined) lease.state = to;
  }

  #change(id: string, changes: Partial<ModelLease>): void {
    const lease = this.lease(id);
    if (lease !== undefined) Object.assign(lease, changes);
  }

  #takeToken(token: number, what: string): void {
    if (token <= this.#highestToken)
      this.#complain('tokens rise', `${what} has token ${token} after ${this.#highestToken}`);
    this.#highestToken = Math.max(this.#highestToken, token);
  }
}

/** Whether the answer has to be a no, or which no, as far as the naive rules know; null where they do not judge. */
export function mustRefuse(input: Input, state: State): boolean | string | null {
  switch (input.type) {
    case 'request_lease':
      return mustRefuseRequest(input.request, state);
    case 'touch_lease': {
      const lease = state.leases.get(input.lease_id);
      if (lease === undefined || !['queued', 'provisioning', 'active'].includes(lease.state)) return true;
      return input.fencing_token !== null && input.fencing_token !== lease.fencing_token;
    }
    case 'release_lease': {
      const lease = state.leases.get(input.lease_id) ?? input.archived;
      return (
        lease === null || lease === undefined || (input.claim_token !== null && input.claim_token !== lease.claim_token)
      );
    }
    case 'claim_job': {
      const job = state.jobs.get(input.job_id);
      return job?.state !== 'open' || state.hosts.get(job.host_id)?.incarnation !== input.incarnation;
    }
    case 'renew_job':
    case 'fail_job':
      return !isHeld(state.jobs.get(input.job_id), input.job_token);
    case 'complete_job': {
      const job = state.jobs.get(input.job_id);
      return !isHeld(job, input.job_token) || (job?.kind !== 'reap_stack' && input.connection === null);
    }
    case 'defer_job': {
      const job = state.jobs.get(input.job_id);
      return !isHeld(job, input.job_token) || job?.kind === 'reap_stack';
    }
    case 'stack_lost': {
      const lease = state.leases.get(input.lease_id);
      const helper = state.hosts.get(input.host_id)?.incarnation;
      return lease?.fencing_token !== input.fencing_token || helper !== input.incarnation;
    }
    default:
      return null;
  }
}

const isHeld = (job: Job | undefined, token: number): boolean => job?.state === 'claimed' && job.job_token === token;

type Asked = Extract<Input, { type: 'request_lease' }>['request'];

function mustRefuseRequest(asked: Asked, state: State): boolean | string {
  const all = [...state.leases.values()];
  const live = all.find((lease) => lease.slot === asked.slot);
  const capacity = state.hosts.get(asked.host_id);
  if (capacity?.ready && asked.units > capacity.capacity_units) return true;
  if (live === undefined) {
    const clashes = (lease: Lease) => lease.blocks.some((a) => asked.blocks.some((b) => touches(a, b)));
    return all.some((lease) => lease.host_id === asked.host_id && clashes(lease)) && 'PORT_BLOCK_TAKEN';
  }
  if (live.agent !== asked.agent || live.principal !== asked.principal || live.tenant !== asked.tenant)
    return 'SLOT_HELD';
  if (live.state === 'idle') {
    const same = JSON.stringify(live.blocks) === JSON.stringify(asked.blocks) && live.units === asked.units;
    return !same || live.host_id !== asked.host_id;
  }
  return live.state === 'reaping' || live.state === 'reap_failed' || live.claim_token !== asked.claim_token;
}

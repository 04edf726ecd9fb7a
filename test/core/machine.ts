/** Drives the real machines in a test: one clock, one liveness table, the log kept, every invariant after every input. */
import { expect } from 'bun:test';
import { apply } from '../../src/core/apply.ts';
import { nextDeadline } from '../../src/core/deadlines.ts';
import type { SequencedEvent } from '../../src/core/events.ts';
import type {
  ArchiveRow,
  Input,
  InputType,
  LeaseRequest,
  Refusal,
  Replies,
  StatementFacts,
  StepContext,
  StepResult,
} from '../../src/core/inputs.ts';
import { violationsOf } from '../../src/core/invariants.ts';
import type { Job, Lease, State } from '../../src/core/model.ts';
import { emptyState } from '../../src/core/state.ts';
import { step } from '../../src/core/step.ts';

export const BY = { principal: 'owner', tenant: 'local' } as const;
export const HOST = 'host-1';
export const START = 1_000_000;

export type Fields<T extends InputType> = Omit<Extract<Input, { type: T }>, 'type'>;

export class Machine {
  readonly state: State = emptyState();
  readonly log: SequencedEvent[] = [];
  readonly archive: ArchiveRow[] = [];
  readonly seen = new Map<string, number>();
  now = START;
  graceUntil = 0;
  #leases = 0;

  submit<T extends InputType>(type: T, fields: Fields<T>): StepResult<T> {
    const input = { type, ...fields } as Extract<Input, { type: T }>;
    const result = step<T>(this.state, input, this.context());
    this.log.push(...structuredClone(result.events));
    this.archive.push(...result.archive);
    expect(violationsOf(this.state)).toEqual([]);
    return result;
  }

  /** The reply, or a failing test. */
  ask<T extends InputType>(type: T, fields: Fields<T>): Replies[T] {
    const result = this.submit(type, fields);
    if (!result.ok) throw new Error(`${type} was refused: ${result.refusal.code} ${result.refusal.message}`);
    return result.reply;
  }

  /** The refusal, or a failing test. */
  refused<T extends InputType>(type: T, fields: Fields<T>): Refusal {
    const result = this.submit(type, fields);
    if (result.ok) throw new Error(`${type} was not refused`);
    return result.refusal;
  }

  context(): StepContext {
    return {
      now: this.now,
      grace_until: this.graceUntil,
      liveness: { lastSeenAt: (kind, id) => this.seen.get(`${kind}:${id}`) ?? 0 },
    };
  }

  see(kind: 'lease' | 'job' | 'wait', id: string): void {
    this.seen.set(`${kind}:${id}`, this.now);
  }

  /** Lets time pass and ticks at each deadline on the way, as the ticker does. */
  pass(ms: number): void {
    const until = this.now + ms;
    for (let next = nextDeadline(this.state); next !== null && next.at <= until; next = nextDeadline(this.state)) {
      this.now = Math.max(this.now, next.at);
      this.ask('tick', {});
    }
    this.now = until;
  }

  host(units: number, { host_id = HOST, incarnation = 'helper-1', beacon = true } = {}): void {
    this.ask('register_host', {
      host_id,
      host_key: host_id,
      capacity_units: units,
      protocol_version: 4,
      helper_version: '1.0.0',
      incarnation,
      key_id: 'key-1',
      public_key: 'public-1',
    });
    if (beacon) this.ask('host_beacon', { host_id, incarnation, capacity_units: units });
  }

  request(slot: string, changes: Partial<LeaseRequest> = {}): Lease {
    return this.ask('request_lease', { request: this.asking(slot, changes) }).lease;
  }

  /** A well-formed request for a slot, with ports of its own. */
  asking(slot: string, changes: Partial<LeaseRequest> = {}): LeaseRequest {
    this.#leases += 1;
    return {
      lease_id: `lease-${this.#leases}`,
      principal: BY.principal,
      agent: `agent-of-${slot}`,
      mode: 'attached',
      claim_token: `token-${this.#leases}`,
      plan_digest: 'plan',
      ttl_ms: 60_000,
      idle_ttl_ms: 1_800_000,
      hard_ttl_ms: null,
      labels: {},
      tenant: BY.tenant,
      slot,
      project: `bb-${slot}`,
      host_id: HOST,
      worktree_root: `/worktrees/${slot}`,
      stack_path: '.',
      units: 1,
      priority: 0,
      blocks: [{ port_base: 20_000 + this.#leases * 20, size: 20 }],
      queue_timeout_ms: 1_800_000,
      ...changes,
    };
  }

  lease(leaseId: string): Lease {
    const lease = this.state.leases.get(leaseId) ?? this.archived(leaseId);
    if (lease === undefined) throw new Error(`no lease ${leaseId}`);
    return lease;
  }

  archived(leaseId: string): Lease | undefined {
    for (const row of this.archive) if (row.kind === 'lease' && row.id === leaseId) return row.body;
    return undefined;
  }

  jobOf(lease: Lease): Job {
    const job = this.state.jobs.get(this.state.index.jobByLease.get(lease.lease_id) ?? '');
    if (job === undefined) throw new Error(`lease ${lease.lease_id} has no job`);
    return job;
  }

  /** A Helper takes the lease's job; answers with its job token. */
  claim(lease: Lease, incarnation = 'helper-1'): { job_id: string; job_token: number } {
    const { job } = this.ask('claim_job', {
      job_id: this.jobOf(lease).job_id,
      host_id: lease.host_id,
      incarnation,
    });
    return { job_id: job.job_id, job_token: job.job_token ?? 0 };
  }

  provision(lease: Lease): Lease {
    this.ask('complete_job', { ...this.claim(lease), connection: CONNECTION, reprovisioned: null, statement: null });
    return this.lease(lease.lease_id);
  }

  /** A lease of the slot that runs. */
  active(slot: string, changes: Partial<LeaseRequest> = {}): Lease {
    return this.provision(this.request(slot, changes));
  }

  idle(slot: string, changes: Partial<LeaseRequest> = {}): Lease {
    const lease = this.active(slot, changes);
    this.release(lease, 'idle');
    return lease;
  }

  release(
    lease: Lease,
    how: 'idle' | 'reap',
    changes: Partial<Fields<'release_lease'>> = {},
  ): Replies['release_lease'] {
    return this.ask('release_lease', {
      lease_id: lease.lease_id,
      by: BY,
      claim_token: null,
      how,
      disposition: 'destroy',
      idle_ttl_ms: null,
      reason: 'test',
      archived: this.state.leases.has(lease.lease_id) ? null : (this.archived(lease.lease_id) ?? null),
      ...changes,
    });
  }

  /** A Helper proves the end of a reaping lease. */
  reap(lease: Lease, changes: Partial<StatementFacts> = {}): Lease {
    this.ask('complete_job', {
      ...this.claim(lease),
      connection: null,
      reprovisioned: null,
      statement: statementOf(lease, { disposition: lease.reap_disposition, ...changes }),
    });
    return this.lease(lease.lease_id);
  }

  /** Reaps with an unproven look until the coordinator gives up. */
  failReap(lease: Lease): Lease {
    for (let tries = 0; tries < 10 && this.lease(lease.lease_id).state === 'reaping'; tries += 1) {
      if (this.jobOf(lease).state === 'waiting') this.pass(60_000);
      this.ask('fail_job', { ...this.claim(lease), error: 'engine gone', error_class: 'engine', statement: null });
    }
    return this.lease(lease.lease_id);
  }

  wait(id: string, conditions: Fields<'register_wait'>['wait']['conditions'], mode: 'all' | 'any' = 'all') {
    return this.ask('register_wait', this.waiting(id, conditions, { mode }));
  }

  waiting(
    id: string,
    conditions: Fields<'register_wait'>['wait']['conditions'],
    changes: Partial<Fields<'register_wait'>['wait']> = {},
  ): Fields<'register_wait'> {
    const archived: Record<string, Lease> = {};
    for (const condition of conditions) {
      if (condition.type !== 'lease') continue;
      const lease = this.archived(condition.lease_id);
      if (lease !== undefined) archived[condition.lease_id] = lease;
    }
    const wait = {
      wait_session_id: id,
      tenant: BY.tenant,
      principal: BY.principal,
      agent: 'agent',
      conditions,
      mode: 'all' as const,
      deadline_at: this.now + 1_800_000,
      ...changes,
    };
    return { wait, archived };
  }

  /** How the wait ended, as it was archived; null while it is open. */
  endOf(waitId: string) {
    for (const row of this.archive) if (row.kind === 'wait' && row.id === waitId) return row.body.ended;
    return null;
  }

  typesSince(seq: number): string[] {
    return this.log.filter((entry) => entry.seq > seq).map(({ event }) => event.type);
  }
}

export const CONNECTION = { host: '127.0.0.1', ports: { db: 20_000 }, urls: {} } as const;

/** What a Helper that looked and found nothing says of a lease. */
export function statementOf(lease: Lease, changes: Partial<StatementFacts> = {}): StatementFacts {
  return {
    receipt_id: `receipt-of-${lease.lease_id}`,
    signature_valid: true,
    kind: 'reap',
    lease_id: lease.lease_id,
    slot: lease.slot,
    tenant: lease.tenant,
    host_id: lease.host_id,
    fencing_token: lease.fencing_token ?? -1,
    plan_digest: lease.plan_digest,
    disposition: 'destroy',
    looked_for: [
      { kind: 'group', id: '1', after: 'absent' },
      { kind: 'port', id: '20000', after: 'absent' },
    ],
    ...changes,
  };
}

/** Folds a log anew. */
export function replay(log: readonly SequencedEvent[]): State {
  const state = emptyState();
  for (const event of log) apply(state, structuredClone(event));
  return state;
}

/**
 * The steps of a job as they are done on this host: the driver, the plan, the claims and the client's child.
 * Decides nothing: which step comes next is `job-rules.ts`.
 */
import type { Clock } from '../platform/clock.ts';
import { pathExists, removeDurable } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { endProcessTree } from '../platform/processes.ts';
import { withTimeout } from '../platform/timers.ts';
import type { Connection, Disposition, Job } from '../protocol/records.ts';
import type { StackPlan } from '../protocol/stack-plan.ts';
import type { Creation } from '../protocol/stack-records.ts';
import type { LeaseForHelper } from '../protocol/tool-calls.ts';
import { confirmClaims } from '../stack/claim-binding.ts';
import { claimsOfLease } from '../stack/claim-registry.ts';
import type { DriverContext, StackDriver } from '../stack/driver.ts';
import { installedPlan, loadPlan } from '../stack/plan.ts';
import { slotDirNameOf, slotDirOf, slotPaths } from '../stack/slot.ts';
import { REAP_MARK } from '../stack/variables.ts';
import type { LookedForEntry } from './attest.ts';
import { askerOf, claimViewOf } from './claim-view.ts';
import type { Inspection, StackHands } from './job-ports.ts';
import { compareGrant, type DiskFacts, type PlanView } from './job-progress.ts';
import { creationIn, restoreCreation, supervisorListens } from './slot-record.ts';

const CHILD_GRACE_MS = 5_000;
/** A start that was broken off ends when its supervisor was told to stop; one that has none yet is waited for. */
const BROKEN_OFF_MS_MAX = 20_000;

export class HostHands implements StackHands {
  readonly #home: string;
  readonly #hostKey: string;
  readonly #driver: StackDriver;
  readonly #clock: Clock;
  /** Starts that go on although nobody waits for them any more. */
  readonly #starting = new Map<string, Promise<unknown>>();

  constructor(options: { home: string; hostKey: string; driver: StackDriver; clock: Clock }) {
    this.#home = options.home;
    this.#hostKey = options.hostKey;
    this.#driver = options.driver;
    this.#clock = options.clock;
  }

  async read(job: Job, lease: LeaseForHelper): Promise<Omit<DiskFacts, 'stored'>> {
    const slotDir = this.#slotDir(lease);
    const listens = await supervisorListens(this.#home, slotDir);
    if (listens && creationIn(this.#home, slotDir) === null) restoreCreation(slotDir, lease, this.#clock.wallMs());
    const creation = creationIn(this.#home, slotDir);
    const made = creation === null || creation === 'unreadable' ? null : creation;
    const grant = { ...lease, fencing_token: tokenOf(lease) };
    return {
      grant: compareGrant(grant, creation),
      recordPlan: made?.plan_digest === lease.plan_digest ? 'same' : 'other',
      recordMade: made !== null && made.created_at >= job.opened_at ? 'for_this_job' : 'before',
      claim: claimViewOf(this.#home, this.#hostKey, lease),
      plan: planView(slotDir, lease.plan_digest),
      supervisor: listens ? 'alive' : pathExists(slotPaths(slotDir).supervisor) ? 'dead' : 'none',
    };
  }

  async bindClaim(lease: LeaseForHelper): Promise<void> {
    await confirmClaims({
      home: this.#home,
      asker: askerOf(this.#home, this.#hostKey, lease),
      slotDirName: slotDirNameOf(lease.slot),
      leaseId: lease.lease_id,
      blocks: lease.blocks,
      idleTtlMs: lease.idle_ttl_ms,
    });
  }

  async inspect(lease: LeaseForHelper): Promise<Inspection> {
    const seen = await this.#driver.inspect(this.#context(lease));
    if (seen.whole) return { found: 'whole', reason: null, connection: seen.connection };
    return { found: seen.reason === 'not_ready' ? 'starting' : 'broken', reason: seen.reason, connection: null };
  }

  async provision(lease: LeaseForHelper, signal: AbortSignal): Promise<Connection> {
    this.#dropForeignRecord(lease);
    const context = this.#context(lease);
    await this.#driver.prepare(context);
    return this.#up(context, signal);
  }

  attach(lease: LeaseForHelper, signal: AbortSignal): Promise<Connection> {
    return this.#up(this.#context(lease), signal);
  }

  async endChild(lease: LeaseForHelper, marked: boolean): Promise<boolean> {
    const children = claimsOfLease(this.#home, lease.lease_id).flatMap(({ child }) => child ?? []);
    if (children.length > 0) await endProcessTree({ groups: children, graceMs: CHILD_GRACE_MS });
    if (!marked) return false;
    const mark = { name: REAP_MARK, value: lease.lease_id };
    const { ended } = await endProcessTree({ groups: [], mark, graceMs: CHILD_GRACE_MS });
    return ended > 0;
  }

  async tearDown(lease: LeaseForHelper, disposition: Disposition): Promise<void> {
    const foreign = this.#foreignRecord(lease);
    if (foreign !== null) return this.#driver.down(this.#foreignContext(lease, foreign), 'stop');
    const context = this.#context(lease);
    await this.#driver.down(context, disposition);
    const starting = this.#starting.get(context.slotDir);
    if (starting === undefined) return;
    await withTimeout(starting, BROKEN_OFF_MS_MAX);
    await this.#driver.down(context, disposition);
  }

  async look(lease: LeaseForHelper, disposition: Disposition): Promise<LookedForEntry[]> {
    const foreign = this.#foreignRecord(lease);
    const own = await this.#driver.absence(this.#context(lease), disposition);
    if (foreign === null) return own;
    return [...own, ...(await this.#driver.absence(this.#foreignContext(lease, foreign), 'stop'))];
  }

  /** The reap was taken: what was recorded at creation has been proven gone. */
  forget(lease: LeaseForHelper): void {
    const slotDir = this.#slotDir(lease);
    const creation = creationIn(this.#home, slotDir);
    if (creation !== null && creation !== 'unreadable' && creation.lease_id === lease.lease_id) {
      removeDurable(slotPaths(slotDir).creation);
    }
  }

  async #up(context: DriverContext, signal: AbortSignal): Promise<Connection> {
    const starting = this.#driver.up(context);
    const settled = starting.then(
      () => undefined,
      () => undefined,
    );
    this.#starting.set(context.slotDir, settled);
    void settled.finally(() => {
      if (this.#starting.get(context.slotDir) === settled) this.#starting.delete(context.slotDir);
    });
    const result = await orAborted(starting, signal);
    if (result.outcome === 'ready') return result.connection;
    throw new Failure(result.code, result.message, { fields: { ...result.fields } });
  }

  #slotDir(lease: LeaseForHelper): string {
    return slotDirOf(this.#home, slotDirNameOf(lease.slot));
  }

  #context(lease: LeaseForHelper): DriverContext {
    const slotDir = this.#slotDir(lease);
    return {
      home: this.#home,
      slotDir,
      plan: planOrNull(slotDir, lease.plan_digest),
      planDigest: lease.plan_digest,
      leaseId: lease.lease_id,
      fencingToken: tokenOf(lease),
      ttlMs: lease.ttl_ms,
    };
  }

  /** An earlier lease of the slot whose record is still there: its reap was overruled, or its coordinator is lost. */
  #foreignRecord(lease: LeaseForHelper): Creation | null {
    const creation = creationIn(this.#home, this.#slotDir(lease));
    return creation === null || creation === 'unreadable' || creation.lease_id === lease.lease_id ? null : creation;
  }

  #foreignContext(lease: LeaseForHelper, { lease_id, fencing_token, plan_digest }: Creation): DriverContext {
    const slotDir = this.#slotDir(lease);
    return {
      home: this.#home,
      slotDir,
      plan: planOrNull(slotDir, plan_digest),
      planDigest: plan_digest,
      leaseId: lease_id,
      fencingToken: Math.max(fencing_token, tokenOf(lease)),
      ttlMs: lease.ttl_ms,
    };
  }

  /** Reached only when what it records was seen gone. */
  #dropForeignRecord(lease: LeaseForHelper): void {
    if (this.#foreignRecord(lease) !== null) removeDurable(slotPaths(this.#slotDir(lease)).creation);
  }
}

function tokenOf({ lease_id, fencing_token }: LeaseForHelper): number {
  if (fencing_token === null) throw new Failure('internal', `lease ${lease_id} was never granted`);
  return fencing_token;
}

function planOrNull(slotDir: string, digest: string): StackPlan | null {
  try {
    return loadPlan(slotDir, digest).plan;
  } catch (error) {
    if (error instanceof Failure && error.code === 'plan_mismatch') return null;
    throw error;
  }
}

function planView(slotDir: string, digest: string): PlanView {
  if (planOrNull(slotDir, digest) !== null) return 'matches';
  return installedPlan(slotDir) === null ? 'missing' : 'differs';
}

function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolvePromise, reject) => {
    const onAbort = () => reject(new Failure('interrupted', 'the start of the stack was broken off'));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolvePromise, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/**
 * The Helpers of a simulation: one life after the other a host, each with beacons, jobs, supervisors, statements and
 * claims under the real rules. What they say of the world they look up in the true one.
 */
import {
  isTakenBack,
  judgeCallFailure,
  judgeJob,
  judgeStack,
  judgeStatementFile,
  judgeStrayClaim,
  judgeSupervisor,
  retryDelayMs,
  type StatementLease,
} from '../../src/helper/host-rules.ts';
import type { Claim } from '../../src/protocol/claim.ts';
import { ownerOf } from '../../src/protocol/claim.ts';
import type { Job, LeaseView } from '../../src/protocol/records.ts';
import type { LeaseForHelper } from '../../src/protocol/tool-calls.ts';
import { retainUntil } from '../../src/stack/claim-rules.ts';
import { editClaims, proofIn, releaseClaims } from './claims.ts';
import { type AttemptPorts, SimAttempt } from './helper-attempt.ts';
import { Hands, keepLimit, supervisorLimitMs } from './helper-hands.ts';
import { call } from './network.ts';
import type { Sim } from './sim.ts';
import type { Happening, Life } from './timeline.ts';
import type { KeptLook, SimHost, Stack } from './world.ts';

const BEACON_MS = 15_000;
const REGISTRATIONS_IN_A_ROW_MAX = 5;
const RENEW_CLAIMS_MS = 60_000;

/** Starts Helpers and keeps one alive. */
export class HelperKeeper {
  readonly #sim: Sim;
  readonly #host: SimHost;
  readonly lives: SimHelper[] = [];

  constructor(sim: Sim, host: SimHost) {
    this.#sim = sim;
    this.#host = host;
  }

  get living(): readonly SimHelper[] {
    return this.lives.filter((helper) => helper.life.alive);
  }

  start(): void {
    const helper = new SimHelper(this.#sim, this.#host);
    this.lives.push(helper);
    helper.life.onEnd(() => {
      const { timeline, random } = this.#sim;
      timeline.after(random.between(200, 8_000), null, `helper of ${this.#host.id} restarts`, () => {
        if (this.living.length === 0) this.start();
      });
    });
  }
}

export class SimHelper {
  readonly life: Life;
  readonly #sim: Sim;
  readonly #host: SimHost;
  readonly #hands: Hands;
  readonly #attempts = new Set<SimAttempt>();
  readonly #watched = new Map<string, Stack>();
  readonly #unknown = new Set<string>();
  #leases: readonly LeaseForHelper[] = [];
  #registered = false;
  #registrations = 0;
  #failures = 0;
  #draining = false;
  #inRound = false;
  #nudged = false;
  #next: Happening | null = null;
  #renewedAt: number | null = null;

  constructor(sim: Sim, host: SimHost) {
    this.#sim = sim;
    this.#host = host;
    this.life = host.spawn(sim.timeline, `helper ${host.id}`);
    this.#hands = new Hands(sim, host, this.life);
    this.#round();
    this.#listen();
  }

  get #incarnation(): string {
    return `${this.#host.id}-helper-${this.life.pid}`;
  }

  get identity() {
    return { host_id: this.#host.id, incarnation: this.#incarnation };
  }

  get isReaping(): boolean {
    return [...this.#attempts].some(({ job }) => job.kind === 'reap_stack');
  }

  drain(): void {
    this.#draining = true;
    for (const attempt of this.#attempts) attempt.drain();
    this.#sim.timeline.after(20_000, this.life, 'helper ends', () => this.life.end());
  }

  nudge(): void {
    if (this.#inRound) this.#nudged = true;
    else this.#later(this.#sim.random.below(4));
  }

  #later(ms: number): void {
    if (this.#next !== null) this.#next.cancelled = true;
    this.#next = this.#sim.timeline.after(ms, this.life, 'beacon is due', () => this.#round(), true);
  }

  #listen(): void {
    const retry = () =>
      this.#sim.timeline.after(
        this.#sim.random.between(400, 2_000),
        this.life,
        'host stream again',
        () => this.#listen(),
        true,
      );
    this.#sim.coordinator.streams.open(this.life, { host: this.#host.id }, null, {
      opened: () => this.nudge(),
      frame: (frame) => {
        if (frame.type === 'host_work') this.nudge();
      },
      closed: retry,
      failed: retry,
    });
  }

  /** One look around, one beacon, and everything in line with its answer. */
  #round(): void {
    this.#inRound = true;
    const seen = [...this.#host.stacks.values()].filter((stack) => stack.supervisor.alive);
    this.#beacon((answer) => {
      this.#inRound = false;
      if (answer === null) {
        this.#failures += 1;
        this.#later(retryDelayMs(this.#failures) * 1.5);
        return;
      }
      this.#failures = 0;
      this.#leases = answer.leases;
      this.#follow(answer.jobs, answer.leases);
      this.#followStacks(seen, answer.leases);
      this.#settleAll();
      this.#later(this.#nudged ? 1 : BEACON_MS);
      this.#nudged = false;
    });
  }

  #beacon(done: (answer: { leases: LeaseForHelper[]; jobs: Job[] } | null) => void): void {
    if (!this.#registered) {
      this.#register(
        () => this.#beacon(done),
        () => done(null),
      );
      return;
    }
    const args = { ...this.identity, capacity_units: this.#host.capacity };
    call(this.#sim, this.life, 'host_beacon', args, (answer) => {
      if (answer.ok) {
        this.#registrations = 0;
        return done(answer.result);
      }
      if (answer.status === null || judgeCallFailure(answer.code ?? '') !== 'register') return done(null);
      this.#registered = false;
      this.#beacon(done);
    });
  }

  #register(then: () => void, failed: () => void): void {
    this.#registrations += 1;
    if (this.#registrations > REGISTRATIONS_IN_A_ROW_MAX) {
      this.life.end();
      return;
    }
    const args = {
      ...this.identity,
      host_key: this.#host.key,
      machine_id: null,
      capacity_units: this.#host.capacity,
      protocol_version: 4,
      helper_version: '0.0.0',
      key_id: 'key-1',
      public_key: this.#host.publicKey,
    };
    call(this.#sim, this.life, 'register_host', args, (answer) => {
      if (!answer.ok) return failed();
      this.#registered = true;
      then();
    });
  }

  #follow(jobs: readonly Job[], leases: readonly LeaseForHelper[]): void {
    for (const attempt of this.#attempts) if (isTakenBack(attempt.facts, jobs)) attempt.lose();
    for (const job of jobs) {
      const lease = leases.find(({ lease_id }) => lease_id === job.lease_id);
      const own = [...this.#attempts].findLast((attempt) => attempt.job.job_id === job.job_id) ?? null;
      if (lease === undefined) continue;
      switch (judgeJob(job, own?.facts ?? null, this.#incarnation, this.#draining)) {
        case 'take':
          this.#start(job, lease, null);
          break;
        case 'resume':
          this.#start(job, lease, job.job_token);
          break;
        case 'drop_and_take':
          own?.lose();
          this.#start(job, lease, null);
          break;
        default:
      }
    }
  }

  #start(job: Job, lease: LeaseForHelper, token: number | null): void {
    const ports: AttemptPorts = {
      sim: this.#sim,
      host: this.#host,
      life: this.life,
      hands: this.#hands,
      incarnation: this.#incarnation,
      earlierThan: (attempt) => {
        const all = [...this.#attempts];
        return all.slice(0, all.indexOf(attempt)).filter((other) => other.job.lease_id === attempt.job.lease_id);
      },
      finished: (attempt) => {
        this.#attempts.delete(attempt);
        if (this.#draining && this.#attempts.size === 0) this.life.end();
      },
      reported: (of, view, statement) => this.#reported(of, view, statement),
      askForRegistration: () => {
        this.#registered = false;
      },
    };
    this.#attempts.add(new SimAttempt(ports, job, lease, token));
  }

  #worksOn(leaseId: string): boolean {
    return [...this.#attempts].some(({ job }) => job.lease_id === leaseId);
  }

  #followStacks(seen: readonly Stack[], leases: readonly LeaseForHelper[]): void {
    for (const stack of seen) {
      if (!stack.supervisor.alive) continue;
      const facts = { lease_id: stack.leaseId, fencing_token: stack.token, owned: true };
      const step = judgeSupervisor(facts, leases);
      const ttl = leases.find(({ lease_id }) => lease_id === stack.leaseId)?.ttl_ms ?? 0;
      if (step === 'renew') keepLimit(this.#sim, stack, supervisorLimitMs(ttl));
      if (step === 'end') this.#endUnknown(stack);
    }
    for (const lease of leases) {
      const stack = seen.find((one) => one.leaseId === lease.lease_id);
      const inHand = this.#worksOn(lease.lease_id);
      switch (judgeStack(lease.state, stack === undefined ? 'gone' : 'alive', inHand)) {
        case 'watch':
          if (stack !== undefined) this.#watch(stack, lease);
          break;
        case 'report_lost':
          // Started after the look and before the answer: a stack is gone only when it is gone now as well.
          if (!this.#supervises(lease)) this.#lost(lease);
          break;
        default:
          this.#watched.delete(lease.lease_id);
      }
    }
  }

  /** A supervisor of a lease that the coordinator does not know any more. */
  #endUnknown(stack: Stack): void {
    this.#sim.tell(`a supervisor of nobody ends: ${stack.leaseId}`);
    stack.supervisor.end();
    if (stack.sticksUntil <= this.#sim.timeline.now) stack.services = false;
  }

  #watch(stack: Stack, lease: LeaseForHelper): void {
    if (this.#watched.get(lease.lease_id) === stack) return;
    this.#watched.set(lease.lease_id, stack);
    stack.supervisor.onEnd(() => {
      if (this.#watched.get(lease.lease_id) !== stack) return;
      this.#sim.timeline.after(2, this.life, `supervisor of ${lease.slot} is gone`, () => {
        this.#watched.delete(lease.lease_id);
        if (judgeStack('active', 'gone', this.#worksOn(lease.lease_id)) === 'report_lost') this.#lost(lease);
      });
    });
  }

  #supervises(lease: LeaseForHelper): boolean {
    const stack = this.#host.stacks.get(lease.slot);
    return stack?.leaseId === lease.lease_id && stack.supervisor.alive;
  }

  #lost(lease: LeaseForHelper): void {
    if (this.#supervises(lease) && !this.#sim.profile.locksFail) {
      this.#sim.violate(
        'a healthy stack is not given up',
        `${lease.lease_id} is reported lost, and its supervisor lives`,
      );
    }
    this.#hands.endGroups(lease);
    const { lease_id, fencing_token } = lease;
    const args = { ...this.identity, lease_id, fencing_token: fencing_token ?? 0, error: 'the stack is lost' };
    call(this.#sim, this.life, 'report_stack_lost', args, () => {});
  }

  #reported(lease: LeaseForHelper, view: LeaseView, statement: KeptLook | null): void {
    if (view.state === 'reaped' && this.#host.records.get(lease.slot)?.lease_id === lease.lease_id) {
      this.#host.records.delete(lease.slot);
    }
    if (statement === null) return;
    statement.proof = proofIn(view);
    if (statement.proof === null) this.#host.statements.delete(statement.name);
    else {
      statement.state = 'accepted';
      this.#settle(statement);
    }
  }

  #settleAll(): void {
    for (const statement of [...this.#host.statements.values()]) this.#settle(statement);
    this.#releaseStrays();
    const now = this.#host.machine.clock.monotonicMs();
    if (this.#renewedAt !== null && now - this.#renewedAt < RENEW_CLAIMS_MS) return;
    this.#renewedAt = now;
    const wall = this.#host.machine.clock.wallMs();
    editClaims(this.#host, (claim) => {
      const lease = this.#leases.find(({ lease_id }) => lease_id === claim.lease_id);
      const until = lease === undefined ? 0 : retainUntil(wall, lease.idle_ttl_ms);
      return until > claim.retain_until ? { retain_until: until } : null;
    });
  }

  #settle(statement: KeptLook): void {
    const decide = (lease: StatementLease, view: LeaseView | null): void => {
      if (this.#host.statements.get(statement.name) !== statement) return;
      const claims = this.#claimsOf(statement.lease);
      const facts = { state: statement.state, frees_claim: statement.proof !== null };
      switch (judgeStatementFile(facts, lease, this.#ownerIn(claims))) {
        case 'keep':
          return;
        case 'accept':
          statement.state = 'accepted';
          statement.proof = view === null ? null : proofIn(view);
          this.#settle(statement);
          return;
        case 'archive':
          this.#host.statements.delete(statement.name);
          return;
        case 'release_claim':
          if (this.#release(statement.lease, statement.proof)) this.#host.statements.delete(statement.name);
      }
    };
    if (statement.state === 'accepted') {
      decide('proven_gone', null);
      return;
    }
    if (this.#leases.some(({ lease_id }) => lease_id === statement.lease_id)) {
      decide('live', null);
      return;
    }
    call(this.#sim, this.life, 'get_stack_lease', { lease_id: statement.lease_id }, (answer) => {
      if (!answer.ok) return decide(answer.code === 'LEASE_NOT_FOUND' ? 'gone' : 'no_answer', null);
      const { lease } = answer.result;
      decide(lease.state !== 'reaped' ? 'live' : proofIn(lease) === null ? 'gone' : 'proven_gone', lease);
    });
  }

  /** Claims of dead owners whose lease ended without a look of this Helper. */
  #releaseStrays(): void {
    const byLease = Map.groupBy(
      this.#host.claimsWhere(() => true),
      ({ lease_id }) => lease_id,
    );
    for (const [leaseId, claims] of byLease) {
      if (leaseId === null || this.#unknown.has(leaseId)) continue;
      const listed = this.#leases.some(({ lease_id }) => lease_id === leaseId);
      if (judgeStrayClaim(this.#ownerIn(claims), listed) === 'leave') continue;
      call(this.#sim, this.life, 'get_stack_lease', { lease_id: leaseId }, (answer) => {
        if (answer.ok) this.#release(answer.result.lease, proofIn(answer.result.lease));
        else if (answer.code === 'LEASE_NOT_FOUND') this.#unknown.add(leaseId);
      });
    }
  }

  #claimsOf(lease: { lease_id: string; claim_token: string }): Claim[] {
    return this.#host.claimsWhere(
      (claim) =>
        claim.lease_id === lease.lease_id || (claim.lease_id === null && claim.invocation_token === lease.claim_token),
    );
  }

  #ownerIn(claims: readonly Claim[]): 'alive' | 'dead' | 'no_claim' {
    if (claims.length === 0) return 'no_claim';
    return claims.some((claim) => claim.idle === null && this.#host.isAlive(ownerOf(claim))) ? 'alive' : 'dead';
  }

  #release(lease: Omit<LeaseForHelper, 'state'> | LeaseView, proof: KeptLook['proof']): boolean {
    if (proof === null) return false;
    const { lease_id, claim_token, project, slot, worktree_root, stack_path } = lease;
    const reason = releaseClaims(this.#sim, this.#host, {
      lease: { lease_id, state: 'reaped', claim_token, project, slot, worktree_root, stack_path },
      proof,
      otherLeaseOnSlot: this.#leases.some((other) => other.slot === slot && other.lease_id !== lease_id),
      caller: { kind: 'helper', life: this.life, worktreeRoot: '' },
    });
    return reason === null;
  }
}

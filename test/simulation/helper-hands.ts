/** What a Helper's driver does to the true world: starts, inspects, ends and looks, in its own time and not always well. */

import { compareGrant, type DiskFacts, type FallibleAction } from '../../src/helper/job-progress.ts';
import type { Connection, Disposition, Job, PortBlock } from '../../src/protocol/records.ts';
import type { LeaseForHelper, StatementBody } from '../../src/protocol/tool-calls.ts';
import { type Asker, judgeBind } from '../../src/stack/claim-rules.ts';
import { checkStart } from './invariants.ts';
import type { Sim } from './sim.ts';
import type { Life } from './timeline.ts';
import type { SimHost, Stack } from './world.ts';

/** The supervisor's own limit, longer than any TTL that is renewed. */
export const supervisorLimitMs = (ttlMs: number): number => Math.max(90_000, ttlMs + 30_000);

export type LookedFor = StatementBody['looked_for'];
export class HandsFailure extends Error {
  readonly errorClass: string;
  constructor(errorClass: string, message: string) {
    super(message);
    this.errorClass = errorClass;
  }
}

export type Done<T> = (result: T | HandsFailure) => void;
const CLAIM_VIEWS = ['unreadable', 'foreign', 'absent', 'unbound', 'bound'] as const;

export function askerOf(host: SimHost, lease: LeaseForHelper): Asker {
  return {
    invocation_token: lease.claim_token,
    slot: lease.slot,
    project_id: lease.project,
    host: host.key,
    stack_dir: lease.worktree_root,
  };
}

export function readDisk(host: SimHost, job: Job, lease: LeaseForHelper): Omit<DiskFacts, 'stored'> {
  const record = host.records.get(lease.slot) ?? null;
  const stack = host.stacks.get(lease.slot);
  const plans = host.plans.get(lease.slot);
  const grant = { ...lease, fencing_token: lease.fencing_token ?? 0 };
  return {
    grant: compareGrant(grant, record),
    recordPlan: record?.plan_digest === lease.plan_digest ? 'same' : 'other',
    recordMade: record !== null && record.created_at >= job.opened_at ? 'for_this_job' : 'before',
    claim: claimView(host, lease),
    plan: plans?.has(lease.plan_digest) ? 'matches' : plans === undefined ? 'missing' : 'differs',
    supervisor: stack === undefined ? 'none' : stack.supervisor.alive ? 'alive' : 'dead',
  };
}

function claimView(host: SimHost, lease: LeaseForHelper): DiskFacts['claim'] {
  const asker = askerOf(host, lease);
  const views = lease.blocks.map(({ port_base }): DiskFacts['claim'] => {
    const claim = host.claims.get(port_base) ?? 'absent';
    if (typeof claim === 'string') return claim;
    const verdict = judgeBind({ claim, asker, lease_id: lease.lease_id, seen_token: null, binder: 'helper' });
    if (verdict.bind === 'refused') return 'foreign';
    const bound = claim.lease_id === lease.lease_id && claim.invocation_token === lease.claim_token;
    return bound && claim.idle === null ? 'bound' : 'unbound';
  });
  return CLAIM_VIEWS.find((view) => views.includes(view)) ?? 'bound';
}

/** The driver's own fence: a newer grant's record or supervisor refuses. */
function refusesOlder(host: SimHost, lease: LeaseForHelper): boolean {
  const record = host.records.get(lease.slot);
  const stack = host.stacks.get(lease.slot);
  const token = lease.fencing_token ?? 0;
  if (record !== undefined && record.fencing_token > token) return true;
  return stack?.supervisor.alive === true && stack.highestToken > token;
}

export class Hands {
  readonly #sim: Sim;
  readonly #host: SimHost;
  readonly #life: Life;

  constructor(sim: Sim, host: SimHost, life: Life) {
    this.#sim = sim;
    this.#host = host;
    this.#life = life;
  }

  /** With what an attempt begins the rules refuse before the driver has to; later steps rely on the driver's fence. */
  #fence(lease: LeaseForHelper, action: FallibleAction, begins: boolean): HandsFailure | null {
    if (!refusesOlder(this.#host, lease)) return null;
    const recorded = this.#host.records.get(lease.slot)?.fencing_token ?? 0;
    const isSeen = recorded > (lease.fencing_token ?? 0) && this.#host.stacks.get(lease.slot)?.supervisor.alive;
    if (begins && isSeen) {
      const what = `${action} for grant ${lease.fencing_token} of ${lease.lease_id} on ${lease.slot}, which a newer grant owns`;
      this.#sim.violate('old grants are refused', what);
    }
    return new HandsFailure('OLD_GENERATION', 'a newer grant owns this slot');
  }

  provision(lease: LeaseForHelper, units: number, done: Done<Connection>): void {
    const { timeline, random } = this.#sim;
    const host = this.#host;
    const refused = this.#fence(lease, 'provision', true);
    if (refused !== null) {
      this.#soon('provision refused', () => done(refused));
      return;
    }
    const token = lease.fencing_token ?? 0;
    const { slot, lease_id, plan_digest, blocks } = lease;
    const record = { lease_id, fencing_token: token, plan_digest, blocks, created_at: host.machine.clock.wallMs() };
    host.records.set(slot, record);
    const supervisor = host.spawn(timeline, `supervisor ${slot}`);
    const stack: Stack = {
      slot,
      leaseId: lease_id,
      planDigest: plan_digest,
      units,
      blocks,
      token,
      highestToken: token,
      phase: 'starting',
      supervisor,
      services: true,
      data: true,
      sticksUntil: random.chance(this.#sim.profile.teardownSticks) ? timeline.now + random.between(5_000, 60_000) : 0,
      limitAt: 0,
    };
    checkStart(this.#sim, host, stack);
    host.stacks.set(slot, stack);
    const fails = random.chance(this.#sim.profile.provisionFails);
    timeline.after(random.between(50, 6_000), supervisor, `stack ${slot} ${fails ? 'fails' : 'is up'}`, () => {
      stack.phase = fails ? 'failed' : 'running';
    });
    keepLimit(this.#sim, stack, supervisorLimitMs(lease.ttl_ms));
    this.#awaitStack(stack, done);
  }

  attach(lease: LeaseForHelper, done: Done<Connection>): void {
    const stack = this.#host.stacks.get(lease.slot);
    if (stack === undefined || stack.leaseId !== lease.lease_id) {
      this.#soon('attach', () => done(new HandsFailure('stack_lost', 'nothing is there to attach to')));
      return;
    }
    this.#awaitStack(stack, done);
  }

  inspect(
    lease: LeaseForHelper,
    done: Done<{ found: 'whole' | 'starting' | 'broken'; reason: string | null; connection: Connection }>,
  ): void {
    this.#soon('inspect', () => {
      const stack = this.#host.stacks.get(lease.slot);
      const connection = connectionOf(lease);
      const broken = (reason: string) => done({ found: 'broken', reason, connection });
      if (stack === undefined || stack.leaseId !== lease.lease_id) return broken('never_created');
      if (!stack.supervisor.alive) return broken('supervisor_gone');
      if (stack.planDigest !== lease.plan_digest) return broken('plan_changed');
      if (!stack.services || stack.phase === 'failed') return broken('service_ended');
      if (stack.phase === 'starting') return done({ found: 'starting', reason: 'not_ready', connection });
      stack.highestToken = Math.max(stack.highestToken, lease.fencing_token ?? 0);
      done({ found: 'whole', reason: null, connection });
    });
  }

  endChild(lease: LeaseForHelper, done: Done<null>): void {
    const { timeline, random } = this.#sim;
    timeline.after(random.between(10, 5_000), this.#life, `child of ${lease.slot} ended`, () => {
      for (const command of this.#host.commandsOf(lease.lease_id)) command.life.end();
      done(null);
    });
  }

  tearDown(lease: LeaseForHelper, disposition: Disposition, begins: boolean, done: Done<null>): void {
    const { timeline, random } = this.#sim;
    const refused = this.#fence(lease, 'tear_down', begins);
    if (refused !== null) {
      this.#soon('tear down refused', () => done(refused));
      return;
    }
    timeline.after(random.between(20, 4_000), this.#life, `tear down ${lease.slot}`, () => {
      const host = this.#host;
      if (refusesOlder(host, lease)) return done(new HandsFailure('OLD_GENERATION', 'a newer grant owns this slot'));
      const stack = host.stacks.get(lease.slot);
      if (stack !== undefined) this.#end(stack, stack.leaseId === lease.lease_id ? disposition : 'stop');
      for (const command of host.commandsOf(lease.lease_id)) command.life.end();
      done(null);
    });
  }

  #end(stack: Stack, disposition: Disposition): void {
    stack.supervisor.end();
    if (stack.sticksUntil > this.#sim.timeline.now) return;
    stack.services = false;
    if (disposition === 'destroy') stack.data = false;
    for (const command of this.#host.commandsOf(stack.leaseId)) command.life.end();
  }

  /** What a supervisor that is gone left running. */
  endGroups(lease: LeaseForHelper): void {
    const stack = this.#host.stacks.get(lease.slot);
    if (stack === undefined || stack.leaseId !== lease.lease_id || stack.supervisor.alive) return;
    if (stack.sticksUntil <= this.#sim.timeline.now) stack.services = false;
  }

  look(lease: LeaseForHelper, disposition: Disposition, done: Done<LookedFor>): void {
    this.#soon('look', () => {
      const host = this.#host;
      const stack = host.stacks.get(lease.slot);
      const own = stack !== undefined && host.records.has(lease.slot);
      const seen = (kind: string, id: string, present: boolean): LookedFor[number] => {
        const blind = this.#sim.random.chance(this.#sim.profile.lookIsBlind / 4);
        return { kind, id, before: 'unknown', after: blind ? 'unknown' : present ? 'present' : 'absent' };
      };
      const looked: LookedFor = [
        seen('supervisor', lease.slot, stack?.supervisor.alive === true),
        seen('marked', lease.lease_id, host.remainsOf(lease.lease_id).length > 0),
      ];
      if (own) looked.push(seen('group', lease.slot, stack.services));
      for (const block of lease.blocks) looked.push(seen('port', `${block.port_base}`, host.portsInUse(block)));
      if (own && disposition === 'destroy') {
        looked.push(seen('directory', lease.slot, stack.leaseId === lease.lease_id && stack.data));
      }
      done(looked);
    });
  }

  #awaitStack(stack: Stack, done: Done<Connection>): void {
    this.#sim.timeline.after(
      200,
      this.#life,
      `waits for ${stack.slot}`,
      () => {
        if (!stack.supervisor.alive) return done(new HandsFailure('stack_lost', 'the supervisor ended'));
        if (stack.phase === 'failed') return done(new HandsFailure('service_not_ready', 'a service never got ready'));
        if (stack.phase === 'running') return done(connectionOf(stack));
        this.#awaitStack(stack, done);
      },
      true,
    );
  }

  #soon(what: string, run: () => void): void {
    this.#sim.timeline.after(this.#sim.random.between(1, 40), this.#life, what, run);
  }
}

function connectionOf({ blocks }: { blocks: readonly PortBlock[] }): Connection {
  return { host: '127.0.0.1', ports: { db: blocks[0]?.port_base ?? 1 }, urls: {} };
}

/** The supervisor's own limit, in the machine's awake time: the net under a Helper that renews no more. */
export function keepLimit(sim: Sim, stack: Stack, limitMs: number): void {
  const { clock } = stack.supervisor.machine;
  const armed = stack.limitAt > 0;
  stack.limitAt = clock.monotonicMs() + limitMs;
  if (armed) return;
  const check = (): void => {
    const left = stack.limitAt - clock.monotonicMs();
    if (left > 0) {
      sim.timeline.after(left, stack.supervisor, 'limit looked at', check, true);
      return;
    }
    sim.tell(`limit of ${stack.slot}`);
    if (stack.sticksUntil <= sim.timeline.now) stack.services = false;
    stack.supervisor.end();
  };
  sim.timeline.after(limitMs, stack.supervisor, 'limit looked at', check, true);
}

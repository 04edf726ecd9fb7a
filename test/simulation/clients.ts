/** Who uses the system: runs and ups in few worktrees, people that end leases, waits that nobody owns. */
import type { LeaseView } from '../../src/protocol/records.ts';
import { markIdle, proofIn, releaseClaims } from './claims.ts';
import { SimPark } from './client-park.ts';
import { RunClient } from './client-run.ts';
import { callUntil } from './network.ts';
import type { RunPlace, RunWish } from './run-wish.ts';
import type { Sim } from './sim.ts';
import type { Life } from './timeline.ts';
import type { SimHost } from './world.ts';

const CLIENTS_MAX = 7;
const WORKTREES_A_HOST = 4;

export interface SomeClient {
  readonly life: Life;
  readonly standing: string;
  /** The lease that it was given. */
  readonly knownLease: string | null;
  /** The lease that it keeps alive. */
  readonly heldLease: string | null;
  signal(signal: string): void;
  readonly exitCode: number | null;
}

export class Clients {
  readonly all: SomeClient[] = [];
  readonly #sim: Sim;
  #open = true;
  #started = 0;

  constructor(sim: Sim) {
    this.#sim = sim;
  }

  get living(): readonly SomeClient[] {
    return this.all.filter(({ life }) => life.alive);
  }

  begin(): void {
    const { timeline, random } = this.#sim;
    if (!this.#open) return;
    if (this.living.length < CLIENTS_MAX) this.#startOne();
    timeline.after(random.between(200, 9_000), null, 'next client', () => this.begin(), true);
  }

  stop(): void {
    this.#open = false;
  }

  #isAwakeWith(leaseId: string): boolean {
    const { now } = this.#sim.timeline;
    return this.living.some(({ life, knownLease }) => knownLease === leaseId && life.standsUntil <= now);
  }

  /** The living run that holds a lease, or waits with it. */
  holderOf(leaseId: string): SomeClient | null {
    return this.living.find((client) => client.heldLease === leaseId) ?? null;
  }

  #startOne(): void {
    const { random, hosts } = this.#sim;
    const host = random.pick(hosts);
    this.#started += 1;
    if (random.chance(0.08)) this.all.push(new WaitClient(this.#sim, host, `wait ${this.#started}`));
    else this.all.push(this.#newRun(host));
  }

  #newRun(host: SimHost): RunClient {
    const { random, timeline } = this.#sim;
    const index = random.below(WORKTREES_A_HOST);
    const worktree = `/${host.key}/tree-${index}`;
    // Two worktrees that name one slot are two agents that want the same stack.
    const slot = index >= 2 && random.chance(0.1) ? `${host.key}-shared` : `${host.key}-slot-${index}`;
    const command = random.chance(0.25) ? 'up' : 'run';
    const life = host.spawn(timeline, `${command} ${this.#started} on ${slot}`);
    const place: RunPlace = { host, slot, worktree };
    const run = new RunClient(this.#sim, life, place, this.#wish(command));
    this.#sim.tell(`${life.name} starts: ${JSON.stringify(run.wish)}`);
    return run;
  }

  #wish(command: 'run' | 'up'): RunWish {
    const { random } = this.#sim;
    return {
      options: {
        command,
        cleanup: random.pick(['idle', 'idle', 'destroy', 'stop'] as const),
        waitForSlot: random.chance(0.4),
        parkInQueue: command === 'run' || random.chance(0.8),
      },
      units: random.chance(0.2) ? 2 : 1,
      priority: random.chance(0.2) ? random.between(1, 3) : 0,
      blocksNeeded: random.chance(0.15) ? 2 : 1,
      timeoutMs: random.pick([90_000, 300_000, 1_800_000]),
      provisionTimeoutMs: random.pick([30_000, 300_000]),
      reapTimeoutMs: random.pick([60_000, 300_000]),
      idleTtlMs: random.pick([20_000, 120_000, 600_000]),
      hardTtlMs: random.chance(0.1) ? 30_000 : null,
      configVersion: random.chance(0.1) ? 2 : 1,
      command: {
        ms: random.pick([20, 2_000, 15_000, 70_000]),
        exitCode: random.chance(0.2) ? 1 : 0,
        ignoresTerm: random.chance(0.2),
      },
    };
  }

  /** `stack done LEASE --reap` or without, in the lease's own worktree. */
  done(leaseId: string, how: 'idle' | 'reap'): void {
    const lease = this.#sim.watch.shadow.leases.get(leaseId);
    const host = this.#sim.hosts.find(({ id }) => id === lease?.host_id);
    if (host === undefined) return;
    // Nobody makes a stack idle under a command that uses it, or is about to.
    const inUse = host.commandsOf(leaseId).length > 0 || this.#isAwakeWith(leaseId);
    this.all.push(new DoneClient(this.#sim, host, leaseId, inUse ? 'reap' : how));
  }
}

class DoneClient implements SomeClient {
  readonly life: Life;
  readonly #sim: Sim;
  readonly #host: SimHost;
  readonly #leaseId: string;
  #park: SimPark | null = null;
  exitCode: number | null = null;

  constructor(sim: Sim, host: SimHost, leaseId: string, how: 'idle' | 'reap') {
    this.#sim = sim;
    this.#host = host;
    this.#leaseId = leaseId;
    this.life = host.spawn(sim.timeline, `done ${leaseId}`);
    sim.tell(`${this.life.name} asks for ${how}`);
    const args = {
      lease_id: leaseId,
      claim_token: null,
      how,
      disposition: 'destroy' as const,
      idle_ttl_ms: null,
      reason: 'released by its owner',
      idempotency_key: sim.random.uuid(),
    };
    callUntil(sim, this.life, 'release_stack_lease', args, 60_000, (answer) => {
      if (!answer.ok) this.#end(5);
      else if (how === 'idle') this.#idle(answer.result.lease);
      else if (answer.result.lease.state === 'reaped') this.#proven(answer.result.lease);
      else this.#waitForProof(answer.result.lease);
    });
  }

  readonly knownLease = null;
  readonly heldLease = null;

  get standing(): string {
    return `done, park ${this.#park?.phase}`;
  }

  signal(): void {
    this.#park?.interrupt();
  }

  #idle({ state, lease_id, idle_ttl_ms }: LeaseView): void {
    if (state === 'idle') markIdle(this.#host, lease_id, idle_ttl_ms);
    this.#end(0);
  }

  #waitForProof(lease: LeaseView): void {
    this.#park = new SimPark(this.#sim, this.life, {
      waitId: this.#sim.random.uuid(),
      conditions: [`lease:id=${this.#leaseId},state=reaped`],
      mode: 'all',
      deadlineMs: this.life.machine.clock.monotonicMs() + 300_000,
      leaseId: this.#leaseId,
      agent: lease.worktree_root,
      onProgress: () => {},
      onEnd: (end) => {
        const seen = end.lease ?? lease;
        if (seen.state === 'reaped') this.#proven(seen);
        else this.#end(8);
      },
    });
  }

  #proven(lease: LeaseView): void {
    callUntil(this.#sim, this.life, 'list_stack_leases', { slot: lease.slot }, 30_000, (answer) => {
      const others = answer.ok && answer.result.leases.some((other) => other.lease_id !== lease.lease_id);
      const reason = !answer.ok
        ? 'no answer'
        : releaseClaims(this.#sim, this.#host, {
            lease,
            proof: proofIn(lease),
            otherLeaseOnSlot: others,
            caller: { kind: 'client', life: this.life, worktreeRoot: lease.worktree_root },
          });
      this.#end(reason === null ? 0 : 8);
    });
  }

  #end(exitCode: number): void {
    this.exitCode = exitCode;
    this.life.end();
  }
}

/** `botbuddy wait` for timers, and for leases that others hold. */
class WaitClient implements SomeClient {
  readonly life: Life;
  readonly #park: SimPark;
  exitCode: number | null = null;

  constructor(sim: Sim, host: SimHost, name: string) {
    this.life = host.spawn(sim.timeline, name);
    const { random } = sim;
    const conditions = [`timer:in=${random.between(1, 200)}s`];
    const leases = [...sim.watch.shadow.leases.keys()];
    if (leases.length > 0) {
      const state = random.pick(['', ',state=active', ',state=reaped', ',state=provisioning']);
      conditions.push(`lease:id=${random.pick(leases)}${state}`);
    }
    this.#park = new SimPark(sim, this.life, {
      waitId: random.uuid(),
      conditions,
      mode: random.pick(['all', 'any'] as const),
      deadlineMs: this.life.machine.clock.monotonicMs() + random.pick([30_000, 240_000, 900_000]),
      agent: 'somebody',
      onProgress: () => {},
      onEnd: (end) => {
        this.exitCode = end.outcome === 'matched' ? 0 : 2;
        sim.tell(`${name} ends: ${end.outcome}`);
        this.life.end();
      },
    });
  }

  readonly knownLease = null;
  readonly heldLease = null;

  get standing(): string {
    return `wait, park ${this.#park.phase}`;
  }

  signal(): void {
    this.#park.interrupt();
  }
}

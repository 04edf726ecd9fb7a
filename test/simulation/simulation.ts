/** One seed: builds the world, lets it go on under faults, heals it, lets it come to rest, and says what was broken. */
import { Clients } from './clients.ts';
import { SimCoordinator } from './coordinator.ts';
import { CALM, type Profile, profileOf, type Trouble } from './faults.ts';
import { HelperKeeper } from './helpers.ts';
import { ALWAYS, AT_THE_END, check } from './invariants.ts';
import { type SeededRandom, seededRandom } from './random.ts';
import type { Sim } from './sim.ts';
import { Timeline } from './timeline.ts';
import { strike } from './troubles.ts';
import { Watch } from './watch.ts';
import { SimHost } from './world.ts';

export interface SimulationOptions {
  readonly seed: number;
  readonly operations: number;
  /** Instead of the seed's own. */
  readonly profile?: string;
  /** Every line of the story as it happens. */
  readonly onLine?: (line: string) => void;
}

export interface SimulationResult {
  readonly seed: number;
  readonly profile: string;
  readonly operations: number;
  readonly violations: readonly string[];
  /** The same for the same options, on every machine. */
  readonly trace: string;
  readonly events: number;
  readonly ends: Readonly<Record<string, number>>;
}

/** Everything has ended by then, or never will: the longest wait, budget or TTL many times over. */
const REST_MS_MAX = 4 * 3_600_000;
const OPERATOR_MS = 150_000;

export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const run = new SimulationRun(options);
  await run.begin();
  await run.goOn(options.operations);
  const { operations } = run;
  await run.comeToRest();
  return run.result(operations);
}

class SimulationRun {
  readonly #options: SimulationOptions;
  readonly #timeline = new Timeline();
  readonly #random: SeededRandom;
  readonly #profile: Profile;
  readonly #sim: Sim;
  readonly #violations: string[] = [];
  readonly #hash = new Bun.CryptoHasher('sha256');

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#random = seededRandom(options.seed);
    this.#profile = profileOf(options.seed, options.profile ?? null);
    this.#sim = this.#build(this.#profile);
    this.#timeline.onTurn = ({ label }) => this.#hash.update(`${this.#timeline.now} ${label}\n`);
  }

  get operations(): number {
    return this.#timeline.operations;
  }

  #build(profile: Profile): Sim {
    const random = this.#random;
    const hosts = [1, 2].map((index) => new SimHost(this.#timeline, index, random.between(1, 3)));
    const sim = {
      timeline: this.#timeline,
      random,
      hosts,
      profile,
      violate: (promise: string, what: string) => {
        this.#violations.push(`${promise}: ${what}`);
        sim.tell(`VIOLATION ${promise}: ${what}`);
      },
      tell: (what: string) => this.#options.onLine?.(`${this.#timeline.now} ${what}`),
    } as unknown as { -readonly [K in keyof Sim]: Sim[K] };
    sim.watch = new Watch(sim);
    sim.coordinator = new SimCoordinator(sim, hosts[0] as SimHost, sim.watch);
    sim.helpers = hosts.map((host) => new HelperKeeper(sim, host));
    sim.clients = new Clients(sim);
    return sim;
  }

  async begin(): Promise<void> {
    await this.#sim.coordinator.start();
    for (const keeper of this.#sim.helpers) keeper.start();
    this.#sim.clients.begin();
  }

  async goOn(operations: number): Promise<void> {
    const sim = this.#sim;
    while (this.operations < operations && this.#violations.length === 0) {
      const before = this.operations;
      if (!(await this.#turn(Number.POSITIVE_INFINITY))) return;
      if (this.operations > before && this.#random.chance(sim.profile.trouble)) {
        strike(sim, this.#random.pick(sim.profile.kinds) as Trouble);
      }
    }
  }

  /** No more faults and nobody new: whatever is begun has to end. */
  async comeToRest(): Promise<void> {
    const sim = this.#sim;
    if (this.#violations.length > 0) return;
    sim.tell('healed');
    sim.profile = { ...CALM, name: 'healed', lossy: this.#profile.lossy, locksFail: this.#profile.locksFail };
    sim.coordinator.commitTrouble = null;
    sim.clients.stop();
    for (const { machine } of sim.hosts) this.#timeline.wake(machine);
    for (const { living } of sim.helpers) for (const twin of living.slice(1)) twin.life.end();
    const until = this.#timeline.now + REST_MS_MAX;
    let operatorAt = this.#timeline.now + OPERATOR_MS;
    while (!this.#isAtRest() && this.#violations.length === 0) {
      if (!(await this.#turn(until))) break;
      if (this.#timeline.now < operatorAt) continue;
      operatorAt += OPERATOR_MS;
      for (const lease of sim.watch.shadow.leases.values()) {
        const isForPeople = lease.mode === 'detached' || lease.state === 'reap_failed';
        if (isForPeople && lease.state !== 'reaping') sim.clients.done(lease.lease_id, 'reap');
      }
    }
    if (this.#violations.length > 0) return;
    check(sim, AT_THE_END);
    const { state } = sim.coordinator;
    if (state !== null) sim.watch.compare(state, 'the end');
  }

  async #turn(until: number): Promise<boolean> {
    const happened = await this.#timeline.turn(until);
    check(this.#sim, ALWAYS);
    return happened;
  }

  #isAtRest(): boolean {
    const { watch, clients, hosts, coordinator } = this.#sim;
    const { leases, jobs, waits } = watch.shadow;
    if (leases.size + jobs.size + waits.size > 0 || clients.living.length > 0 || coordinator.life === null)
      return false;
    return hosts.every(
      (host) => host.statements.size === 0 && host.claimsWhere(({ lease_id }) => lease_id !== null).length === 0,
    );
  }

  result(operations: number): SimulationResult {
    const ends: Record<string, number> = {};
    for (const { exitCode, life } of this.#sim.clients.all) {
      const end = `${life.name.split(' ')[0]} ${exitCode ?? 'killed'}`;
      ends[end] = (ends[end] ?? 0) + 1;
    }
    return {
      seed: this.#options.seed,
      profile: this.#profile.name,
      operations,
      violations: this.#violations,
      trace: this.#hash.digest('hex').slice(0, 16),
      events: this.#sim.watch.shadow.seq,
      ends,
    };
  }
}

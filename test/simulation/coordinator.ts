/**
 * The coordinator of a simulation: the real engine, tools, clock, liveness and log, on a disk that outlives it. Calls
 * that arrive together are stepped together; a crash loses what was not committed and every answer on its way.
 */

import { CoordinatorClock } from '../../src/coordinator/coordinator-clock.ts';
import { Engine, type Look, Settled } from '../../src/coordinator/engine.ts';
import { LivenessTable } from '../../src/coordinator/liveness-table.ts';
import type { ToolContext } from '../../src/coordinator/tool.ts';
import { TOOLS } from '../../src/coordinator/tool-table.ts';
import { nextDeadline } from '../../src/core/deadlines.ts';
import type { SequencedEvent } from '../../src/core/events.ts';
import type { ArchiveRow, Input, Refusal } from '../../src/core/inputs.ts';
import type { State } from '../../src/core/model.ts';
import { toSnapshot } from '../../src/core/state.ts';
import { hasAnythingAlive } from '../../src/core/views.ts';
import { MemoryDisk, MemoryLog } from '../../src/log/memory-log.ts';
import { Failure } from '../../src/platform/failure.ts';
import type { ToolName } from '../../src/protocol/tool-calls.ts';
import { type CallAnswer, refusedWith } from './network.ts';
import type { Sim } from './sim.ts';
import { SimStreams } from './streams.ts';
import type { Happening, Life } from './timeline.ts';
import type { SimHost } from './world.ts';

export const LEASE_TTL_MS = 60_000;
const WAKE_MS_MAX = 5_000;
const SNAPSHOT_CHANCE = 0.02;
export const CALLER = { principal: 'owner', tenant: 'local' } as const;

export interface SimCall {
  readonly name: ToolName;
  readonly args: unknown;
  readonly from: Life;
  readonly respond: (answer: CallAnswer<never>) => void;
  /** The coordinator died with it. */
  readonly reset: () => void;
}

/** How the next commit goes wrong. */
export type CommitTrouble = 'commit_lost' | 'commit_unanswered' | 'commit_doubtful' | 'disk_full';

/** Whoever watches the coordinator from outside of it. */
export interface Observer {
  loaded(state: State, log: MemoryLog): Promise<void>;
  committed(events: readonly SequencedEvent[], ended: readonly ArchiveRow[], state: State): void;
  /** Just before an input is stepped; the answer is checked by the returned function. */
  asked(input: Input, state: State, now: number): (refusal: Refusal | null) => void;
  /** An answer leaves: what it reflects must outlive everything. */
  answered(seq: number): void;
}

interface Parts {
  readonly life: Life;
  readonly engine: Engine;
  readonly log: MemoryLog;
  readonly clock: CoordinatorClock;
  readonly liveness: LivenessTable;
  readonly context: Omit<ToolContext, 'seenSeq'>;
}

export class SimCoordinator {
  readonly disk: MemoryDisk;
  readonly streams: SimStreams;
  readonly #sim: Sim;
  readonly #host: SimHost;
  readonly #observer: Observer;
  commitTrouble: CommitTrouble | null = null;
  #parts: Parts | null = null;
  #inbox: SimCall[] = [];
  #inHand: readonly SimCall[] = [];
  #turnDue = false;
  #alarm: Happening | null = null;
  #wakeAt = 0;

  constructor(sim: Sim, host: SimHost, observer: Observer) {
    this.#sim = sim;
    this.#host = host;
    this.#observer = observer;
    this.disk = new MemoryDisk('epoch-of-the-simulation');
    this.streams = new SimStreams(sim, () => this.#parts);
  }

  get life(): Life | null {
    return this.#parts?.life.alive === true ? this.#parts.life : null;
  }

  /** The committed state; null while no coordinator lives. */
  get state(): State | null {
    return this.life === null ? null : (this.#parts?.engine.state ?? null);
  }

  async start(): Promise<void> {
    if (this.life !== null) return;
    const life = this.#host.spawn(this.#sim.timeline, 'coordinator');
    const log = new MemoryLog(this.disk, (point) => this.#fault(point, life));
    const clock = new CoordinatorClock({ graceMs: LEASE_TTL_MS, clock: this.#host.machine.clock });
    const liveness = new LivenessTable({
      now: () => clock.now(),
      leaseIsWaiting: (id) => {
        const state = this.#parts?.engine.state.leases.get(id)?.state;
        return state === 'queued' || state === 'provisioning';
      },
    });
    const engine = await Engine.open({ log, clock, liveness });
    liveness.seeAll();
    if (hasAnythingAlive(engine.state)) clock.giveGrace();
    const ownHost = { host_id: this.#host.id, host_key: this.#host.key, machine_id: null };
    const context = {
      engine: this.#observed(engine),
      log,
      clock,
      liveness,
      ownHost,
      version: '0.0.0',
      startedAt: clock.now(),
      caller: CALLER,
    };
    this.#parts = { life, engine, log, clock, liveness, context };
    life.onEnd(() => this.#gone());
    await this.#observer.loaded(engine.state, log);
    engine.subscribe((events, ended) => {
      if (!life.alive) return;
      for (const { kind, id } of ended) liveness.forget(kind, id);
      for (const { event } of events) if (event.type === 'job_closed') liveness.forget('job', event.job_id);
      this.#observer.committed(events, ended, engine.state);
      this.streams.publish(events, ended);
    });
    this.#sleepUntilNextDeadline();
  }

  crash(): void {
    this.life?.end();
  }

  /** False when nobody listens. */
  deliver(call: SimCall): boolean {
    const life = this.life;
    if (life === null) return false;
    this.#inbox.push(call);
    if (this.#turnDue) return true;
    this.#turnDue = true;
    this.#sim.timeline.after(this.#sim.random.below(3), life, 'coordinator turn', () => this.#turn(), true);
    return true;
  }

  /** Now and then, as the engine does; what it covers may be forgotten. */
  async #snapshot({ log, engine }: Parts): Promise<void> {
    const { seq } = engine.state;
    await log.snapshot(seq, toSnapshot(engine.state));
    if (this.#sim.random.chance(0.5)) await log.prune(seq - this.#sim.random.below(40));
  }

  async #turn(): Promise<void> {
    this.#turnDue = false;
    const parts = this.#parts as Parts;
    const calls = this.#inbox.splice(0);
    this.#inHand = calls;
    const answers = await Promise.all(calls.map((call) => this.#handle(call, parts)));
    if (!parts.life.alive) return;
    this.#inHand = [];
    for (const [index, call] of calls.entries()) {
      const answer = answers[index] as CallAnswer<never>;
      if (answer.ok) this.#observer.answered(answer.seq);
      call.respond(answer);
    }
    if (this.#sim.random.chance(SNAPSHOT_CHANCE)) await this.#snapshot(parts);
    this.#sleepUntilNextDeadline();
  }

  async #handle({ name, args }: SimCall, { context }: Parts): Promise<CallAnswer<never>> {
    const tool = TOOLS[name];
    const parsed = tool.schema.safeParse(overTheWire(args));
    if (!parsed.success) {
      this.#sim.violate('valid calls', `${name}: ${parsed.error.issues[0]?.path.join('.')} ${parsed.error.message}`);
      return refusedWith('invalid_arguments', parsed.error.message);
    }
    try {
      const answer = await tool.handle(parsed.data as never, { ...context, seenSeq: 0 });
      if (answer.ok) return { ok: true, seq: answer.seq, result: overTheWire(answer.reply) };
      const { code, message, fields } = answer.refusal;
      if (code === 'internal') this.#sim.violate('no bug in step', `${name} ran into an assertion`);
      return refusedWith(code, message, fields);
    } catch (error) {
      if (error instanceof Failure) return refusedWith(error.code, error.message, error.fields);
      throw error;
    }
  }

  /** The engine, with each input shown to the observer before its step and its answer after. */
  #observed(engine: Engine): Engine {
    const observer = this.#observer;
    const submit = async (input: Input | ((look: Look) => Input | Settled), options: never): Promise<unknown> => {
      let check: ((refusal: Refusal | null) => void) | null = null;
      const build = (look: Look): Input | Settled => {
        const built = typeof input === 'function' ? input(look) : input;
        check = built instanceof Settled ? null : observer.asked(built, look.state, look.now);
        return built;
      };
      const answer = await engine.submit(build as never, options);
      (check as ((refusal: Refusal | null) => void) | null)?.(answer.ok ? null : answer.refusal);
      return answer;
    };
    const observed = {
      epoch: engine.epoch,
      get state() {
        return engine.state;
      },
      look: engine.look.bind(engine),
      submit,
    };
    return observed as unknown as Engine;
  }

  #fault(point: string, life: Life): void {
    if (!life.alive) throw new Failure('log_unavailable', 'this coordinator is dead');
    const trouble = this.commitTrouble;
    const before = point === 'before_commit';
    if (trouble === null || (!before && point !== 'after_commit')) return;
    const strikesBefore = trouble === 'commit_lost' || trouble === 'disk_full';
    if (before !== strikesBefore) return;
    this.commitTrouble = null;
    this.#sim.tell(trouble);
    if (trouble === 'commit_lost' || trouble === 'commit_unanswered') life.end();
    throw new Failure(trouble === 'disk_full' ? 'state_unwritable' : 'log_unavailable', trouble);
  }

  #gone(): void {
    for (const call of [...this.#inHand, ...this.#inbox]) call.reset();
    this.#inHand = [];
    this.#inbox = [];
    this.#turnDue = false;
    this.#alarm = null;
    this.streams.closeAll();
    const { random, timeline } = this.#sim;
    const downMs = random.chance(0.15) ? random.between(20_000, 400_000) : random.between(100, 12_000);
    timeline.after(downMs, null, 'coordinator starts', () => this.start());
  }

  /** As the ticker does: at the next deadline, and often enough to see jumps and stalls. */
  #sleepUntilNextDeadline(): void {
    const { life, engine, clock } = this.#parts as Parts;
    if (!life.alive) return;
    const next = nextDeadline(engine.state);
    const wanted = next === null ? WAKE_MS_MAX : next.at - clock.now();
    const ms = Math.min(WAKE_MS_MAX, Math.max(1, wanted));
    const wakeAt = clock.monotonicMs() + ms;
    if (this.#alarm !== null && !this.#alarm.cancelled && this.#wakeAt <= wakeAt) return;
    if (this.#alarm !== null) this.#alarm.cancelled = true;
    this.#wakeAt = wakeAt;
    this.#alarm = this.#sim.timeline.after(ms, life, 'tick', () => this.#wake(), true);
  }

  async #wake(): Promise<void> {
    const { clock, liveness, engine, context } = this.#parts as Parts;
    this.#alarm = null;
    const disturbance = clock.look(clock.monotonicMs() - this.#wakeAt, Math.max(250, LEASE_TTL_MS / 6));
    if (disturbance !== null) liveness.seeAll();
    const next = nextDeadline(engine.state);
    if (next !== null && next.at <= clock.now()) {
      try {
        const answer = await context.engine.submit<'tick'>({ type: 'tick' }, { principal: 'coordinator' });
        if (!answer.ok) this.#sim.violate('no bug in step', `tick was refused: ${answer.refusal.code}`);
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
      }
    }
    this.#sleepUntilNextDeadline();
  }
}

/** Nobody shares a record with anybody else. */
function overTheWire(value: unknown): never {
  return JSON.parse(JSON.stringify(value)) as never;
}

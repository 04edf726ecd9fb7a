/**
 * Virtual time: machines with clocks that jump and sleep, processes that pause and die, and one queue of what happens
 * next. Nothing here reads a real clock; equal times happen in the order in which they were asked for.
 */
import type { Clock } from '../../src/platform/clock.ts';

/** Simulated time zero on every wall clock. */
export const EPOCH_MS = 1_900_000_000_000;

export class Machine {
  readonly name: string;
  readonly #timeline: Timeline;
  wallOffsetMs = 0;
  sleptMs = 0;
  asleepUntil = 0;
  boots = 1;

  constructor(timeline: Timeline, name: string) {
    this.#timeline = timeline;
    this.name = name;
  }

  get bootId(): string {
    return `${this.name}-boot-${this.boots}`;
  }

  readonly clock: Clock = {
    wallMs: () => EPOCH_MS + this.#timeline.now + this.wallOffsetMs,
    monotonicMs: () => this.#timeline.now - this.sleptMs,
    uptimeMs: () => this.#timeline.now,
  };
}

/** One life of one process. What it was going to do when it died never happens. */
export class Life {
  readonly name: string;
  readonly machine: Machine;
  readonly pid: number;
  readonly startedAt: string;
  alive = true;
  pausedUntil = 0;
  readonly #onEnd: (() => void)[] = [];

  constructor(timeline: Timeline, machine: Machine, name: string) {
    this.name = name;
    this.machine = machine;
    this.pid = timeline.nextPid();
    this.startedAt = `${timeline.now}`;
  }

  get identity() {
    return { pid: this.pid, started_at: this.startedAt, boot_id: this.machine.bootId };
  }

  /** It does nothing before: it is stopped, or its machine sleeps. */
  get standsUntil(): number {
    return Math.max(this.pausedUntil, this.machine.asleepUntil);
  }

  onEnd(callback: () => void): void {
    this.#onEnd.push(callback);
  }

  end(): void {
    if (!this.alive) return;
    this.alive = false;
    for (const callback of this.#onEnd) callback();
  }
}

export interface Happening {
  at: number;
  readonly order: number;
  readonly owner: Life | null;
  readonly label: string;
  readonly run: () => void | Promise<void>;
  cancelled: boolean;
  /** Housekeeping that is no operation of its own. */
  readonly quiet: boolean;
}

const isBefore = (a: Happening, b: Happening): boolean => (a.at === b.at ? a.order < b.order : a.at < b.at);

export class Timeline {
  now = 0;
  operations = 0;
  #order = 0;
  #pids = 100;
  #heap: Happening[] = [];
  onTurn: (happening: Happening) => void = () => {};

  nextPid(): number {
    this.#pids += 1;
    return this.#pids;
  }

  after(ms: number, owner: Life | null, label: string, run: () => void | Promise<void>, quiet = false): Happening {
    this.#order += 1;
    const at = this.now + Math.max(0, Math.round(ms));
    const happening: Happening = { at, order: this.#order, owner, label, run, cancelled: false, quiet };
    this.#push(happening);
    return happening;
  }

  /** The machine sleeps from now on: whatever its processes were going to do comes that much later. */
  suspend(machine: Machine, ms: number): void {
    if (machine.asleepUntil > this.now) return;
    machine.asleepUntil = this.now + ms;
    this.#shift(machine, ms);
  }

  /** Somebody opens the lid. */
  wake(machine: Machine): void {
    if (machine.asleepUntil <= this.now) return;
    this.#shift(machine, this.now - machine.asleepUntil);
    machine.asleepUntil = this.now;
  }

  #shift(machine: Machine, ms: number): void {
    machine.sleptMs += ms;
    const all = this.#heap;
    this.#heap = [];
    for (const happening of all) {
      if (happening.owner?.machine === machine) happening.at += ms;
      this.#push(happening);
    }
  }

  /** Runs the next happening; false when there is none up to `until`. */
  async turn(until: number): Promise<boolean> {
    for (let next = this.#heap[0]; next !== undefined; next = this.#heap[0]) {
      if (next.at > until) return false;
      this.#pop();
      if (next.cancelled || (next.owner !== null && !next.owner.alive)) continue;
      this.now = Math.max(this.now, next.at);
      const standsUntil = next.owner?.standsUntil ?? 0;
      if (standsUntil > this.now) {
        next.at = standsUntil;
        this.#push(next);
        continue;
      }
      if (!next.quiet) this.operations += 1;
      await next.run();
      this.onTurn(next);
      return true;
    }
    return false;
  }

  #push(happening: Happening): void {
    const heap = this.#heap;
    let child = heap.push(happening) - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      const above = heap[parent] as Happening;
      if (!isBefore(happening, above)) break;
      heap[child] = above;
      child = parent;
    }
    heap[child] = happening;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let parent = 0;
    for (;;) {
      let child = 2 * parent + 1;
      if (child >= heap.length) break;
      const right = heap[child + 1];
      if (right !== undefined && isBefore(right, heap[child] as Happening)) child += 1;
      const below = heap[child] as Happening;
      if (!isBefore(below, last)) break;
      heap[parent] = below;
      parent = child;
    }
    heap[parent] = last;
  }
}

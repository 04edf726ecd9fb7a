/**
 * The coordinator's time: monotonic plus a base, so that nobody's clock change expires anything. It starts no earlier
 * than the last event and never goes back. A wall clock that jumped (or a machine that slept) moves the base forward;
 * a jump back leaves it. Each jump, each stall of this process and each downtime gives every deadline one grace period.
 */
import { type Clock, systemClock } from '../platform/clock.ts';

/** A difference between wall and monotonic clock that no slewing makes between two looks. */
const JUMP_MS = 1_000;

export interface Disturbance {
  kind: 'wall_jump' | 'stall';
  ms: number;
}

export interface ClockOptions {
  /** One lease TTL. */
  graceMs: number;
  clock?: Clock;
}

export class CoordinatorClock {
  readonly #clock: Clock;
  readonly #graceMs: number;
  #base: number;
  #skew: number;
  #graceUntil = 0;

  constructor({ graceMs, clock = systemClock }: ClockOptions) {
    this.#clock = clock;
    this.#graceMs = graceMs;
    this.#skew = clock.wallMs() - clock.monotonicMs();
    this.#base = this.#skew;
  }

  now(): number {
    return Math.floor(this.#clock.monotonicMs() + this.#base);
  }

  monotonicMs(): number {
    return this.#clock.monotonicMs();
  }

  get graceUntil(): number {
    return this.#graceUntil;
  }

  /** Time goes on from the last event that the log knows. */
  startAfter(lastEventAt: number): void {
    this.#base = Math.max(this.#base, lastEventAt - this.#clock.monotonicMs());
  }

  giveGrace(): void {
    this.#graceUntil = this.now() + this.#graceMs;
  }

  /** Compares the clocks; `lateMs` is how much later than planned the caller woke up. Gives grace where it must. */
  look(lateMs: number, stallMs: number): Disturbance | null {
    const skew = this.#clock.wallMs() - this.#clock.monotonicMs();
    const jump = skew - this.#skew;
    this.#skew = skew;
    this.#base = Math.max(this.#base, skew);
    const disturbance = disturbanceOf(jump, lateMs, stallMs);
    if (disturbance !== null) this.giveGrace();
    return disturbance;
  }
}

function disturbanceOf(jump: number, lateMs: number, stallMs: number): Disturbance | null {
  if (Math.abs(jump) >= JUMP_MS) return { kind: 'wall_jump', ms: Math.round(jump) };
  return lateMs > stallMs ? { kind: 'stall', ms: Math.round(lateMs) } : null;
}

/** A clock that a test moves, in the three ways in which real ones move. */
import type { Clock } from '../../src/platform/clock.ts';

export class FakeTime implements Clock {
  #monotonic = 5_000;
  #wall = Date.UTC(2030, 0, 1);

  wallMs(): number {
    return this.#wall;
  }

  monotonicMs(): number {
    return this.#monotonic;
  }

  uptimeMs(): number {
    return this.#monotonic;
  }

  pass(ms: number): void {
    this.#monotonic += ms;
    this.#wall += ms;
  }

  /** The wall clock is set, or the machine slept: the monotonic clock does not know. */
  jump(ms: number): void {
    this.#wall += ms;
  }
}

/** Real time whose wall clock can be set. */
export class ShiftedTime implements Clock {
  #offset = 0;

  wallMs(): number {
    return Date.now() + this.#offset;
  }

  monotonicMs(): number {
    return performance.now();
  }

  uptimeMs(): number {
    return performance.now();
  }

  jump(ms: number): void {
    this.#offset += ms;
  }
}

/** Notices that an embedded coordinator is needed by nobody: nothing alive and no call for a while. */
import type { Clock } from '../platform/clock.ts';
import { every } from '../platform/timers.ts';

export interface IdleOptions {
  idleMs: number;
  clock: Clock;
  isNeeded: () => boolean;
  onIdle: () => void;
}

const LOOK_MS_MAX = 5_000;
const LOOK_MS_MIN = 20;

export class IdleWatch {
  readonly #options: IdleOptions;
  readonly #stop: () => void;
  #neededAt: number;

  constructor(options: IdleOptions) {
    this.#options = options;
    this.#neededAt = options.clock.monotonicMs();
    this.#stop = every(Math.max(LOOK_MS_MIN, Math.min(LOOK_MS_MAX, options.idleMs / 4)), () => this.#look());
  }

  called(): void {
    this.#neededAt = this.#options.clock.monotonicMs();
  }

  stop(): void {
    this.#stop();
  }

  #look(): void {
    const { idleMs, clock, isNeeded, onIdle } = this.#options;
    if (isNeeded()) this.called();
    else if (clock.monotonicMs() - this.#neededAt >= idleMs) {
      this.stop();
      onIdle();
    }
  }
}

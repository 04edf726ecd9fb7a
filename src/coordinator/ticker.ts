/**
 * Lets time pass: sleeps until the next deadline (bounded, so that jumps and stalls are seen), then submits a tick.
 * Nothing expires but through here, and the clock is looked at before each tick.
 */
import { nextDeadline } from '../core/deadlines.ts';
import { logger } from '../platform/logging.ts';
import { after } from '../platform/timers.ts';
import type { CoordinatorClock, Disturbance } from './coordinator-clock.ts';
import type { Engine } from './engine.ts';

export interface TickerOptions {
  engine: Engine;
  clock: CoordinatorClock;
  /** The shortest TTL that matters: how late a wake-up may be before silence proves nothing. */
  leaseTtlMs: number;
  onDisturbance: (disturbance: Disturbance) => void;
}

const WAKE_MS_MAX = 5_000;
const WAKE_MS_MIN = 1;
const RETRY_MS = 1_000;

const log = logger('ticker');

export class Ticker {
  readonly #options: TickerOptions;
  readonly #wakeMsMax: number;
  readonly #stallMs: number;
  readonly #unsubscribe: () => void;
  #cancel: (() => void) | null = null;
  #wakeAt = 0;
  #ticking = false;
  #stopped = false;

  constructor(options: TickerOptions) {
    this.#options = options;
    this.#wakeMsMax = Math.min(WAKE_MS_MAX, options.leaseTtlMs / 3);
    this.#stallMs = Math.max(250, options.leaseTtlMs / 6);
    this.#unsubscribe = options.engine.subscribe(() => this.#rearm());
    this.#arm(this.#nextWakeMs());
  }

  stop(): void {
    this.#stopped = true;
    this.#unsubscribe();
    this.#cancel?.();
  }

  #nextWakeMs(): number {
    const next = nextDeadline(this.#options.engine.state);
    const ms = next === null ? this.#wakeMsMax : next.at - this.#options.clock.now();
    return Math.min(this.#wakeMsMax, Math.max(WAKE_MS_MIN, ms));
  }

  #arm(ms: number): void {
    if (this.#stopped) return;
    this.#cancel?.();
    this.#wakeAt = this.#options.clock.monotonicMs() + ms;
    this.#cancel = after(ms, () => void this.#wake());
  }

  /** An earlier deadline than the one that is slept for. */
  #rearm(): void {
    if (this.#ticking) return;
    const ms = this.#nextWakeMs();
    if (this.#options.clock.monotonicMs() + ms < this.#wakeAt) this.#arm(ms);
  }

  async #wake(): Promise<void> {
    const { clock, engine, onDisturbance } = this.#options;
    const disturbance = clock.look(clock.monotonicMs() - this.#wakeAt, this.#stallMs);
    if (disturbance !== null) onDisturbance(disturbance);
    this.#ticking = true;
    const failed = await this.#tickIfDue(engine, clock.now());
    this.#ticking = false;
    this.#arm(failed ? RETRY_MS : this.#nextWakeMs());
  }

  async #tickIfDue(engine: Engine, now: number): Promise<boolean> {
    const next = nextDeadline(engine.state);
    if (next === null || next.at > now) return false;
    try {
      const answer = await engine.submit<'tick'>({ type: 'tick' }, { principal: 'coordinator' });
      return !answer.ok;
    } catch (error) {
      log.warn('a tick could not be committed', { error });
      return true;
    }
  }
}

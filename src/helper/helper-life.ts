/**
 * One life of a Helper: beacons at once, at each interval and at each hint; follows the coordinator to its next
 * process; starts one when it knows of a lease and none is there; ends after a farewell or when told to.
 * A coordinator that does not answer changes nothing here: stacks are neither renewed nor torn down.
 */
import type { Clock } from '../platform/clock.ts';
import { logger } from '../platform/logging.ts';
import { jitter } from '../platform/random.ts';
import { sleepMs } from '../platform/timers.ts';
import type { Beacon } from './beacon.ts';
import type { CoordinatorLink } from './coordinator-link.ts';
import { failureOf } from './failure-words.ts';
import { judgeAbsence, retryDelayMs } from './host-rules.ts';

const log = logger('helper');

/** How often the disk is asked whether another coordinator is there. */
const PRESENCE_POLL_MS = 400;
const STREAM_RETRY_MS_MAX = 2_000;

/** `outdated`: the coordinator is of another version, and starts a Helper of its own once this one is gone. */
export type LifeEnd = 'farewell' | 'told_to_end' | 'nothing_to_do' | 'superseded' | 'outdated';

export interface LifeOptions {
  readonly link: CoordinatorLink;
  readonly beacon: Beacon;
  readonly clock: Clock;
  readonly embedded: boolean;
  readonly beaconMs: number;
  readonly idleExitMs: number;
  readonly afterRound: (attached: boolean) => void;
}

export class HelperLife {
  readonly #options: LifeOptions;
  readonly #end = new AbortController();
  #ended: LifeEnd | null = null;
  #wake = new AbortController();
  /** The coordinator knows this host: before that it has no stream for it. */
  readonly #known = Promise.withResolvers<void>();
  #goneSince: number | null = null;
  #failures = 0;

  constructor(options: LifeOptions) {
    this.#options = options;
  }

  get isEnding(): boolean {
    return this.#ended !== null;
  }

  /** A beacon is due now. */
  nudge(): void {
    this.#wake.abort();
  }

  end(how: LifeEnd): void {
    this.#ended ??= how;
    this.#end.abort();
    this.#known.resolve();
    this.nudge();
  }

  async run(): Promise<LifeEnd> {
    const streams = this.#keepStream();
    while (this.#ended === null) {
      // Whatever happens from here on is answered by another round.
      this.#wake = new AbortController();
      const waitMs = await this.#turn();
      if (this.#ended === null) await sleepMs(waitMs, this.#wake.signal);
    }
    await streams;
    return this.#ended;
  }

  /** What is due now; answers how long nothing is. */
  async #turn(): Promise<number> {
    const { link, beacon, embedded, idleExitMs, beaconMs } = this.#options;
    const step = judgeAbsence({
      coordinator: link.presence() === null ? 'gone' : 'alive',
      embedded,
      known_leases: beacon.knownLeases.length,
      gone_for_ms: this.#goneForMs(),
      idle_exit_ms: idleExitMs,
    });
    switch (step) {
      case 'end':
        this.end('nothing_to_do');
        return 0;
      case 'wait':
        this.#options.afterRound(false);
        return PRESENCE_POLL_MS + jitter(PRESENCE_POLL_MS / 2);
      case 'start_one':
      case 'attach':
        return (await this.#beacon()) ? beaconMs : this.#retryMs();
    }
  }

  async #beacon(): Promise<boolean> {
    const { beacon, afterRound } = this.#options;
    try {
      await beacon.round(this.#end.signal);
      this.#failures = 0;
      this.#goneSince = null;
      this.#known.resolve();
      afterRound(true);
      return true;
    } catch (error) {
      if (this.#ended !== null) return false;
      this.#failures += 1;
      log.warn('the beacon was not taken', { failures: this.#failures, error });
      const code = failureOf(error).error_class;
      if (code === 'HELPER_SUPERSEDED') this.end('superseded');
      if (code === 'version_mismatch' && this.#options.embedded) this.end('outdated');
      afterRound(false);
      return false;
    }
  }

  #retryMs(): number {
    const pauseMs = retryDelayMs(Math.max(1, this.#failures));
    return pauseMs + jitter(pauseMs);
  }

  #goneForMs(): number {
    const { link, clock } = this.#options;
    if (link.presence() !== null) {
      this.#goneSince = null;
      return 0;
    }
    const now = clock.monotonicMs();
    this.#goneSince ??= now;
    return now - this.#goneSince;
  }

  async #keepStream(): Promise<void> {
    const { link } = this.#options;
    await this.#known.promise;
    for (let failures = 0; this.#ended === null; ) {
      if (link.presence() !== null) {
        let opened = false;
        await link.readHostStream({
          signal: this.#end.signal,
          onOpen: () => {
            opened = true;
            this.nudge();
          },
          onWork: () => this.nudge(),
          onFarewell: () => this.end('farewell'),
        });
        failures = opened ? 0 : failures + 1;
        // Its end is the first sign that the coordinator is gone.
        this.nudge();
      }
      const pauseMs = Math.min(STREAM_RETRY_MS_MAX, PRESENCE_POLL_MS * 2 ** Math.min(failures, 5));
      await sleepMs(jitter(pauseMs), this.#end.signal);
    }
  }
}

/**
 * Keeps one Helper running beside an embedded coordinator: a process of its own, started again when it ends. A Helper
 * that finds another one in this home ends at once; it is tried again, ever more slowly, until the other is gone.
 */
import { systemClock } from '../platform/clock.ts';
import { logger } from '../platform/logging.ts';
import { type ChildHandle, signalGroup } from '../platform/processes.ts';
import { type DaemonOptions, spawnDaemon } from '../platform/self-exec.ts';
import { sleepMs, withTimeout } from '../platform/timers.ts';

const PAUSE_MS_MIN = 250;
const PAUSE_MS_MAX = 5_000;
/** Who lived this long was no failed start. */
const STEADY_MS = 30_000;
const TERM_GRACE_MS = 10_000;
const KILL_GRACE_MS = 2_000;

const log = logger('helper-child');

export interface HelperOptions extends DaemonOptions {
  /** How long it may take to end when it is asked to. */
  readonly termGraceMs?: number;
}

export class HelperChild {
  readonly #options: HelperOptions;
  readonly #stopping = new AbortController();
  readonly #done: Promise<void>;
  #child: ChildHandle | null = null;

  constructor(options: HelperOptions) {
    this.#options = options;
    this.#done = this.#keepRunning();
  }

  get pid(): number | null {
    return this.#child?.identity.pid ?? null;
  }

  /** Ends the Helper and starts no other. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#signal('SIGTERM', this.#options.termGraceMs ?? TERM_GRACE_MS);
    await this.#signal('SIGKILL', KILL_GRACE_MS);
    await this.#done;
  }

  async #signal(signal: 'SIGTERM' | 'SIGKILL', graceMs: number): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    signalGroup(child.identity, signal);
    await withTimeout(child.exited, graceMs);
  }

  async #keepRunning(): Promise<void> {
    let pauseMs = PAUSE_MS_MIN;
    while (!this.#stopping.signal.aborted) {
      const startedAt = systemClock.monotonicMs();
      await this.#runOnce();
      const lived = systemClock.monotonicMs() - startedAt;
      pauseMs = lived >= STEADY_MS ? PAUSE_MS_MIN : Math.min(pauseMs * 2, PAUSE_MS_MAX);
      await sleepMs(pauseMs, this.#stopping.signal);
    }
  }

  async #runOnce(): Promise<void> {
    try {
      const child = spawnDaemon(this.#options);
      this.#child = child;
      const exit = await child.exited;
      if (!this.#stopping.signal.aborted) log.info('the Helper ended', { pid: child.identity.pid, ...exit });
    } catch (error) {
      log.error('the Helper could not be started', { error });
    } finally {
      this.#child = null;
    }
  }
}

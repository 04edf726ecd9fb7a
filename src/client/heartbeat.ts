/**
 * Keeps a lease alive while its owner works: the thin loop around heartbeat-rules.ts. It lives until it is stopped or
 * the lease is lost, and tells a loss exactly once.
 */
import { type Clock, systemClock } from '../platform/clock.ts';
import { jitter } from '../platform/random.ts';
import { after } from '../platform/timers.ts';
import type { CoordinatorClient } from './calls.ts';
import {
  type HeartbeatEvent,
  type HeartbeatState,
  heartbeatStep,
  initialHeartbeat,
  type LeaseLoss,
} from './heartbeat-rules.ts';
import type { PlatformIncident } from './incident-rules.ts';

export interface HeartbeatOptions {
  leaseId: string;
  fencingToken: number | null;
  everyMs: number;
  ttlMs: number;
  onLost: (loss: LeaseLoss) => void;
  /** The incident changed: opened, went on, or recovered. */
  onIncident?: (incident: PlatformIncident) => void;
  /** First pause after a failed touch. */
  retryMsFirst?: number;
  clock?: Clock;
}

export interface Heartbeat {
  stop(): void;
  readonly incident: PlatformIncident | null;
}

type WithoutMoment<E> = E extends unknown ? Omit<E, 'at'> : never;

const TOUCH_TIMEOUT_MS_MIN = 500;
const TOUCH_TIMEOUT_MS_MAX = 10_000;

export function startHeartbeat(client: CoordinatorClient, options: HeartbeatOptions): Heartbeat {
  const heart = new Heart(client, options);
  heart.happens({ type: 'started' });
  return heart;
}

class Heart implements Heartbeat {
  readonly #client: CoordinatorClient;
  readonly #options: HeartbeatOptions;
  readonly #clock: Clock;
  readonly #stopped = new AbortController();
  #state: HeartbeatState;
  #cancelTimer: () => void = () => {};

  constructor(client: CoordinatorClient, options: HeartbeatOptions) {
    this.#client = client;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#state = initialHeartbeat(options);
  }

  get incident(): PlatformIncident | null {
    return this.#state.incident;
  }

  stop(): void {
    this.#stopped.abort();
    this.#cancelTimer();
  }

  happens(happening: WithoutMoment<HeartbeatEvent>): void {
    if (this.#stopped.signal.aborted) return;
    const clock = this.#clock;
    const times = { nowMs: clock.monotonicMs(), uptimeMs: clock.uptimeMs(), wallMs: clock.wallMs() };
    const before = this.#state.incident;
    const step = heartbeatStep(this.#state, { ...happening, at: { ...times, jitter: jitter(1) } } as HeartbeatEvent);
    this.#state = step.state;
    const { incident } = step.state;
    if (incident !== null && incident !== before) this.#options.onIncident?.(incident);
    for (const action of step.actions) {
      if (action.type === 'touch') void this.#touch();
      if (action.type === 'set_timer') this.#setTimer(action.ms);
      if (action.type === 'lost') {
        this.stop();
        this.#options.onLost(action.loss);
      }
    }
  }

  #setTimer(ms: number): void {
    this.#cancelTimer();
    this.#cancelTimer = after(ms, () => this.happens({ type: 'timer' }));
  }

  async #touch(): Promise<void> {
    const { leaseId, fencingToken, everyMs } = this.#options;
    const timeoutMs = Math.min(Math.max(everyMs, TOUCH_TIMEOUT_MS_MIN), TOUCH_TIMEOUT_MS_MAX);
    const { signal } = this.#stopped;
    const args = { lease_id: leaseId, fencing_token: fencingToken };
    const attempt = await this.#client.attempt('touch_stack_lease', args, { timeoutMs, signal });
    if (attempt.ok) return this.happens({ type: 'answered' });
    const { trouble } = attempt;
    if (trouble.status === 401) await this.#client.authentication.refresh(signal);
    this.happens({ type: 'failed', trouble });
  }
}

/**
 * The thin loop around park-rules.ts: turns its actions into calls, streams and timers, and what comes of them into
 * events. Decides nothing itself. A park ends exactly once, and leaves nothing running.
 */
import { systemClock } from '../platform/clock.ts';
import { jitter } from '../platform/random.ts';
import { after } from '../platform/timers.ts';
import type { LeaseView } from '../protocol/records.ts';
import type { CoordinatorClient } from './calls.ts';
import type { ParkAction, ParkEnding, ParkEvent, ParkOptions, ParkState, StreamQuery } from './park-model.ts';
import { initialPark, parkStep } from './park-rules.ts';
import { readStream } from './stream-reader.ts';

/** How a park ended, once nothing of it is left open that nobody will come back to. */
export type ParkEnd = Omit<ParkEnding, 'waitLeftOpen'>;

export interface ParkRequest extends ParkOptions {
  agent: string;
  signal?: AbortSignal;
  /** Each newer view of the lease that the park is about. */
  onProgress?: (lease: LeaseView) => void;
  /** A wait that is left open is kept at the coordinator, for somebody who comes back to it. */
  keepsWait?: boolean;
}

type WithoutMoment<E> = E extends unknown ? Omit<E, 'at'> : never;
type Happening = WithoutMoment<ParkEvent>;

/** Long enough for an embedded coordinator to be started. */
const CALL_TIMEOUT_MS = 15_000;
const LAST_LOOK_TIMEOUT_MS = 5_000;
const CANCEL_TIMEOUT_MS = 1_000;

export async function park(client: CoordinatorClient, request: ParkRequest): Promise<ParkEnd> {
  const loop = new ParkLoop(client, request);
  const { waitLeftOpen, ...end } = await loop.run();
  if (waitLeftOpen && request.keepsWait !== true) await cancelWait(client, end.waitId);
  return end;
}

class ParkLoop {
  readonly #client: CoordinatorClient;
  readonly #request: ParkRequest;
  readonly #end = Promise.withResolvers<ParkEnding>();
  readonly #calls = new AbortController();
  readonly #onAbort = () => this.#happens({ type: 'interrupted' });
  #state: ParkState;
  #stream = new AbortController();
  #cancelBackoff: () => void = () => {};

  constructor(client: CoordinatorClient, request: ParkRequest) {
    this.#client = client;
    this.#request = request;
    this.#state = initialPark(request);
  }

  async run(): Promise<ParkEnding> {
    const { signal, deadlineMs } = this.#request;
    const toDeadlineMs = deadlineMs - systemClock.monotonicMs();
    const cancelDeadline = after(toDeadlineMs, () => this.#happens({ type: 'deadline_reached' }));
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    try {
      this.#happens(signal?.aborted === true ? { type: 'interrupted' } : { type: 'started' });
      return await this.#end.promise;
    } finally {
      signal?.removeEventListener('abort', this.#onAbort);
      cancelDeadline();
      this.#cancelBackoff();
      this.#stream.abort();
      this.#calls.abort();
    }
  }

  #happens(happening: Happening): void {
    const at = { nowMs: systemClock.monotonicMs(), wallMs: systemClock.wallMs(), jitter: jitter(1) };
    const before = this.#state.lease;
    const step = parkStep(this.#state, { ...happening, at } as ParkEvent);
    this.#state = step.state;
    const { lease } = step.state;
    if (lease !== null && lease !== before) this.#request.onProgress?.(lease);
    for (const action of step.actions) this.#act(action);
  }

  #act(action: ParkAction): void {
    switch (action.type) {
      case 'register':
        this.#when(this.#register(action));
        break;
      case 'open_stream':
        this.#openStream(action.query, action.cursor);
        break;
      case 'close_stream':
        this.#stream.abort();
        break;
      case 'back_off':
        this.#cancelBackoff = after(action.ms, () => this.#happens({ type: 'backoff_elapsed' }));
        break;
      case 'refresh_credential':
        this.#when(this.#refresh());
        break;
      case 'read_lease':
        this.#when(this.#readLease(action.leaseId));
        break;
      case 'end':
        this.#end.resolve(action.end);
        break;
    }
  }

  /** A bug on the way ends the park as such, never silently. */
  #when(happening: Promise<Happening>): void {
    happening.then((happened) => this.#happens(happened)).catch((error: unknown) => this.#end.reject(error));
  }

  async #register({ waitId, conditions, timeoutMs, idempotencyKey }: Extract<ParkAction, { type: 'register' }>) {
    const { agent, mode } = this.#request;
    const args = { agent, mode, wait_session_id: waitId, conditions: [...conditions], timeout_ms: timeoutMs };
    const attempt = await this.#client.attempt(
      'wait',
      { ...args, idempotency_key: idempotencyKey },
      { timeoutMs: CALL_TIMEOUT_MS, signal: this.#calls.signal },
    );
    return attempt.ok
      ? { type: 'registered' as const, wait: attempt.result }
      : { type: 'registration_failed' as const, trouble: attempt.trouble };
  }

  #openStream(query: StreamQuery, cursor: string | null): void {
    const stream = new AbortController();
    this.#stream = stream;
    const unlessClosed = (happening: Happening) => {
      if (!stream.signal.aborted) this.#happens(happening);
    };
    const reading = readStream(this.#client, {
      query: { ...query },
      lastEventId: cursor,
      signal: stream.signal,
      onOpen: () => unlessClosed({ type: 'stream_opened' }),
      onFrame: (frame) => unlessClosed({ type: 'frame', frame }),
    });
    reading
      .then((end) => {
        if (end.type === 'failed') unlessClosed({ type: 'stream_failed', trouble: end.trouble });
        if (end.type === 'closed') unlessClosed({ type: 'stream_closed', message: end.message });
      })
      .catch((error: unknown) => this.#end.reject(error));
  }

  async #readLease(leaseId: string) {
    const timeoutMs = this.#state.phase === 'concluding' ? LAST_LOOK_TIMEOUT_MS : CALL_TIMEOUT_MS;
    const options = { timeoutMs, signal: this.#calls.signal };
    const attempt = await this.#client.attempt('get_stack_lease', { lease_id: leaseId }, options);
    return attempt.ok
      ? { type: 'lease_read' as const, lease: attempt.result.lease }
      : { type: 'lease_read_failed' as const, trouble: attempt.trouble };
  }

  async #refresh() {
    const verdict = await this.#client.authentication.refresh(this.#calls.signal);
    return { type: 'credential_checked' as const, verdict };
  }
}

/** Nobody will come back to it; if this gets lost the coordinator gives the wait up by itself. */
async function cancelWait(client: CoordinatorClient, waitId: string): Promise<void> {
  const args = { wait_session_id: waitId, idempotency_key: `${waitId}.cancel` };
  await client.attempt('cancel_wait', args, { timeoutMs: CANCEL_TIMEOUT_MS, mayStart: false });
}

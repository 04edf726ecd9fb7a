/** The loop around the real park rules, over the simulated wire. */
import type { ParkAction, ParkEnding, ParkEvent, ParkOptions, ParkState } from '../../src/client/park-model.ts';
import { initialPark, parkStep } from '../../src/client/park-rules.ts';
import type { LeaseView } from '../../src/protocol/records.ts';
import { type CallAnswer, call } from './network.ts';
import type { Sim } from './sim.ts';
import type { Happening, Life } from './timeline.ts';

type WithoutMoment<E> = E extends unknown ? Omit<E, 'at'> : never;
type Happened = WithoutMoment<ParkEvent>;

const CALL_TIMEOUT_MS = 15_000;
const LAST_LOOK_TIMEOUT_MS = 5_000;

export interface SimParkRequest extends ParkOptions {
  readonly agent: string;
  readonly onProgress: (lease: LeaseView) => void;
  readonly onEnd: (end: ParkEnding) => void;
}

export class SimPark {
  readonly #sim: Sim;
  readonly #life: Life;
  readonly #request: SimParkRequest;
  readonly #deadline: Happening;
  #state: ParkState;
  #closeStream: () => void = () => {};
  #streams = 0;
  #backOff: Happening | null = null;
  #over = false;

  constructor(sim: Sim, life: Life, request: SimParkRequest) {
    this.#sim = sim;
    this.#life = life;
    this.#request = request;
    this.#state = initialPark(request);
    const ms = request.deadlineMs - life.machine.clock.monotonicMs();
    this.#deadline = sim.timeline.after(ms, life, 'park deadline', () => this.#happens({ type: 'deadline_reached' }));
    this.#happens({ type: 'started' });
  }

  get phase(): string {
    return this.#state.phase;
  }

  interrupt(): void {
    this.#happens({ type: 'interrupted' });
  }

  #happens(happened: Happened): void {
    if (this.#over) return;
    const { clock } = this.#life.machine;
    const at = { nowMs: clock.monotonicMs(), wallMs: clock.wallMs(), jitter: this.#sim.random.below(1_000) / 1_000 };
    const before = this.#state.lease;
    const step = parkStep(this.#state, { ...happened, at } as ParkEvent);
    this.#state = step.state;
    const { lease } = step.state;
    if (lease !== null && lease !== before) this.#request.onProgress(lease);
    for (const action of step.actions) this.#act(action);
  }

  #act(action: ParkAction): void {
    const { timeline } = this.#sim;
    switch (action.type) {
      case 'register':
        this.#register(action);
        return;
      case 'open_stream':
        this.#openStream(action);
        return;
      case 'close_stream':
        this.#streams += 1;
        this.#closeStream();
        return;
      case 'back_off':
        this.#backOff = timeline.after(action.ms, this.#life, 'park backed off', () =>
          this.#happens({ type: 'backoff_elapsed' }),
        );
        return;
      case 'refresh_credential':
        timeline.after(5, this.#life, 'credential looked at', () =>
          this.#happens({ type: 'credential_checked', verdict: { type: 'ready' } }),
        );
        return;
      case 'read_lease':
        this.#readLease(action.leaseId);
        return;
      case 'end':
        this.#end(action.end);
        return;
    }
  }

  #register({ waitId, conditions, timeoutMs, idempotencyKey }: Extract<ParkAction, { type: 'register' }>): void {
    const { agent, mode } = this.#request;
    const args = {
      agent,
      mode,
      wait_session_id: waitId,
      conditions: [...conditions],
      timeout_ms: timeoutMs,
      idempotency_key: idempotencyKey,
    };
    call(
      this.#sim,
      this.#life,
      'wait',
      args,
      (answer) => {
        if (answer.ok) this.#happens({ type: 'registered', wait: answer.result });
        else this.#happens({ type: 'registration_failed', trouble: troubleOf(answer) });
      },
      CALL_TIMEOUT_MS,
    );
  }

  #openStream({ query, cursor }: Extract<ParkAction, { type: 'open_stream' }>): void {
    this.#streams += 1;
    const mine = this.#streams;
    const unlessClosed = (happened: Happened) => {
      if (mine === this.#streams) this.#happens(happened);
    };
    this.#closeStream = this.#sim.coordinator.streams.open(this.#life, query, cursor, {
      opened: () => unlessClosed({ type: 'stream_opened' }),
      frame: (frame) => unlessClosed({ type: 'frame', frame }),
      closed: (message) => unlessClosed({ type: 'stream_closed', message }),
      failed: (trouble) => unlessClosed({ type: 'stream_failed', trouble }),
    });
  }

  #readLease(leaseId: string): void {
    const timeoutMs = this.#state.phase === 'concluding' ? LAST_LOOK_TIMEOUT_MS : CALL_TIMEOUT_MS;
    call(
      this.#sim,
      this.#life,
      'get_stack_lease',
      { lease_id: leaseId },
      (answer) => {
        if (answer.ok) this.#happens({ type: 'lease_read', lease: answer.result.lease });
        else this.#happens({ type: 'lease_read_failed', trouble: troubleOf(answer) });
      },
      timeoutMs,
    );
  }

  #end(end: ParkEnding): void {
    this.#over = true;
    this.#streams += 1;
    this.#closeStream();
    this.#deadline.cancelled = true;
    if (this.#backOff !== null) this.#backOff.cancelled = true;
    if (end.waitLeftOpen) {
      call(
        this.#sim,
        this.#life,
        'cancel_wait',
        { wait_session_id: end.waitId, idempotency_key: `${end.waitId}.cancel` },
        () => {},
        1_000,
      );
    }
    this.#request.onEnd(end);
  }
}

function troubleOf(answer: (CallAnswer<never> & { ok: false }) | Extract<CallAnswer<'wait'>, { ok: false }>) {
  return { status: answer.status, code: answer.code, message: answer.message };
}

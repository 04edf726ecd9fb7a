/**
 * The engine: takes the inputs that arrived together, steps them, commits all their events in one durable transaction
 * and only then answers and publishes. Owns the working state. Must not know HTTP, nor what any input means.
 * Whatever leaves the state in doubt (a failed commit, a bug in an input) is answered by folding the log again.
 */
import type { SequencedEvent } from '../core/events.ts';
import type { ArchiveRow, Input, InputType, Liveness, Refusal, Replies } from '../core/inputs.ts';
import type { State } from '../core/model.ts';
import { toSnapshot } from '../core/state.ts';
import type { ArchiveRef, EventLog, StatementRow, StoredRow } from '../log/event-log.ts';
import { Failure } from '../platform/failure.ts';
import { logger } from '../platform/logging.ts';
import { newId } from '../platform/random.ts';
import { after } from '../platform/timers.ts';
import { Batch, type BatchLook, InputFault, type Pending, readsOf, type SettledInput } from './_batch.ts';
import { applyMissed, foldLog } from './_fold-log.ts';
import type { CoordinatorClock } from './coordinator-clock.ts';

export const ENGINE_BOUNDS = { batchInputsMax: 512, queuedInputsMax: 10_000, eventsPerSnapshot: 5_000 } as const;

/** What an input is made from, and what its answer is rendered from. */
export type Look = BatchLook;

export type Answer<R> = { seq: number } & ({ ok: true; reply: R } | { ok: false; refusal: Refusal });

/** Instead of an input: the answer is already there and nothing needs to be stepped. */
export class Settled implements SettledInput {
  readonly type = 'settled';
  readonly reply: unknown;
  constructor(reply: unknown) {
    this.reply = reply;
  }
}

export interface EngineOptions {
  log: EventLog;
  clock: CoordinatorClock;
  liveness: Liveness;
}

export interface SubmitOptions<T extends InputType, R> {
  principal: string;
  idempotency?: { key: string; args_hash: string } | undefined;
  /** Rows that the input may need when memory has nothing; read in the same transaction. */
  archive?: readonly ArchiveRef[];
  /** Kept when the input is accepted. */
  statement?: StatementRow | null;
  /** Made from the state right after the input; stored as it is for repeated keys. */
  render?: (reply: Replies[T], look: Look) => R;
}

type InputOf<T extends InputType> = Extract<Input, { type: T }>;
type Listener = (events: readonly SequencedEvent[], ended: readonly ArchiveRow[]) => void;

const log = logger('engine');

export class Engine {
  readonly #log: EventLog;
  readonly #clock: CoordinatorClock;
  readonly #liveness: Liveness;
  readonly #listeners = new Set<Listener>();
  #state: State;
  #queue: Pending[] = [];
  #flushing: Promise<void> | null = null;
  #scheduled = false;
  /** The state does not stand for the log any more and must be folded again before anything else. */
  #doubtful = false;
  #snapshotSeq: number;
  #snapshotDue = false;

  private constructor({ log: eventLog, clock, liveness }: EngineOptions, state: State, snapshotSeq: number) {
    this.#log = eventLog;
    this.#clock = clock;
    this.#liveness = liveness;
    this.#state = state;
    this.#snapshotSeq = snapshotSeq;
  }

  static async open(options: EngineOptions): Promise<Engine> {
    const { state, snapshotSeq } = await foldLog(options.log);
    options.clock.startAfter(state.at);
    return new Engine(options, state, snapshotSeq);
  }

  get epoch(): string {
    return this.#log.epoch;
  }

  /** The committed state. Only between batches: whoever may run beside one asks `look`. */
  get state(): State {
    return this.#state;
  }

  /** Runs on the committed state, never beside a batch; catches up first when it is behind `seenSeq`. */
  async look<R>(read: (state: State, now: number) => R, seenSeq = 0): Promise<R> {
    if (this.#state.seq < seenSeq) await this.#catchUp();
    while (this.#flushing !== null) await this.#flushing;
    if (this.#doubtful) throw new Failure('log_unavailable', 'the log cannot be read at present');
    return read(this.#state, Math.max(this.#clock.now(), this.#state.at));
  }

  submit<T extends InputType, R = Replies[T]>(
    input: InputOf<T> | ((look: Look) => InputOf<T> | Settled),
    options: SubmitOptions<T, R>,
  ): Promise<Answer<R>> {
    if (this.#queue.length >= ENGINE_BOUNDS.queuedInputsMax) {
      return Promise.reject(new Failure('overloaded', 'too many calls are waiting for the log'));
    }
    const render = options.render ?? ((reply: Replies[T]) => structuredClone(reply));
    return new Promise((resolve, reject) => {
      this.#enqueue({
        principal: options.principal,
        idempotency: options.idempotency ?? null,
        archive: options.archive ?? [],
        statement: options.statement ?? null,
        build: typeof input === 'function' ? input : () => input,
        render: render as Pending['render'],
        resolve: resolve as Pending['resolve'],
        reject,
      });
    });
  }

  /** Called after each commit with what it appended, before its callers are answered. */
  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Finishes what was submitted and stores a snapshot. */
  async close(): Promise<void> {
    while (this.#flushing !== null || this.#queue.length > 0) {
      await (this.#flushing ?? new Promise((resolve) => setImmediate(resolve)));
    }
    if (!this.#doubtful && this.#state.seq > this.#snapshotSeq) await this.#snapshot();
    await this.#log.close();
  }

  #enqueue(pending: Pending): void {
    this.#queue.push(pending);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled || this.#flushing !== null || this.#queue.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flushing = this.#flush().finally(() => {
        this.#flushing = null;
        this.#schedule();
        this.#snapshotSoon();
      });
    });
  }

  async #flush(): Promise<void> {
    const batch = this.#queue.splice(0, ENGINE_BOUNDS.batchInputsMax);
    for (;;) {
      try {
        if (this.#doubtful) await this.#foldAgain();
        await this.#commit(batch);
        return;
      } catch (error) {
        if (error instanceof InputFault) {
          batch.splice(batch.indexOf(error.pending), 1);
          this.#refuseFault(error);
          continue;
        }
        this.#clock.giveGrace();
        const failure = asFailure(error);
        for (const pending of batch) pending.reject(failure);
        log.error('a batch could not be committed', { code: failure.code, inputs: batch.length, error: failure });
        return;
      }
    }
  }

  async #commit(batch: readonly Pending[]): Promise<void> {
    const batchId = newId();
    const before = this.#state.seq;
    let run: Batch | null = null;
    const missed: { events: SequencedEvent[]; ended: ArchiveRow[] } = { events: [], ended: [] };
    try {
      await this.#log.commit(readsOf(batch), (view) => {
        this.#doubtful = true;
        Object.assign(missed, applyMissed(this.#state, view.missed));
        const now = Math.max(this.#clock.now(), this.#state.at);
        run = new Batch(this.#state, view, { now, liveness: this.#liveness, grace_until: this.#clock.graceUntil });
        for (const pending of batch) run.run(pending);
        return run.plan(batchId);
      });
      this.#doubtful = false;
    } catch (error) {
      if (error instanceof InputFault || !(await this.#committedAfterAll(batchId, before))) throw error;
    }
    if (run !== null) this.#tell(batch, run, missed);
  }

  /** Folds again after a commit without an answer, and tells whether it happened: then its answers stand. */
  async #committedAfterAll(batchId: string, before: number): Promise<boolean> {
    if (!this.#doubtful) return false;
    try {
      const happened = await this.#log.hasBatch(batchId, before);
      await this.#foldAgain();
      return happened;
    } catch (error) {
      log.error('the log cannot be read either', { error });
      return false;
    }
  }

  #tell(batch: readonly Pending[], run: Batch, missed: { events: SequencedEvent[]; ended: ArchiveRow[] }): void {
    const events = [...missed.events, ...run.events];
    const ended = [...missed.ended, ...run.rows.filter(isEnded)];
    if (events.length > 0) this.#publish(events, ended);
    const seq = this.#state.seq;
    for (const [index, pending] of batch.entries()) {
      const told = run.told[index] ?? { ok: false, refusal: INTERNAL };
      pending.resolve({ seq, ...told });
    }
  }

  #publish(events: readonly SequencedEvent[], ended: readonly ArchiveRow[]): void {
    for (const listener of this.#listeners) {
      try {
        listener(events, ended);
      } catch (error) {
        log.error('a listener failed', { error });
      }
    }
  }

  #refuseFault({ pending, cause }: InputFault): void {
    log.error('an input ran into a bug', { error: cause, stack: cause instanceof Error ? cause.stack : null });
    pending.resolve({ seq: this.#state.seq, ok: false, refusal: INTERNAL });
  }

  async #foldAgain(): Promise<void> {
    const { state, snapshotSeq } = await foldLog(this.#log);
    this.#state = state;
    this.#snapshotSeq = snapshotSeq;
    this.#doubtful = false;
  }

  async #catchUp(): Promise<void> {
    await this.submit<'tick', null>(() => new Settled(null), { principal: 'coordinator' });
  }

  #snapshotSoon(): void {
    if (this.#snapshotDue || this.#state.seq - this.#snapshotSeq < ENGINE_BOUNDS.eventsPerSnapshot) return;
    this.#snapshotDue = true;
    after(0, () => {
      this.#snapshotDue = false;
      if (this.#flushing === null && !this.#doubtful) void this.#snapshot();
    });
  }

  async #snapshot(): Promise<void> {
    const seq = this.#state.seq;
    this.#snapshotSeq = seq;
    try {
      await this.#log.snapshot(seq, toSnapshot(this.#state));
    } catch (error) {
      log.warn('no snapshot could be stored', { seq, error });
    }
  }
}

const INTERNAL: Refusal = { code: 'internal', message: 'the coordinator ran into a bug of its own', fields: {} };

const isEnded = (row: StoredRow): row is ArchiveRow => row.kind !== 'statement';

function asFailure(error: unknown): Failure {
  return error instanceof Failure ? error : new Failure('internal', 'the log failed unexpectedly', { cause: error });
}

/** One batch of inputs stepped over the working state: what it appends, and what each of its callers will be told. */
import type { SequencedEvent } from '../core/events.ts';
import type { ArchiveRow, Input, InputType, Refusal, Replies, StepContext } from '../core/inputs.ts';
import type { Lease, State } from '../core/model.ts';
import { step } from '../core/step.ts';
import {
  type ArchiveRef,
  archiveId,
  type CommitPlan,
  type CommitReads,
  type CommitView,
  type IdempotencyRef,
  idempotencyId,
  type ReplyRow,
  type StatementRow,
  type StoredBody,
  type StoredReply,
  type StoredRow,
} from '../log/event-log.ts';
import type { Failure } from '../platform/failure.ts';

/** The committed state with this batch's earlier inputs in it. */
export interface BatchLook {
  readonly state: State;
  readonly now: number;
  archivedLease(id: string): Lease | null;
  archivedWait(id: string): StoredBody<'wait'> | null;
}

/** In place of an input: there is nothing to step. */
export interface SettledInput {
  readonly type: 'settled';
  readonly reply: unknown;
}

export type Told = { ok: true; reply: unknown } | { ok: false; refusal: Refusal };

export interface Pending {
  readonly principal: string;
  readonly idempotency: { key: string; args_hash: string } | null;
  readonly archive: readonly ArchiveRef[];
  readonly statement: StatementRow | null;
  readonly build: (look: BatchLook) => Input | SettledInput;
  readonly render: (reply: Replies[InputType], look: BatchLook) => unknown;
  readonly resolve: (answer: { seq: number } & Told) => void;
  readonly reject: (failure: Failure) => void;
}

/** A bug that one input ran into; its batch goes on without it. */
export class InputFault {
  readonly pending: Pending;
  readonly cause: unknown;
  constructor(pending: Pending, cause: unknown) {
    this.pending = pending;
    this.cause = cause;
  }
}

export function readsOf(batch: readonly Pending[]): CommitReads {
  const idempotency: IdempotencyRef[] = [];
  const archive: ArchiveRef[] = [];
  for (const pending of batch) {
    if (pending.idempotency !== null) {
      idempotency.push({ principal: pending.principal, key: pending.idempotency.key });
    }
    archive.push(...pending.archive);
  }
  return { idempotency, archive };
}

export class Batch {
  readonly events: SequencedEvent[] = [];
  readonly rows: StoredRow[] = [];
  readonly told: Told[] = [];
  readonly #replies = new Map<string, ReplyRow>();
  readonly #ended = new Map<string, ArchiveRow['body']>();
  readonly #state: State;
  readonly #view: CommitView;
  readonly #context: StepContext;

  constructor(state: State, view: CommitView, context: StepContext) {
    this.#state = state;
    this.#view = view;
    this.#context = context;
  }

  plan(batchId: string): CommitPlan {
    const replies = [...this.#replies.values()];
    return { batchId, events: this.events, archive: this.rows, replies, at: this.#context.now };
  }

  run(pending: Pending): void {
    try {
      this.told.push(this.#answer(pending));
    } catch (error) {
      throw new InputFault(pending, error);
    }
  }

  #answer(pending: Pending): Told {
    const stored = this.#storedReply(pending);
    if (stored !== null) return stored;
    const look = this.#look();
    const input = pending.build(look);
    if (input.type === 'settled') return { ok: true, reply: input.reply };
    const result = step(this.#state, input, this.#context);
    if (!result.ok) return { ok: false, refusal: result.refusal };
    this.events.push(...result.events);
    this.rows.push(...result.archive);
    for (const row of result.archive) this.#ended.set(archiveId(row.kind, row.id), row.body);
    if (pending.statement !== null) this.rows.push(pending.statement);
    const reply = pending.render(result.reply, this.#look());
    this.#keepReply(pending, reply);
    return { ok: true, reply };
  }

  #storedReply({ principal, idempotency }: Pending): Told | null {
    if (idempotency === null) return null;
    const id = idempotencyId({ principal, key: idempotency.key });
    const stored: StoredReply | undefined = this.#replies.get(id) ?? this.#view.replies.get(id);
    if (stored === undefined) return null;
    if (stored.args_hash === idempotency.args_hash) return { ok: true, reply: stored.reply };
    const message = 'this idempotency key came before with other arguments';
    return { ok: false, refusal: { code: 'idempotency_key_reused', message, fields: {} } };
  }

  #keepReply({ principal, idempotency }: Pending, reply: unknown): void {
    if (idempotency === null) return;
    const ref = { principal, key: idempotency.key };
    this.#replies.set(idempotencyId(ref), { ...ref, args_hash: idempotency.args_hash, reply });
  }

  #look(): BatchLook {
    const archived = (kind: ArchiveRow['kind'], id: string) =>
      this.#ended.get(archiveId(kind, id)) ?? this.#view.archived.get(archiveId(kind, id)) ?? null;
    return {
      state: this.#state,
      now: Math.max(this.#context.now, this.#state.at),
      archivedLease: (id) => archived('lease', id) as Lease | null,
      archivedWait: (id) => archived('wait', id) as StoredBody<'wait'> | null,
    };
  }
}

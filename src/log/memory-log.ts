/**
 * The log in memory, for tests and the simulation. Everything is kept encoded, so that nobody shares a record with
 * it. A `MemoryDisk` outlives the handles on it, as a disk outlives processes; `fault` is called at each point where
 * a disk may fail and throws to make it fail.
 */
import { EVENT_VERSION, type SequencedEvent } from '../core/events.ts';
import { decodeEvent, type EventRow, encodeEvent, parseStored } from './event-codec.ts';
import {
  archiveId,
  type CommitOutcome,
  type CommitPlan,
  type CommitReads,
  type CommitView,
  type EventLog,
  idempotencyId,
  LOG_BOUNDS,
  type Loaded,
  type StoredBody,
  type StoredKind,
  type StoredReply,
} from './event-log.ts';
import { checkPlan, checkTail } from './plan-check.ts';

export type FaultPoint = 'load' | 'before_commit' | 'after_commit' | 'snapshot';

interface KeptReply {
  principal: string;
  args_hash: string;
  reply: string;
  at: number;
}

export class MemoryDisk {
  readonly epoch: string;
  head = 0;
  events: (EventRow & { batchId: string })[] = [];
  snapshots: { seq: number; body: string }[] = [];
  readonly archive = new Map<string, { at: number; body: string }>();
  readonly replies = new Map<string, KeptReply>();
  readonly meta = new Map<string, string>();

  constructor(epoch: string) {
    this.epoch = epoch;
  }
}

export class MemoryLog implements EventLog {
  readonly epoch: string;
  readonly #disk: MemoryDisk;
  readonly #fault: (point: FaultPoint) => void;
  #position = 0;

  constructor(disk: MemoryDisk, fault: (point: FaultPoint) => void = () => {}) {
    this.epoch = disk.epoch;
    this.#disk = disk;
    this.#fault = fault;
  }

  async load(): Promise<Loaded> {
    this.#fault('load');
    const last = this.#disk.snapshots.at(-1);
    const tail = this.#since(last?.seq ?? 0);
    checkTail('memory', last?.seq ?? 0, tail, this.#disk.head);
    this.#position = this.#disk.head;
    if (last === undefined) return { snapshot: null, tail };
    return { snapshot: { seq: last.seq, state: parseStored(last.body, 'snapshot') }, tail };
  }

  async commit(reads: CommitReads, fn: (view: CommitView) => CommitPlan): Promise<CommitOutcome> {
    const plan = fn(this.#view(reads));
    checkPlan(this.#disk.head, plan);
    if (plan.events.length + plan.archive.length + plan.replies.length > 0) {
      this.#fault('before_commit');
      this.#write(plan);
      this.#fault('after_commit');
    }
    this.#position = this.#disk.head;
    return { seq: this.#disk.head };
  }

  async hasBatch(batchId: string, afterSeq: number): Promise<boolean> {
    return this.#disk.events.some((row) => row.seq > afterSeq && row.batchId === batchId);
  }

  async readSince(seq: number, limit: number): Promise<SequencedEvent[]> {
    return this.#since(seq).slice(0, limit);
  }

  async snapshot(seq: number, state: unknown): Promise<void> {
    this.#fault('snapshot');
    const others = this.#disk.snapshots.filter((kept) => kept.seq !== seq);
    const all = [...others, { seq, body: JSON.stringify(state) }].sort((a, b) => a.seq - b.seq);
    this.#disk.snapshots = all.slice(-LOG_BOUNDS.snapshotsKept);
    const newest = Math.max(0, ...[...this.#disk.archive.values()].map(({ at }) => at));
    for (const [id, { at }] of this.#disk.archive) {
      if (at < newest - LOG_BOUNDS.archiveKeptMs) this.#disk.archive.delete(id);
    }
  }

  async prune(beforeSeq: number): Promise<void> {
    const covered = (this.#disk.snapshots.at(-1)?.seq ?? 0) + 1;
    const from = Math.min(beforeSeq, covered);
    this.#disk.events = this.#disk.events.filter(({ seq }) => seq >= from);
  }

  async oldestSeq(): Promise<number> {
    return this.#disk.events[0]?.seq ?? this.#disk.head + 1;
  }

  async readArchive<K extends StoredKind>(kind: K, id: string): Promise<StoredBody<K> | null> {
    const row = this.#disk.archive.get(archiveId(kind, id));
    if (row === undefined) return null;
    return parseStored(row.body, `${kind} ${id} of the archive`) as StoredBody<K> | null;
  }

  async readMeta(name: string): Promise<string | null> {
    return this.#disk.meta.get(name) ?? null;
  }

  async writeMeta(name: string, value: string): Promise<void> {
    this.#disk.meta.set(name, value);
  }

  async close(): Promise<void> {}

  #view(reads: CommitReads): CommitView {
    const replies = new Map<string, StoredReply>();
    for (const ref of reads.idempotency) {
      const kept = this.#disk.replies.get(idempotencyId(ref));
      if (kept === undefined) continue;
      replies.set(idempotencyId(ref), { args_hash: kept.args_hash, reply: parseStored(kept.reply, ref.key) });
    }
    const archived = new Map<string, unknown>();
    for (const { kind, id } of reads.archive) {
      const row = this.#disk.archive.get(archiveId(kind, id));
      if (row !== undefined) archived.set(archiveId(kind, id), parseStored(row.body, id));
    }
    return { missed: this.#since(this.#position), replies, archived };
  }

  #write({ batchId, events, archive, replies, at }: CommitPlan): void {
    for (const { seq, at: eventAt, event } of events) {
      this.#disk.events.push({ seq, at: eventAt, version: EVENT_VERSION, body: encodeEvent(event), batchId });
      this.#disk.head = seq;
    }
    for (const { kind, id, body } of archive) {
      this.#disk.archive.set(archiveId(kind, id), { at, body: JSON.stringify(body) });
    }
    for (const { principal, key, args_hash, reply } of replies) {
      const kept = { principal, args_hash, reply: JSON.stringify(reply), at };
      this.#disk.replies.set(idempotencyId({ principal, key }), kept);
      this.#forgetOldReplies(principal, at);
    }
  }

  #forgetOldReplies(principal: string, now: number): void {
    const own: string[] = [];
    for (const [id, kept] of this.#disk.replies) {
      if (kept.at < now - LOG_BOUNDS.idempotencyKeptMs) this.#disk.replies.delete(id);
      else if (kept.principal === principal) own.push(id);
    }
    for (const id of own.slice(0, -LOG_BOUNDS.idempotencyKeysPerPrincipalMax)) this.#disk.replies.delete(id);
  }

  #since(seq: number): SequencedEvent[] {
    const first = this.#disk.events[0]?.seq ?? 0;
    return this.#disk.events.slice(Math.max(0, seq + 1 - first)).map(decodeEvent);
  }
}

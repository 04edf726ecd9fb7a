/**
 * The log in one SQLite file: WAL, synchronous FULL, one row an event. Everything runs in the calling thread, so no
 * reader sees what is not committed. Read next: `event-log.ts` for what each call promises, `schema.sql`.
 */
import type { Database } from 'bun:sqlite';
import { EVENT_VERSION, type SequencedEvent } from '../core/events.ts';
import { corrupt, onDatabase, sqliteFailure } from './_sqlite-failure.ts';
import { openDatabase } from './_sqlite-open.ts';
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
  type ReplyRow,
  type StoredBody,
  type StoredKind,
  type StoredReply,
} from './event-log.ts';
import { checkPlan, checkTail } from './plan-check.ts';

const EVERYTHING = 2 ** 31;
/** A few with each new key: never a long scan in a commit. */
const FORGET_EXPIRED_KEYS = `DELETE FROM idempotency
  WHERE n IN (SELECT n FROM idempotency ORDER BY n LIMIT 8) AND at < ? RETURNING principal`;
const FORGET_OLDEST_KEY = `DELETE FROM idempotency
  WHERE n = (SELECT MIN(n) FROM idempotency WHERE principal = ?) RETURNING principal`;

export class SqliteLog implements EventLog {
  readonly epoch: string;
  readonly #path: string;
  readonly #database: Database;
  /** Up to where this handle's user knows the log. */
  #position = 0;
  /** Idempotency keys kept for each principal. */
  #keysOf = new Map<string, number>();

  private constructor(path: string, database: Database) {
    this.#path = path;
    this.#database = database;
    const epoch = onDatabase(path, 'read', () => this.#meta('epoch'));
    if (epoch === null) throw corrupt(path, 'has no epoch');
    this.epoch = epoch;
    const counts = this.#database.query('SELECT principal, COUNT(*) AS n FROM idempotency GROUP BY principal').all();
    for (const { principal, n } of counts as { principal: string; n: number }[]) this.#keysOf.set(principal, n);
  }

  static open(path: string, database: Database = openDatabase(path)): SqliteLog {
    return new SqliteLog(path, database);
  }

  async load(): Promise<Loaded> {
    return onDatabase(this.#path, 'read', () => {
      const head = this.#headSeq();
      const row = this.#database.query('SELECT seq, body FROM snapshot ORDER BY seq DESC LIMIT 1').get() as {
        seq: number;
        body: string;
      } | null;
      const from = row?.seq ?? 0;
      const tail = this.#eventsSince(from, EVERYTHING);
      checkTail(this.#path, from, tail, head);
      this.#position = head;
      const snapshot = row === null ? null : { seq: row.seq, state: parseStored(row.body, `snapshot ${row.seq}`) };
      return { snapshot, tail };
    });
  }

  async commit(reads: CommitReads, fn: (view: CommitView) => CommitPlan): Promise<CommitOutcome> {
    onDatabase(this.#path, 'lock', () => this.#database.run('BEGIN IMMEDIATE'));
    try {
      const view = onDatabase(this.#path, 'read', () => this.#view(reads));
      const known = view.missed.at(-1)?.seq ?? this.#position;
      const plan = fn(view);
      checkPlan(known, plan);
      const head = known + plan.events.length;
      const writes = plan.events.length + plan.archive.length + plan.replies.length > 0;
      const keysOf = new Map(this.#keysOf);
      onDatabase(this.#path, 'write', () => {
        if (writes) this.#write(plan, head, keysOf);
        this.#database.run(writes ? 'COMMIT' : 'ROLLBACK');
      });
      this.#position = head;
      this.#keysOf = keysOf;
      return { seq: head };
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  async hasBatch(batchId: string, afterSeq: number): Promise<boolean> {
    const sql = 'SELECT 1 FROM event WHERE seq > ? AND batch_id = ? LIMIT 1';
    return onDatabase(this.#path, 'read', () => this.#database.query(sql).get(afterSeq, batchId) !== null);
  }

  async readSince(seq: number, limit: number): Promise<SequencedEvent[]> {
    return onDatabase(this.#path, 'read', () => this.#eventsSince(seq, limit));
  }

  async snapshot(seq: number, state: unknown): Promise<void> {
    const body = JSON.stringify(state);
    onDatabase(this.#path, 'write', () =>
      this.#database.transaction(() => {
        this.#database.run('INSERT OR REPLACE INTO snapshot (seq, body) VALUES (?, ?)', [seq, body]);
        this.#database.run(
          'DELETE FROM snapshot WHERE seq NOT IN (SELECT seq FROM snapshot ORDER BY seq DESC LIMIT ?)',
          [LOG_BOUNDS.snapshotsKept],
        );
        this.#database.run('DELETE FROM archive WHERE at < (SELECT MAX(at) FROM archive) - ?', [
          LOG_BOUNDS.archiveKeptMs,
        ]);
      })(),
    );
  }

  async prune(beforeSeq: number): Promise<void> {
    onDatabase(this.#path, 'prune', () => {
      const row = this.#database.query('SELECT MAX(seq) AS seq FROM snapshot').get() as { seq: number | null };
      const covered = (row.seq ?? 0) + 1;
      this.#database.run('DELETE FROM event WHERE seq < ?', [Math.min(beforeSeq, covered)]);
    });
  }

  async oldestSeq(): Promise<number> {
    return onDatabase(this.#path, 'read', () => {
      const row = this.#database.query('SELECT MIN(seq) AS seq FROM event').get() as { seq: number | null };
      return row.seq ?? this.#headSeq() + 1;
    });
  }

  async readArchive<K extends StoredKind>(kind: K, id: string): Promise<StoredBody<K> | null> {
    return onDatabase(this.#path, 'read', () => this.#archived(kind, id)) as StoredBody<K> | null;
  }

  async readMeta(name: string): Promise<string | null> {
    return onDatabase(this.#path, 'read', () => this.#meta(name));
  }

  async writeMeta(name: string, value: string): Promise<void> {
    const sql = 'INSERT INTO meta (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2';
    onDatabase(this.#path, 'write', () => this.#database.run(sql, [name, value]));
  }

  async close(): Promise<void> {
    this.#database.close();
  }

  #view(reads: CommitReads): CommitView {
    const missed = this.#headSeq() > this.#position ? this.#eventsSince(this.#position, EVERYTHING) : [];
    const replies = new Map<string, StoredReply>();
    for (const ref of reads.idempotency) {
      const sql = 'SELECT args_hash, reply FROM idempotency WHERE principal = ? AND key = ?';
      const row = this.#database.query(sql).get(ref.principal, ref.key) as { args_hash: string; reply: string } | null;
      if (row === null) continue;
      const reply = parseStored(row.reply, `the reply to ${ref.key}`);
      replies.set(idempotencyId(ref), { args_hash: row.args_hash, reply });
    }
    const archived = new Map<string, unknown>();
    for (const { kind, id } of reads.archive) {
      const body = this.#archived(kind, id);
      if (body !== null) archived.set(archiveId(kind, id), body);
    }
    return { missed, replies, archived };
  }

  #write(plan: CommitPlan, head: number, keysOf: Map<string, number>): void {
    const insertEvent = this.#database.query(
      'INSERT INTO event (seq, at, version, batch_id, body) VALUES (?, ?, ?, ?, ?)',
    );
    for (const { seq, at, event } of plan.events) {
      insertEvent.run(seq, at, EVENT_VERSION, plan.batchId, encodeEvent(event));
    }
    if (plan.events.length > 0) this.#database.query('UPDATE head SET seq = ?').run(head);
    const insertRow = this.#database.query('INSERT OR REPLACE INTO archive (kind, id, at, body) VALUES (?, ?, ?, ?)');
    for (const { kind, id, body } of plan.archive) insertRow.run(kind, id, plan.at, JSON.stringify(body));
    for (const reply of plan.replies) this.#writeReply(reply, plan.at, keysOf);
  }

  #writeReply({ principal, key, args_hash, reply }: ReplyRow, at: number, keysOf: Map<string, number>): void {
    this.#database
      .query('INSERT INTO idempotency (principal, key, args_hash, reply, at) VALUES (?, ?, ?, ?, ?)')
      .run(principal, key, args_hash, JSON.stringify(reply), at);
    keysOf.set(principal, (keysOf.get(principal) ?? 0) + 1);
    const overflow = (keysOf.get(principal) ?? 0) > LOG_BOUNDS.idempotencyKeysPerPrincipalMax;
    const forgotten = [
      ...this.#database.query(FORGET_EXPIRED_KEYS).all(at - LOG_BOUNDS.idempotencyKeptMs),
      ...(overflow ? this.#database.query(FORGET_OLDEST_KEY).all(principal) : []),
    ];
    for (const row of forgotten as { principal: string }[]) {
      keysOf.set(row.principal, (keysOf.get(row.principal) ?? 1) - 1);
    }
  }

  #eventsSince(seq: number, limit: number): SequencedEvent[] {
    const sql = 'SELECT seq, at, version, body FROM event WHERE seq > ? ORDER BY seq LIMIT ?';
    return (this.#database.query(sql).all(seq, limit) as EventRow[]).map(decodeEvent);
  }

  #headSeq(): number {
    const row = this.#database.query('SELECT seq FROM head').get() as { seq: number } | null;
    if (row === null) throw corrupt(this.#path, 'has no head');
    return row.seq;
  }

  #archived(kind: StoredKind, id: string): unknown {
    const sql = 'SELECT body FROM archive WHERE kind = ? AND id = ?';
    const row = this.#database.query(sql).get(kind, id) as { body: string } | null;
    return row === null ? null : parseStored(row.body, `${kind} ${id} of the archive`);
  }

  #meta(name: string): string | null {
    const row = this.#database.query('SELECT value FROM meta WHERE name = ?').get(name) as { value: string } | null;
    return row?.value ?? null;
  }

  #rollBack(): void {
    if (!this.#database.inTransaction) return;
    try {
      this.#database.run('ROLLBACK');
    } catch (error) {
      throw sqliteFailure(this.#path, 'roll back', error);
    }
  }
}

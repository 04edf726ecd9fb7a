/**
 * The log: all that the coordinator knows, as a totally ordered tail of events beside a snapshot of their fold. Owns
 * durability and order, and the tables that are written in the same transaction: archive, idempotency, statements.
 * Must not decide anything or know what an event means. Every implementation passes the one conformance suite.
 */
import type { SequencedEvent } from '../core/events.ts';
import type { ArchiveRow } from '../core/inputs.ts';

/** A Helper's statement as it arrived, kept so that a proof can be shown and checked again later. */
export interface StatementRow {
  kind: 'statement';
  id: string;
  body: { statement: string; key_id: string; signature: string; host_id: string; lease_id: string };
}

export type StoredRow = ArchiveRow | StatementRow;
export type StoredKind = StoredRow['kind'];
export type StoredBody<K extends StoredKind> = Extract<StoredRow, { kind: K }>['body'];

export interface ArchiveRef {
  kind: 'lease' | 'wait';
  id: string;
}

export interface IdempotencyRef {
  principal: string;
  key: string;
}

export interface StoredReply {
  args_hash: string;
  reply: unknown;
}

export interface CommitReads {
  idempotency: readonly IdempotencyRef[];
  archive: readonly ArchiveRef[];
}

export interface CommitView {
  /** What others appended since this handle's last load or commit, in order. */
  missed: SequencedEvent[];
  /** By `idempotencyId`. */
  replies: Map<string, StoredReply>;
  /** By `archiveId`. */
  archived: Map<string, unknown>;
}

export interface ReplyRow extends IdempotencyRef, StoredReply {}

export interface CommitPlan {
  /** Under which a commit whose answer was lost is looked up. */
  batchId: string;
  /** Numbered from the head on, without a gap. */
  events: readonly SequencedEvent[];
  archive: readonly StoredRow[];
  replies: readonly ReplyRow[];
  /** The coordinator's clock, for the age of what is kept beside the log. */
  at: number;
}

export interface CommitOutcome {
  /** The head after this commit. */
  seq: number;
}

export interface Loaded {
  snapshot: { seq: number; state: unknown } | null;
  tail: SequencedEvent[];
}

export interface EventLog {
  /** Random at the creation of the log: a cursor of another epoch means another log. */
  readonly epoch: string;
  load(): Promise<Loaded>;
  /**
   * Locks the head, hands `fn` what it asked for and appends its plan, all in one durable transaction. A plan without
   * events and rows writes nothing. What `fn` throws passes through and nothing is written.
   * Fails with `state_unwritable` (disk) or `log_unavailable`; the commit may then still have happened: `hasBatch`.
   */
  commit(reads: CommitReads, fn: (view: CommitView) => CommitPlan): Promise<CommitOutcome>;
  /** True when an event above `afterSeq` was committed under this id. */
  hasBatch(batchId: string, afterSeq: number): Promise<boolean>;
  /** Committed events above `seq` in order, at most `limit`. */
  readSince(seq: number, limit: number): Promise<SequencedEvent[]>;
  snapshot(seq: number, state: unknown): Promise<void>;
  /** Forgets events below `beforeSeq`; refused where no snapshot covers them. */
  prune(beforeSeq: number): Promise<void>;
  /** The first event that is still kept; one above the head when none is. */
  oldestSeq(): Promise<number>;
  readArchive<K extends StoredKind>(kind: K, id: string): Promise<StoredBody<K> | null>;
  /** Small facts beside the log, such as the hash of the owner's credential. */
  readMeta(name: string): Promise<string | null>;
  writeMeta(name: string, value: string): Promise<void>;
  close(): Promise<void>;
}

export const LOG_BOUNDS = {
  idempotencyKeptMs: 24 * 3_600_000,
  idempotencyKeysPerPrincipalMax: 1_000,
  archiveKeptMs: 30 * 24 * 3_600_000,
  snapshotsKept: 2,
} as const;

export const idempotencyId = ({ principal, key }: IdempotencyRef): string => `${principal}\n${key}`;
export const archiveId = (kind: StoredKind, id: string): string => `${kind}\n${id}`;

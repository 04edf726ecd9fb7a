/**
 * Frames of `GET /v1/stream` (server-sent events, `id: EPOCH.SEQ`). A comment line comes every `STREAM_BEAT_MS`, the
 * first byte at once. Query: `wait=ID` (the wait's own frames), `lease=ID` (a lease alone) or `host=ID` (for a Helper); resume by `Last-Event-ID`.
 */
import type { EndedWait, LeaseView } from './records.ts';

export const STREAM_BEAT_MS = 10_000;
/** A reader that hears nothing for three beats treats the stream as half-open. */
export const STREAM_SILENCE_MS = 3 * STREAM_BEAT_MS;

export interface StreamFrames {
  /** First frame of every stream: what it follows, with the state at its cursor. */
  open: { cursor: string; epoch: string };
  /** A lease of the wait moved; `lease` is its view at that event. */
  lease: { lease: LeaseView };
  /** The wait has its outcome. The stream ends after it. */
  wait_ended: { ended: EndedWait };
  /** For a Helper: something of its host moved; it reads its work with a beacon. */
  host_work: { reason: string };
  /** The asked cursor is of another epoch or older than what is kept: go on from this snapshot and cursor. */
  cursor_expired: {
    cursor: string;
    wait: { status: 'pending' | 'ended'; ended: EndedWait | null } | null;
    leases: LeaseView[];
  };
  /** The coordinator ends by itself. */
  farewell: { reason: string };
  /** A typed end of the stream: `wait_abandoned`, `slow_reader`. */
  error: { code: string; message: string; fields: Record<string, unknown> };
}

export type FrameType = keyof StreamFrames;

export type Frame = { [T in FrameType]: { id: string | null; type: T; data: StreamFrames[T] } }[FrameType];

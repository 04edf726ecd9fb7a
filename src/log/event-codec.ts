/** Events as rows. Old versions stay readable: a shape that changes gets its conversion here. */
import { EVENT_VERSION, type Event, type SequencedEvent } from '../core/events.ts';
import { Failure } from '../platform/failure.ts';

export interface EventRow {
  seq: number;
  at: number;
  version: number;
  body: string;
}

export function encodeEvent(event: Event): string {
  return JSON.stringify(event);
}

export function decodeEvent(row: EventRow): SequencedEvent {
  if (row.version > EVENT_VERSION) {
    throw new Failure('log_newer', `event ${row.seq} has version ${row.version}; this program knows ${EVENT_VERSION}`, {
      fields: { seq: row.seq, version: row.version },
    });
  }
  return { seq: row.seq, at: row.at, event: parseStored(row.body, `event ${row.seq}`) as Event };
}

export function parseStored(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Failure('log_corrupt', `${what} does not parse`, { cause });
  }
}

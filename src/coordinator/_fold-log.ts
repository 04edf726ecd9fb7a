/** From the log to the state. An event that the fold cannot take stops the start, by name. */
import { apply } from '../core/apply.ts';
import { AssertionFailure } from '../core/assertion.ts';
import type { SequencedEvent } from '../core/events.ts';
import type { ArchiveRow } from '../core/inputs.ts';
import type { EndedWait, Lease, State, Wait } from '../core/model.ts';
import { emptyState, fromSnapshot, SNAPSHOT_VERSION, type Snapshot } from '../core/state.ts';
import type { EventLog } from '../log/event-log.ts';
import { Failure } from '../platform/failure.ts';

export interface Folded {
  state: State;
  snapshotSeq: number;
}

export async function foldLog(log: EventLog): Promise<Folded> {
  const { snapshot, tail } = await log.load();
  const state = snapshot === null ? emptyState() : fromSnapshot(checkVersion(snapshot.state));
  for (const event of tail) applyNamed(state, event);
  return { state, snapshotSeq: snapshot?.seq ?? 0 };
}

function checkVersion(stored: unknown): Snapshot {
  const snapshot = stored as Snapshot;
  if (snapshot.version > SNAPSHOT_VERSION) {
    throw new Failure('log_newer', `the snapshot has version ${snapshot.version}; this program knows less`, {
      fields: { version: snapshot.version, known: SNAPSHOT_VERSION },
    });
  }
  return snapshot;
}

function applyNamed(state: State, sequenced: SequencedEvent): void {
  try {
    apply(state, sequenced);
  } catch (cause) {
    if (!(cause instanceof AssertionFailure)) throw cause;
    const { seq, event } = sequenced;
    throw new Failure('internal', `event ${seq} (${event.type}) contradicts the log before it: ${cause.message}`, {
      cause,
      fields: { seq, type: event.type },
    });
  }
}

/** Applies what other coordinators appended, and collects the records that left memory with it. */
export function applyMissed(
  state: State,
  missed: readonly SequencedEvent[],
): { events: SequencedEvent[]; ended: ArchiveRow[] } {
  const events: SequencedEvent[] = [];
  const ended: ArchiveRow[] = [];
  for (const sequenced of missed) {
    if (sequenced.seq <= state.seq) continue;
    const leaving = leavingRecord(state, sequenced);
    applyNamed(state, sequenced);
    events.push(sequenced);
    if (leaving !== null) ended.push(leaving);
  }
  return { events, ended };
}

function leavingRecord(state: State, { at, event }: SequencedEvent): ArchiveRow | null {
  if (event.type === 'lease_reaped') return leaseRow(state.leases.get(event.lease_id));
  if (event.type !== 'wait_ended') return null;
  return waitRow(state.waits.get(event.wait_session_id), { outcome: event.outcome, state: event.state, ended_at: at });
}

function leaseRow(lease: Lease | undefined): ArchiveRow | null {
  return lease === undefined ? null : { kind: 'lease', id: lease.lease_id, body: lease };
}

function waitRow(wait: Wait | undefined, end: Pick<EndedWait, 'outcome' | 'state' | 'ended_at'>): ArchiveRow | null {
  if (wait === undefined) return null;
  const ended: EndedWait = { wait_session_id: wait.wait_session_id, matched: wait.matched, ...end };
  return { kind: 'wait', id: wait.wait_session_id, body: { wait, ended } };
}

/**
 * One input's work in progress. Each event is applied as soon as it is decided, so that what follows in the same
 * input sees it. A throw leaves the state dirty: the engine folds it again from the log.
 */
import { apply } from './apply.ts';
import type { Event, SequencedEvent } from './events.ts';
import type { ArchiveRow, Refusal, StepContext } from './inputs.ts';
import type { Lease, State } from './model.ts';

export class RefusalSignal {
  readonly refusal: Refusal;
  constructor(refusal: Refusal) {
    this.refusal = refusal;
  }
}

/** Ends the input with a typed no. Must come before the first event of the input. */
export function refuse(code: string, message: string, fields: Refusal['fields'] = {}): never {
  throw new RefusalSignal({ code, message, fields });
}

export class Draft {
  readonly state: State;
  readonly context: StepContext;
  readonly now: number;
  readonly events: SequencedEvent[] = [];
  readonly archive: ArchiveRow[] = [];
  /** Leases that moved in this input and whose waits are to be looked at. */
  readonly moved = new Map<string, Lease>();
  /** Hosts whose queue is to be looked at again. */
  readonly stirredHosts = new Set<string>();

  constructor(state: State, context: StepContext) {
    this.state = state;
    this.context = context;
    this.now = Math.max(context.now, state.at);
  }

  emit(event: Event): SequencedEvent {
    const lease = 'lease_id' in event ? this.state.leases.get(event.lease_id) : undefined;
    const sequenced: SequencedEvent = { seq: this.state.seq + 1, at: this.now, event };
    apply(this.state, sequenced);
    this.events.push(sequenced);
    this.#note(event, lease);
    return sequenced;
  }

  #note(event: Event, known: Lease | undefined): void {
    if (event.type === 'host_registered') this.stirredHosts.add(event.host.host_id);
    if (event.type === 'host_beaconed') this.stirredHosts.add(event.host_id);
    if (!event.type.startsWith('lease_')) return;
    const lease = event.type === 'lease_requested' ? this.state.leases.get(event.lease.lease_id) : known;
    if (lease === undefined) return;
    this.moved.set(lease.lease_id, lease);
    this.stirredHosts.add(lease.host_id);
    if (lease.state === 'reaped') this.archive.push({ kind: 'lease', id: lease.lease_id, body: lease });
  }
}

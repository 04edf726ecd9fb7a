/** Whose place in a queue changed though nothing of the lease itself did: those that are watched, within a bound. */
import { rankedQueue } from '../core/admission.ts';
import type { Lease, State } from '../core/model.ts';

/** Beyond it places are read when somebody asks; a long queue must not cost every commit. */
const QUEUE_LENGTH_MAX = 256;

export class QueuePlaces {
  readonly #told = new Map<string, number>();

  /** The watched leases of these hosts whose place is another than when it was last told. */
  changed(state: State, hostIds: Iterable<string>, isWatched: (leaseId: string) => boolean): Lease[] {
    const changed: Lease[] = [];
    for (const hostId of hostIds) {
      const queue = rankedQueue(state, hostId);
      if (queue.length > QUEUE_LENGTH_MAX) continue;
      for (const [place, lease] of queue.entries()) {
        if (!isWatched(lease.lease_id) || this.#told.get(lease.lease_id) === place) continue;
        this.#told.set(lease.lease_id, place);
        changed.push(lease);
      }
    }
    return changed;
  }

  forget(leaseId: string): void {
    this.#told.delete(leaseId);
  }
}

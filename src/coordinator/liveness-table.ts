/**
 * Who was heard of last, in memory: renewals and beacons that change nothing are no events. A missing row counts as
 * seen at the start. An open stream counts as being seen all the time; for a lease only while it is still waiting for
 * its stack, since an active lease lives by its owner's heartbeat alone.
 */
import type { Liveness } from '../core/inputs.ts';

export type LivenessKind = 'lease' | 'job' | 'wait' | 'host';

export interface LivenessOptions {
  now: () => number;
  /** True while a lease is queued or provisioning. */
  leaseIsWaiting: (leaseId: string) => boolean;
}

const keyOf = (kind: LivenessKind, id: string): string => `${kind}:${id}`;

export class LivenessTable implements Liveness {
  readonly #now: () => number;
  readonly #leaseIsWaiting: (leaseId: string) => boolean;
  readonly #seen = new Map<string, number>();
  readonly #held = new Map<string, number>();
  /** Nobody counts as silent since before this time. */
  #floor: number;

  constructor({ now, leaseIsWaiting }: LivenessOptions) {
    this.#now = now;
    this.#leaseIsWaiting = leaseIsWaiting;
    this.#floor = now();
  }

  lastSeenAt(kind: LivenessKind, id: string): number {
    const key = keyOf(kind, id);
    if (this.#isHeld(kind, id)) return this.#now();
    return Math.max(this.#floor, this.#seen.get(key) ?? 0);
  }

  /** When it was heard of itself; null when never in this process's life. */
  heardAt(kind: LivenessKind, id: string): number | null {
    return this.#seen.get(keyOf(kind, id)) ?? null;
  }

  seen(kind: LivenessKind, id: string): void {
    this.#seen.set(keyOf(kind, id), this.#now());
  }

  /** Counts as seen until the returned function is called. */
  hold(kind: LivenessKind, id: string): () => void {
    const key = keyOf(kind, id);
    this.#held.set(key, (this.#held.get(key) ?? 0) + 1);
    let open = true;
    return () => {
      if (!open) return;
      open = false;
      if (this.#isHeld(kind, id)) this.seen(kind, id);
      const left = (this.#held.get(key) ?? 1) - 1;
      if (left === 0) this.#held.delete(key);
      else this.#held.set(key, left);
    };
  }

  /** After a downtime of the coordinator: everybody's silence counts anew. */
  seeAll(): void {
    this.#floor = this.#now();
  }

  forget(kind: LivenessKind, id: string): void {
    this.#seen.delete(keyOf(kind, id));
  }

  get size(): number {
    return this.#seen.size + this.#held.size;
  }

  #isHeld(kind: LivenessKind, id: string): boolean {
    if (!this.#held.has(keyOf(kind, id))) return false;
    return kind !== 'lease' || this.#leaseIsWaiting(id);
  }
}

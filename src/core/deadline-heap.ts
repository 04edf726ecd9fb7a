/** A min-heap of deadlines with at most one live entry an object. Derived state: rebuilt on load, never stored. */
export type DeadlineKind = 'lease' | 'job' | 'wait';

export interface DeadlineEntry {
  at: number;
  kind: DeadlineKind;
  id: string;
}

/** Garbage that the heap may hold before it is built anew, beside as much as is alive. */
const GARBAGE_MAX = 64;

/** By time; equal times in a fixed order, so that a reloaded heap fires like the one that was lost. */
function isBefore(a: DeadlineEntry, b: DeadlineEntry): boolean {
  if (a.at !== b.at) return a.at < b.at;
  return a.kind === b.kind ? a.id < b.id : a.kind < b.kind;
}

const keyOf = (kind: DeadlineKind, id: string): string => `${kind}:${id}`;

export class DeadlineHeap {
  #heap: DeadlineEntry[] = [];
  /** The one live entry of each object; any other in the heap is garbage. */
  readonly #scheduled = new Map<string, DeadlineEntry>();

  get size(): number {
    return this.#scheduled.size;
  }

  /** Entries in memory, garbage included. */
  get footprint(): number {
    return this.#heap.length;
  }

  scheduledAt(kind: DeadlineKind, id: string): number | null {
    return this.#scheduled.get(keyOf(kind, id))?.at ?? null;
  }

  /** Schedules the object's check at `at`, unless an earlier one is already due. */
  schedule(kind: DeadlineKind, id: string, at: number): void {
    const key = keyOf(kind, id);
    const scheduled = this.#scheduled.get(key);
    if (scheduled !== undefined && scheduled.at <= at) return;
    const entry = { at, kind, id };
    this.#scheduled.set(key, entry);
    this.#push(entry);
    if (this.#heap.length > 2 * this.#scheduled.size + GARBAGE_MAX) this.#sweep();
  }

  forget(kind: DeadlineKind, id: string): void {
    this.#scheduled.delete(keyOf(kind, id));
  }

  peek(): DeadlineEntry | null {
    for (let top = this.#heap[0]; top !== undefined; top = this.#heap[0]) {
      if (this.#isLive(top)) return top;
      this.#pop();
    }
    return null;
  }

  /** Takes out all entries due at `now`, earliest first. */
  takeDue(now: number): DeadlineEntry[] {
    const due: DeadlineEntry[] = [];
    for (let top = this.peek(); top !== null && top.at <= now; top = this.peek()) {
      this.forget(top.kind, top.id);
      this.#pop();
      due.push(top);
    }
    return due;
  }

  #isLive(entry: DeadlineEntry): boolean {
    return this.#scheduled.get(keyOf(entry.kind, entry.id)) === entry;
  }

  #sweep(): void {
    this.#heap = [];
    for (const entry of this.#scheduled.values()) this.#push(entry);
  }

  #push(entry: DeadlineEntry): void {
    const heap = this.#heap;
    let child = heap.push(entry) - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      const above = heap[parent] as DeadlineEntry;
      if (!isBefore(entry, above)) break;
      heap[child] = above;
      child = parent;
    }
    heap[child] = entry;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let parent = 0;
    for (;;) {
      let child = 2 * parent + 1;
      if (child >= heap.length) break;
      const right = heap[child + 1];
      if (right !== undefined && isBefore(right, heap[child] as DeadlineEntry)) child += 1;
      const below = heap[child] as DeadlineEntry;
      if (!isBefore(below, last)) break;
      heap[parent] = below;
      parent = child;
    }
    heap[parent] = last;
  }
}

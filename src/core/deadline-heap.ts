/** A min-heap of deadlines with at most one live entry an object. Derived state: rebuilt on load, never stored. */
export type DeadlineKind = 'lease' | 'job' | 'wait';

export interface DeadlineEntry {
  at: number;
  kind: DeadlineKind;
  id: string;
}

const keyOf = (kind: DeadlineKind, id: string): string => `${kind}:${id}`;

export class DeadlineHeap {
  readonly #heap: DeadlineEntry[] = [];
  readonly #scheduled = new Map<string, number>();

  get size(): number {
    return this.#scheduled.size;
  }

  /** Schedules the object's check at `at`, unless an earlier one is already due. */
  schedule(kind: DeadlineKind, id: string, at: number): void {
    const key = keyOf(kind, id);
    const scheduled = this.#scheduled.get(key);
    if (scheduled !== undefined && scheduled <= at) return;
    this.#scheduled.set(key, at);
    this.#push({ at, kind, id });
  }

  forget(kind: DeadlineKind, id: string): void {
    this.#scheduled.delete(keyOf(kind, id));
  }

  peek(): DeadlineEntry | null {
    this.#dropStale();
    return this.#heap[0] ?? null;
  }

  /** Takes out all entries due at `now`, earliest first. */
  takeDue(now: number): DeadlineEntry[] {
    const due: DeadlineEntry[] = [];
    for (let top = this.peek(); top !== null && top.at <= now; top = this.peek()) {
      this.#scheduled.delete(keyOf(top.kind, top.id));
      this.#pop();
      due.push(top);
    }
    return due;
  }

  #dropStale(): void {
    for (let top = this.#heap[0]; top !== undefined; top = this.#heap[0]) {
      if (this.#scheduled.get(keyOf(top.kind, top.id)) === top.at) return;
      this.#pop();
    }
  }

  #push(entry: DeadlineEntry): void {
    const heap = this.#heap;
    let child = heap.push(entry) - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      const above = heap[parent] as DeadlineEntry;
      if (above.at <= entry.at) break;
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
      if (right !== undefined && right.at < (heap[child] as DeadlineEntry).at) child += 1;
      const below = heap[child] as DeadlineEntry;
      if (below.at >= last.at) break;
      heap[parent] = below;
      parent = child;
    }
    heap[parent] = last;
  }
}

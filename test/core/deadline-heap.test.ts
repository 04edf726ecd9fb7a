import { describe, expect, test } from 'bun:test';
import { DeadlineHeap, type DeadlineKind } from '../../src/core/deadline-heap.ts';
import { seededRandom } from '../simulation/random.ts';

const KINDS: readonly DeadlineKind[] = ['lease', 'job', 'wait'];

/** What the heap promises, the slow way: one entry an object, the earliest time asked for. */
class Model {
  readonly entries = new Map<string, { kind: DeadlineKind; id: string; at: number }>();

  schedule(kind: DeadlineKind, id: string, at: number): void {
    const known = this.entries.get(`${kind}:${id}`);
    if (known === undefined || at < known.at) this.entries.set(`${kind}:${id}`, { kind, id, at });
  }

  forget(kind: DeadlineKind, id: string): void {
    this.entries.delete(`${kind}:${id}`);
  }

  takeDue(now: number) {
    const due = [...this.entries.values()].filter(({ at }) => at <= now);
    for (const { kind, id } of due) this.forget(kind, id);
    return due.sort((a, b) => a.at - b.at || KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind) || (a.id < b.id ? -1 : 1));
  }
}

const alphabetical = <T extends { at: number; kind: string; id: string }>(entries: T[]): T[] =>
  entries.sort((a, b) => a.at - b.at || (a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : a.id < b.id ? -1 : 1));

describe('the deadline heap', () => {
  test('agrees with a plain table over thousands of random operations', () => {
    for (let seed = 1; seed <= 60; seed += 1) {
      const random = seededRandom(seed);
      const heap = new DeadlineHeap();
      const model = new Model();
      let now = 0;
      for (let i = 0; i < 400; i += 1) {
        const kind = random.pick(KINDS);
        const id = `${random.below(12)}`;
        const roll = random.below(10);
        if (roll < 6) {
          const at = now + random.below(50);
          heap.schedule(kind, id, at);
          model.schedule(kind, id, at);
        } else if (roll < 8) {
          heap.forget(kind, id);
          model.forget(kind, id);
        } else {
          now += random.below(20);
          expect(heap.takeDue(now)).toEqual(alphabetical(model.takeDue(now)));
        }
        expect(heap.size).toBe(model.entries.size);
        expect(heap.peek()?.at ?? null).toBe(alphabetical([...model.entries.values()])[0]?.at ?? null);
        expect(heap.scheduledAt(kind, id)).toBe(model.entries.get(`${kind}:${id}`)?.at ?? null);
      }
    }
  });

  test('keeps the earliest of the times asked for', () => {
    const heap = new DeadlineHeap();
    heap.schedule('lease', 'a', 20);
    heap.schedule('lease', 'a', 10);
    heap.schedule('lease', 'a', 30);
    expect(heap.takeDue(100)).toEqual([{ kind: 'lease', id: 'a', at: 10 }]);
    expect(heap.takeDue(100)).toEqual([]);
  });

  test('fires equal times in one order, whatever the order of scheduling was', () => {
    const entries = KINDS.flatMap((kind) => ['a', 'b', 'c'].map((id) => ({ kind, id, at: 5 })));
    const orders = [entries, [...entries].reverse()].map((order) => {
      const heap = new DeadlineHeap();
      for (const { kind, id, at } of order) heap.schedule(kind, id, at);
      return heap.takeDue(5);
    });
    expect(orders[0]).toEqual(orders[1] as never);
  });

  test('an object that was forgotten and scheduled again at the same time fires once', () => {
    const heap = new DeadlineHeap();
    heap.schedule('wait', 'w', 7);
    heap.forget('wait', 'w');
    heap.schedule('wait', 'w', 7);
    expect(heap.takeDue(7)).toHaveLength(1);
  });

  test('stays as small as what is alive, however many far deadlines came and went', () => {
    const heap = new DeadlineHeap();
    for (let i = 0; i < 10_000; i += 1) {
      heap.schedule('wait', `${i}`, 1_000_000 + i);
      heap.forget('wait', `${i}`);
      heap.schedule('lease', 'same', 500_000 - i);
    }
    expect(heap.size).toBe(1);
    expect(heap.footprint).toBeLessThan(100);
    expect(heap.peek()?.at).toBe(500_000 - 9_999);
  });
});

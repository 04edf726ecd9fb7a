/** What no log may do: leave a gap, or hand out a tail that does not reach its head. */
import type { SequencedEvent } from '../core/events.ts';
import { Failure } from '../platform/failure.ts';
import type { CommitPlan } from './event-log.ts';

export function checkPlan(head: number, plan: CommitPlan): void {
  for (const [index, { seq }] of plan.events.entries()) {
    if (seq !== head + 1 + index) {
      throw new Failure('internal', `event ${seq} does not follow ${head + index}`, { fields: { seq, head } });
    }
  }
}

export function checkTail(where: string, from: number, tail: readonly SequencedEvent[], head: number): void {
  let expected = from + 1;
  for (const { seq } of tail) {
    if (seq !== expected) throw gap(where, expected);
    expected += 1;
  }
  if (expected !== head + 1) throw gap(where, expected);
}

function gap(where: string, seq: number): Failure {
  return new Failure('log_corrupt', `event ${seq} is missing in ${where}; it is left as it is`, {
    fields: { path: where, seq },
  });
}

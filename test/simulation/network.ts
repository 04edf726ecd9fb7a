/** The wire between processes: calls that are lost, doubled, late and out of order, each with a deadline of its own. */
import { outcomeOf } from '../../src/protocol/outcomes.ts';
import type { ToolCalls, ToolName } from '../../src/protocol/tool-calls.ts';
import { passageOf } from './faults.ts';
import type { Sim } from './sim.ts';
import type { Life } from './timeline.ts';

export type CallAnswer<N extends ToolName> =
  | { ok: true; seq: number; result: ToolCalls[N]['result'] }
  /** `status` is null when there was no answer at all. */
  | { ok: false; status: number | null; code: string | null; message: string; fields: Record<string, unknown> };

export const CALL_TIMEOUT_MS = 10_000;

export function noAnswer(message: string): CallAnswer<never> {
  return { ok: false, status: null, code: null, message, fields: {} };
}

export function refusedWith(code: string, message: string, fields: Record<string, unknown> = {}): CallAnswer<never> {
  return { ok: false, status: outcomeOf(code).status, code, message, fields };
}

/** What passes by itself is asked again; anything else is an answer. */
export function isBlip(answer: CallAnswer<ToolName>): boolean {
  if (answer.ok) return false;
  return answer.status === null || answer.status === 408 || answer.status === 429 || answer.status >= 500;
}

/** One call over the wire; `done` comes exactly once, unless the caller dies. */
export function call<N extends ToolName>(
  sim: Sim,
  from: Life,
  name: N,
  args: ToolCalls[N]['args'],
  done: (answer: CallAnswer<N>) => void,
  timeoutMs = CALL_TIMEOUT_MS,
): void {
  const { timeline, random } = sim;
  let open = true;
  const settle = (answer: CallAnswer<N>): void => {
    if (!open) return;
    open = false;
    deadline.cancelled = true;
    done(answer);
  };
  const deadline = timeline.after(timeoutMs, from, `${name} timed out`, () => settle(noAnswer(`${name}: no answer`)));
  const back = (answer: CallAnswer<N>): void => {
    for (const delay of passageOf(random, sim.profile).delays) {
      timeline.after(delay, from, `${name} answered ${answer.ok ? 'ok' : answer.code}`, () => settle(answer), !open);
    }
  };
  const reset = (): void => {
    timeline.after(2, from, `${name} was reset`, () => settle(noAnswer('connection reset')));
  };
  for (const delay of passageOf(random, sim.profile).delays) {
    timeline.after(delay, null, `${name} from ${from.name}`, () => {
      if (!sim.coordinator.deliver({ name, args, from, respond: back as never, reset })) {
        timeline.after(1, from, `${name} found nobody`, () => settle(noAnswer('connection refused')));
      }
    });
  }
  if (random.chance(sim.profile.echoed)) {
    timeline.after(random.between(5_000, 240_000), null, `echo of ${name} from ${from.name}`, () => {
      sim.coordinator.deliver({ name, args, from, respond: () => {}, reset: () => {} });
    });
  }
}

/** Asks again under the same arguments until an answer that is one, or the deadline. */
export function callUntil<N extends ToolName>(
  sim: Sim,
  from: Life,
  name: N,
  args: ToolCalls[N]['args'],
  withinMs: number,
  done: (answer: CallAnswer<N>) => void,
): void {
  const until = from.machine.clock.monotonicMs() + withinMs;
  let tries = 0;
  const attempt = (): void => {
    tries += 1;
    const left = until - from.machine.clock.monotonicMs();
    call(
      sim,
      from,
      name,
      args,
      (answer) => {
        const pauseMs = Math.min(5_000, 250 * 2 ** Math.min(tries, 6)) * (0.5 + sim.random.below(100) / 200);
        const remains = until - from.machine.clock.monotonicMs() - pauseMs;
        if (!isBlip(answer) || remains <= 0) return done(answer);
        sim.timeline.after(pauseMs, from, `${name} again`, attempt);
      },
      Math.max(1, Math.min(CALL_TIMEOUT_MS, left)),
    );
  };
  attempt();
}

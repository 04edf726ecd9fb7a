/**
 * `stack run` and `stack up`: carries out what `stack-run-rules.ts` decides, one action at a time, and ends with one
 * receipt. Owns the event queue, signals and the child; decides nothing about what comes next.
 * Read next: `stack-run-rules.ts`, `stack-run-phases.ts`, `stack-run-receipt.ts`.
 */
import type { CoordinatorClient } from '../client/calls.ts';
import { onTerminationSignals } from '../platform/signals.ts';
import type { StackReceipt } from '../protocol/stack-receipt.ts';
import { EventQueue } from './event-queue.ts';
import { reportOutcome } from './report-outcome.ts';
import type { StackContext } from './stack-context.ts';
import { RunFacts } from './stack-run-facts.ts';
import type { RunAction, RunEvent, RunOptions, RunState } from './stack-run-model.ts';
import { RunPhases } from './stack-run-phases.ts';
import { runReceipt } from './stack-run-receipt.ts';
import type { RunRequest } from './stack-run-request.ts';
import { runStep, startRun } from './stack-run-rules.ts';

export interface RunResult {
  receipt: StackReceipt;
  state: RunState;
  facts: RunFacts;
}

export async function runStack(
  context: StackContext,
  client: CoordinatorClient,
  request: RunRequest,
  options: RunOptions,
): Promise<RunResult> {
  const queue = new EventQueue<RunEvent>();
  const facts = new RunFacts();
  const phases = new RunPhases({ context, client, request, facts, emit: (event) => queue.push(event) });
  const unlisten = onTerminationSignals((signal) => queue.push({ type: 'signal', signal }));
  try {
    let { state, actions } = startRun(options);
    while (!perform(phases, actions, state)) ({ state, actions } = runStep(state, await queue.next()));
    const receipt = runReceipt({ context, request, state, facts });
    await phases.settled();
    await reportOutcome(client, state, facts);
    return { receipt, state, facts };
  } finally {
    unlisten();
    phases.dispose();
  }
}

/** True when the run is finished. */
function perform(phases: RunPhases, actions: readonly RunAction[], state: RunState): boolean {
  let finished = false;
  for (const action of actions) {
    if (action.type === 'finish') finished = true;
    else phases.perform(action, state);
  }
  return finished;
}

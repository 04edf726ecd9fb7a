/**
 * The door of the machines: `step(state, input, context)` answers one input with events and a reply, or a refusal.
 * Pure: time, liveness, ids and verified signatures come in; nothing is read from outside.
 * Must not: do I/O, know a clock, wait. Read next: `lease-table.ts`, `admission.ts`, `reaping.ts`, `waits.ts`.
 */
import { settleHosts } from './admission.ts';
import { assert } from './assertion.ts';
import { Draft, RefusalSignal } from './draft.ts';
import { beaconHost, registerHost } from './hosts.ts';
import type { Input, InputType, Replies, StepContext, StepResult } from './inputs.ts';
import { claimJob, completeJob, deferJob, failJob, renewJob } from './jobs.ts';
import { releaseLease } from './lease-release.ts';
import { loseStack, requestLease, touchLease } from './lease-request.ts';
import type { State } from './model.ts';
import { tick } from './tick.ts';
import { cancelWait, registerWait, settleWaits } from './waits.ts';

export function step<T extends InputType>(
  state: State,
  input: Extract<Input, { type: T }>,
  context: StepContext,
): StepResult<T> {
  const draft = new Draft(state, context);
  try {
    const reply = decide(draft, input) as Replies[T];
    settle(draft);
    return { ok: true, reply, events: draft.events, archive: draft.archive };
  } catch (thrown) {
    if (!(thrown instanceof RefusalSignal)) throw thrown;
    assert(draft.events.length === 0, `a refusal (${thrown.refusal.code}) comes before any event`);
    return { ok: false, refusal: thrown.refusal, events: [], archive: [] };
  }
}

function decide(draft: Draft, input: Input): Replies[InputType] {
  switch (input.type) {
    case 'register_host':
      return registerHost(draft, input);
    case 'host_beacon':
      return beaconHost(draft, input);
    case 'request_lease':
      return requestLease(draft, input.request);
    case 'touch_lease':
      return touchLease(draft, input);
    case 'release_lease':
      return releaseLease(draft, input);
    case 'stack_lost':
      return loseStack(draft, input);
    case 'claim_job':
      return claimJob(draft, input);
    case 'renew_job':
      return renewJob(draft, input);
    case 'complete_job':
      return completeJob(draft, input);
    case 'fail_job':
      return failJob(draft, input);
    case 'defer_job':
      return deferJob(draft, input);
    case 'register_wait':
      return registerWait(draft, input);
    case 'cancel_wait':
      return cancelWait(draft, input);
    case 'tick':
      return tick(draft);
  }
}

/** Runs the consequences to their end: freed units are granted, moved leases wake their waits. */
function settle(draft: Draft): void {
  do {
    settleHosts(draft);
    settleWaits(draft);
  } while (draft.moved.size > 0 || draft.stirredHosts.size > 0);
}

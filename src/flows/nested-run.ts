/**
 * A `stack run` inside of a `stack run` of the same slot: its command runs on the stack that is already there. No second
 * lease, no second claim; heartbeats, fences and cleanup stay with the outer run.
 */
import type { CoordinatorClient } from '../client/calls.ts';
import { Failure } from '../platform/failure.ts';
import { onTerminationSignals } from '../platform/signals.ts';
import type { LeaseView } from '../protocol/records.ts';
import type { StackReceipt } from '../protocol/stack-receipt.ts';
import { loadPlan } from '../stack/plan.ts';
import { leaseReceipt } from './lease-receipt.ts';
import { RunChild } from './run-child.ts';
import type { StackContext } from './stack-context.ts';
import { judgeEnd } from './stack-run-ends.ts';

/** The active lease of the run around this command, when it is of this command's own slot; else null. */
export async function leaseAround(context: StackContext, client: CoordinatorClient): Promise<LeaseView | null> {
  const leaseId = context.environment['BOTBUDDY_LEASE_ID'];
  if (leaseId === undefined || leaseId === '') return null;
  try {
    const { lease } = await client.call('get_stack_lease', { lease_id: leaseId });
    return lease.state === 'active' && lease.slot === context.slot.slot ? lease : null;
  } catch (error) {
    if (error instanceof Failure && (error.code === 'LEASE_NOT_FOUND' || error.code === 'invalid_arguments'))
      return null;
    throw error;
  }
}

export async function runNested(
  context: StackContext,
  lease: LeaseView,
  command: { argv: readonly string[]; cwd: string; connectionFile: string | null },
): Promise<StackReceipt> {
  const { plan } = loadPlan(context.slotDir, lease.plan_digest);
  const child = RunChild.start({ context, plan, leaseId: lease.lease_id, ...command });
  let signalled: string | null = null;
  const unlisten = onTerminationSignals((signal) => {
    signalled ??= signal;
    child.stop(signal);
  });
  try {
    const { exit_code, signal } = await child.ended();
    const end =
      signalled === null
        ? ({ by: 'child', exit_code, signal } as const)
        : ({ by: 'signal', signal: signalled } as const);
    const verdict = judgeEnd(end, { kind: 'not_needed' }, 'run');
    return {
      ...leaseReceipt('stack run', lease),
      outcome: verdict.outcome,
      code: verdict.code,
      nested: true,
      ...(verdict.childExitCode === null ? {} : { child_exit_code: verdict.childExitCode }),
      cleanup: null,
      exit_code: verdict.exitCode,
      error: verdict.error,
    };
  } finally {
    unlisten();
  }
}

/** Who decided how a run ended, told to the coordinator once; never on the way of anything. */
import type { CoordinatorClient } from '../client/calls.ts';
import { judgeEnd, outcomeRecord } from './stack-run-ends.ts';
import type { RunFacts } from './stack-run-facts.ts';
import type { RunState } from './stack-run-model.ts';

const REPORT_TIMEOUT_MS = 1_000;

export async function reportOutcome(client: CoordinatorClient, state: RunState, facts: RunFacts): Promise<void> {
  if (state.end === null || state.lease === null) return;
  const verdict = judgeEnd(state.end, state.cleanup, state.options.command);
  const circumstances = {
    admitted: state.lease.fencing_token !== null,
    hadIncident: facts.incident?.recovered === false,
  };
  const record = outcomeRecord(state.end, verdict, circumstances);
  const leaseId = state.lease.lease_id;
  const args = {
    lease_id: leaseId,
    ...record,
    idempotency_key: `${leaseId}.${facts.lease?.fencing_token ?? 0}.outcome`,
  };
  await client.call('report_outcome', args, { timeoutMs: REPORT_TIMEOUT_MS }).catch(() => null);
}

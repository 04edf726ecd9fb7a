/**
 * What counts as a proof of absence: a statement signed by the host's Helper, about exactly this lease, slot, grant
 * and plan, in which every thing looked for is absent. Anything else proves nothing.
 */
import type { StatementFacts } from './inputs.ts';
import type { Job, Lease } from './model.ts';

export type StatementVerdict =
  | 'proven'
  | 'no_statement'
  | 'signature_invalid'
  | 'wrong_kind'
  | 'wrong_lease'
  | 'wrong_slot'
  | 'wrong_host'
  | 'old_generation'
  | 'wrong_plan'
  | 'weaker_disposition'
  | 'looked_for_nothing'
  | 'still_present'
  | 'unknown';

const KINDS_OF_JOB: Record<Job['kind'], readonly StatementFacts['kind'][]> = {
  provision_stack: ['rollback', 'pre_driver'],
  readopt_stack: ['rollback'],
  reap_stack: ['reap', 'pre_driver'],
};

/** Judges a statement for a job of a lease. Only `proven` frees anything. */
export function judgeStatement(lease: Lease, job: Job, statement: StatementFacts | null): StatementVerdict {
  if (statement === null) return 'no_statement';
  if (!statement.signature_valid) return 'signature_invalid';
  if (!KINDS_OF_JOB[job.kind].includes(statement.kind)) return 'wrong_kind';
  if (statement.lease_id !== lease.lease_id) return 'wrong_lease';
  if (statement.slot !== lease.slot || statement.tenant !== lease.tenant) return 'wrong_slot';
  if (statement.host_id !== lease.host_id) return 'wrong_host';
  if (statement.fencing_token !== lease.fencing_token) return 'old_generation';
  if (statement.plan_digest !== lease.plan_digest) return 'wrong_plan';
  if (lease.reap_disposition === 'destroy' && statement.disposition === 'stop') return 'weaker_disposition';
  if (statement.looked_for.length === 0) return 'looked_for_nothing';
  if (statement.looked_for.some(({ after }) => after === 'present')) return 'still_present';
  if (statement.looked_for.some(({ after }) => after !== 'absent')) return 'unknown';
  return 'proven';
}

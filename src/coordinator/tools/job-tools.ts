/** A Helper's work over the wire. Every finish carries what the Helper saw, checked here before the machines judge it. */
import type { InputType, Replies } from '../../core/inputs.ts';
import type { Host, Lease } from '../../core/model.ts';
import { leaseView } from '../../core/views.ts';
import type { LeaseView } from '../../protocol/records.ts';
import type { SignedStatement, ToolCalls } from '../../protocol/tool-calls.ts';
import { TOOL_SCHEMAS } from '../../protocol/tool-schemas.ts';
import type { Look } from '../engine.ts';
import { type CheckedStatement, checkStatement } from '../statement-check.ts';
import type { Tool, ToolContext } from '../tool.ts';
import { leaseForHelper } from './host-tools.ts';

export const claimJob: Tool<'claim_job'> = {
  schema: TOOL_SCHEMAS.claim_job,
  fromHelper: true,
  handle: (claim, { engine, caller }) =>
    engine.submit<'claim_job', ToolCalls['claim_job']['result']>(
      { type: 'claim_job', ...claim },
      {
        principal: caller.principal,
        render: ({ job, lease }) => ({ job: { ...job }, lease: leaseForHelper(lease) }),
      },
    ),
};

export const renewJob: Tool<'renew_job'> = {
  schema: TOOL_SCHEMAS.renew_job,
  fromHelper: true,
  handle: async (renewal, { engine, caller, liveness }) => {
    const answer = await engine.submit<'renew_job', ToolCalls['renew_job']['result']>(
      { type: 'renew_job', ...renewal },
      { principal: caller.principal, render: ({ job }) => ({ job_id: job.job_id }) },
    );
    if (answer.ok) liveness.seen('job', renewal.job_id);
    return answer;
  },
};

export const completeJob: Tool<'complete_job'> = {
  schema: TOOL_SCHEMAS.complete_job,
  fromHelper: true,
  handle: async ({ statement, ...rest }, context) => {
    const checked = await checkedFor(rest.job_id, statement, context);
    return context.engine.submit<'complete_job', { lease: LeaseView }>(
      { type: 'complete_job', ...rest, statement: checked?.facts ?? null },
      finishing(context, checked),
    );
  },
};

export const failJob: Tool<'fail_job'> = {
  schema: TOOL_SCHEMAS.fail_job,
  fromHelper: true,
  handle: async ({ statement, ...rest }, context) => {
    const checked = await checkedFor(rest.job_id, statement, context);
    return context.engine.submit<'fail_job', { lease: LeaseView }>(
      { type: 'fail_job', ...rest, statement: checked?.facts ?? null },
      finishing(context, checked),
    );
  },
};

export const deferJob: Tool<'defer_job'> = {
  schema: TOOL_SCHEMAS.defer_job,
  fromHelper: true,
  handle: async ({ statement, ...rest }, context) => {
    const checked = await checkedFor(rest.job_id, statement, context);
    return context.engine.submit<'defer_job', { lease: LeaseView }>(
      { type: 'defer_job', ...rest, statement: checked?.facts ?? null },
      finishing(context, checked),
    );
  },
};

export const reportStackLost: Tool<'report_stack_lost'> = {
  schema: TOOL_SCHEMAS.report_stack_lost,
  fromHelper: true,
  handle: (report, { engine, caller }) =>
    engine.submit<'stack_lost', { lease: LeaseView }>(
      { type: 'stack_lost', ...report },
      { principal: caller.principal, render: leaseReply },
    ),
};

/** Keys come from the host of the job, never from what the statement says of itself. */
async function checkedFor(
  jobId: string,
  statement: SignedStatement | null,
  { engine }: ToolContext,
): Promise<CheckedStatement | null> {
  if (statement === null) return null;
  const host = await engine.look((state): Host | undefined => {
    const hostId = state.jobs.get(jobId)?.host_id;
    return hostId === undefined ? undefined : state.hosts.get(hostId);
  });
  return checkStatement(statement, host);
}

function finishing({ caller }: ToolContext, checked: CheckedStatement | null) {
  return { principal: caller.principal, statement: checked?.row ?? null, render: leaseReply };
}

function leaseReply({ lease }: { lease: Lease } & Partial<Replies[InputType]>, { state }: Look): { lease: LeaseView } {
  return { lease: leaseView(state, lease) };
}

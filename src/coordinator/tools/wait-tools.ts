/** Waits over the wire: register, read, cancel. One that has ended is answered from the archive, whoever asks again. */
import type { EndedWait, Lease, Wait } from '../../core/model.ts';
import { Failure } from '../../platform/failure.ts';
import { formatCondition, type ParsedCondition, parseCondition } from '../../protocol/conditions.ts';
import type { ToolCalls, WaitView } from '../../protocol/tool-calls.ts';
import { TOOL_SCHEMAS } from '../../protocol/tool-schemas.ts';
import { formatCursor } from '../cursor.ts';
import { Settled } from '../engine.ts';
import { idempotencyOf, isOwn, refusal, type Tool } from '../tool.ts';

function waitView(wait: Wait, ended: EndedWait | null, cursor: string): WaitView {
  return {
    wait_session_id: wait.wait_session_id,
    conditions: wait.conditions.map(formatCondition),
    mode: wait.mode,
    deadline_at: wait.deadline_at,
    registered_at: wait.registered_at,
    cursor,
    status: ended === null ? 'pending' : 'ended',
    ended,
  };
}

function parseConditions(texts: readonly string[], now: number): ParsedCondition[] {
  return texts.map((condition, index) => {
    const parsed = parseCondition(condition, now);
    if (parsed.ok) return parsed.condition;
    const { message, position, nearest } = parsed.problem;
    throw new Failure('invalid_condition', message, { fields: { condition: index, position, nearest } });
  });
}

export const wait: Tool<'wait'> = {
  schema: TOOL_SCHEMAS.wait,
  handle: async (args, { engine, clock, caller, liveness }) => {
    const { wait_session_id, agent, mode, timeout_ms } = args;
    const conditions = parseConditions(args.conditions, clock.now());
    const leaseIds = conditions.flatMap((condition) => (condition.type === 'lease' ? [condition.lease_id] : []));
    const answer = await engine.submit<'register_wait', WaitView>(
      (look) => {
        const known = look.archivedWait(wait_session_id);
        if (known !== null && isOwn(known.wait, caller)) {
          return new Settled(waitView(known.wait, known.ended, formatCursor(engine.epoch, look.state.seq)));
        }
        const archived: Record<string, Lease> = {};
        for (const leaseId of leaseIds) {
          const lease = look.state.leases.has(leaseId) ? null : look.archivedLease(leaseId);
          if (lease !== null) archived[leaseId] = lease;
        }
        const deadline_at = look.now + timeout_ms;
        return {
          type: 'register_wait',
          wait: { ...caller, wait_session_id, agent, conditions, mode, deadline_at },
          archived,
        };
      },
      {
        principal: caller.principal,
        idempotency: idempotencyOf('wait', args),
        archive: [
          { kind: 'wait', id: wait_session_id },
          ...leaseIds.map((leaseId) => ({ kind: 'lease' as const, id: leaseId })),
        ],
        render: (reply, { state }) => waitView(reply.wait, reply.ended, formatCursor(engine.epoch, state.seq)),
      },
    );
    if (answer.ok && answer.reply.status === 'pending') liveness.seen('wait', wait_session_id);
    return answer;
  },
};

export const getWait: Tool<'get_wait'> = {
  schema: TOOL_SCHEMAS.get_wait,
  handle: async ({ wait_session_id }, { engine, log, caller, seenSeq }) => {
    const open = await engine.look((state) => {
      const found = state.waits.get(wait_session_id);
      const own = found !== undefined && isOwn(found, caller);
      return { seq: state.seq, view: own ? waitView(found, null, formatCursor(engine.epoch, state.seq)) : null };
    }, seenSeq);
    if (open.view !== null) return { seq: open.seq, ok: true, reply: open.view };
    const known = await log.readArchive('wait', wait_session_id);
    return engine.look((state) => {
      if (known === null || !isOwn(known.wait, caller)) {
        return { seq: state.seq, ...refusal('WAIT_NOT_FOUND', `there is no wait ${wait_session_id}`) };
      }
      const cursor = formatCursor(engine.epoch, state.seq);
      return { seq: state.seq, ok: true, reply: waitView(known.wait, known.ended, cursor) };
    });
  },
};

export const cancelWait: Tool<'cancel_wait'> = {
  schema: TOOL_SCHEMAS.cancel_wait,
  handle: (args, { engine, caller }) => {
    const { wait_session_id } = args;
    let cancelled: Wait | undefined;
    return engine.submit<'cancel_wait', ToolCalls['cancel_wait']['result']>(
      (look) => {
        const known = look.archivedWait(wait_session_id);
        if (known !== null && isOwn(known.wait, caller)) {
          return new Settled(waitView(known.wait, known.ended, formatCursor(engine.epoch, look.state.seq)));
        }
        cancelled = look.state.waits.get(wait_session_id);
        return { type: 'cancel_wait', wait_session_id, by: caller, reason: 'cancelled' };
      },
      {
        principal: caller.principal,
        idempotency: idempotencyOf('cancel_wait', args),
        archive: [{ kind: 'wait', id: wait_session_id }],
        render: ({ ended }, { state }) => {
          if (cancelled === undefined) throw new Failure('internal', `wait ${wait_session_id} was cancelled unseen`);
          return waitView(cancelled, ended, formatCursor(engine.epoch, state.seq));
        },
      },
    );
  },
};

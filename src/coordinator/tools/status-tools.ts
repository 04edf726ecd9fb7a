/** What anybody may ask of the coordinator itself, and the outcome that a finished command reports to it. */
import * as z from 'zod';
import { logger } from '../../platform/logging.ts';
import type { Tool } from '../tool.ts';
import { id, idempotencyKey, leaseId } from './_fields.ts';

const log = logger('outcomes');

export const coordinatorStatus: Tool<'coordinator_status'> = {
  schema: z.strictObject({}),
  handle: (_args, { engine, version, startedAt, seenSeq }) =>
    engine.look(
      (state) => ({
        seq: state.seq,
        ok: true,
        reply: {
          version,
          epoch: engine.epoch,
          started_at: startedAt,
          alive: { leases: state.leases.size, jobs: state.jobs.size, waits: state.waits.size },
        },
      }),
      seenSeq,
    ),
};

export const reportOutcome: Tool<'report_outcome'> = {
  schema: z.strictObject({
    lease_id: leaseId.nullable(),
    category: id,
    code: id,
    idempotency_key: idempotencyKey,
  }),
  handle: ({ lease_id, category, code }, { engine, seenSeq }) => {
    log.info('a command ended', { lease_id, category, code });
    return engine.look((state) => ({ seq: state.seq, ok: true, reply: { accepted: true } }), seenSeq);
  },
};

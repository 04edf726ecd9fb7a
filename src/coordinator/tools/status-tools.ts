/** What anybody may ask of the coordinator itself, and the outcome that a finished command reports to it. */
import { logger } from '../../platform/logging.ts';
import { TOOL_SCHEMAS } from '../../protocol/tool-schemas.ts';
import type { Tool } from '../tool.ts';

const log = logger('outcomes');

export const coordinatorStatus: Tool<'coordinator_status'> = {
  schema: TOOL_SCHEMAS.coordinator_status,
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
  schema: TOOL_SCHEMAS.report_outcome,
  handle: ({ lease_id, category, code }, { engine, seenSeq }) => {
    log.info('a command ended', { lease_id, category, code });
    return engine.look((state) => ({ seq: state.seq, ok: true, reply: { accepted: true } }), seenSeq);
  },
};

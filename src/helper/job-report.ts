/** How an attempt ends: one report, sent until the coordinator took it or gave the job to somebody else. */
import { logger } from '../platform/logging.ts';
import { jitter } from '../platform/random.ts';
import { sleepMs } from '../platform/timers.ts';
import type { LeaseView } from '../protocol/records.ts';
import type { ToolCalls } from '../protocol/tool-calls.ts';
import { failureOf } from './failure-words.ts';
import { judgeCallFailure, retryDelayMs } from './host-rules.ts';
import type { JobPorts } from './job-ports.ts';

const log = logger('helper.job');

export type Report = {
  [T in 'complete_job' | 'fail_job' | 'defer_job']: { tool: T; args: ToolCalls[T]['args'] };
}['complete_job' | 'fail_job' | 'defer_job'];

/** The lease as the report left it; null when the job was lost, or nobody will ever take this report. */
export async function sendReport(
  { calls, askForRegistration }: Pick<JobPorts, 'calls' | 'askForRegistration'>,
  { tool, args }: Report,
  signal: AbortSignal,
): Promise<LeaseView | null> {
  for (let retry = 1; !signal.aborted; retry += 1) {
    try {
      return (await calls.call(tool, args as never, { signal })).lease;
    } catch (error) {
      const verdict = judgeCallFailure(failureOf(error).error_class);
      log.info('a report was not taken', { job_id: args.job_id, tool, verdict, error });
      if (verdict === 'lost' || verdict === 'give_up') return null;
      if (verdict === 'register') askForRegistration();
      const pauseMs = retryDelayMs(retry);
      await sleepMs(pauseMs + jitter(pauseMs), signal);
    }
  }
  return null;
}

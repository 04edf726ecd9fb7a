/** What the passing of time does: expires, retries, gives up, wakes. Only `apply` and liveness decide what is due. */
import { assert } from './assertion.ts';
import type { DeadlineEntry } from './deadline-heap.ts';
import type { Deadline } from './deadlines.ts';
import { jobDeadline, lastSeenOf, leaseDeadline, waitDeadline } from './deadlines.ts';
import type { Draft } from './draft.ts';
import type { Replies } from './inputs.ts';
import { beginReaping, giveUpReap } from './reaping.ts';
import { endWaitByTime } from './waits.ts';

export function tick(draft: Draft): Replies['tick'] {
  let fired = 0;
  for (const entry of draft.state.index.deadlines.takeDue(draft.now)) {
    if (fire(draft, entry)) fired += 1;
  }
  return { fired };
}

/** True when the deadline holds; else it is scheduled again for its true time. */
function due<R>(draft: Draft, entry: DeadlineEntry, deadline: Deadline<R> | null): deadline is Deadline<R> {
  if (deadline === null) return false;
  const at = deadline.graced ? Math.max(deadline.at, draft.context.grace_until) : deadline.at;
  if (at <= draft.now) return true;
  draft.state.index.deadlines.schedule(entry.kind, entry.id, at);
  return false;
}

function fire(draft: Draft, entry: DeadlineEntry): boolean {
  const { state } = draft;
  const lastSeen = lastSeenOf(draft.context.liveness);
  switch (entry.kind) {
    case 'lease': {
      const lease = state.leases.get(entry.id);
      if (lease === undefined) return false;
      const deadline = leaseDeadline(lease, lastSeen);
      if (!due(draft, entry, deadline)) return false;
      if (deadline.reason.action === 'give_up_reap') {
        giveUpReap(draft, lease, 'the reap did not end before its deadline', 'reap_deadline');
      } else {
        beginReaping(draft, lease, { reason: deadline.reason.reap_reason, disposition: lease.reap_disposition });
      }
      return true;
    }
    case 'job': {
      const job = state.jobs.get(entry.id);
      if (job === undefined) return false;
      const deadline = jobDeadline(job, lastSeen);
      if (!due(draft, entry, deadline)) return false;
      draft.emit({ type: 'job_reopened', job_id: job.job_id, reason: deadline.reason });
      assert(job.state === 'open', `job ${job.job_id} is open again`);
      return true;
    }
    case 'wait': {
      const wait = state.waits.get(entry.id);
      if (wait === undefined) return false;
      const deadline = waitDeadline(wait, lastSeen);
      if (!due(draft, entry, deadline)) return false;
      endWaitByTime(draft, wait, deadline.reason);
      return true;
    }
  }
}

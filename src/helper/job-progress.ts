/**
 * How far one attempt at a job has come: the facts that the rules decide on, and how an action's result changes them.
 * Pure. Read next: `job-rules.ts`.
 */
import type { JobKind } from '../protocol/records.ts';

/** What the slot's creation record says: for which grant something was started here. */
export interface RecordFacts {
  lease_id: string;
  fencing_token: number;
  plan_digest: string;
}

export interface GrantFacts extends RecordFacts {
  created_fencing_token: number | null;
}

export type GrantView =
  | 'none'
  /** This grant has acted on it: in this attempt, or in an earlier life of the Helper. */
  | 'same_grant'
  /** The lease's own stack, on which an earlier grant acted last. */
  | 'created_grant'
  | 'older_grant'
  /** Left by an earlier lease of the slot. */
  | 'predecessor'
  | 'newer_grant'
  | 'newer_other'
  | 'unreadable';

/**
 * A record of the lease itself is of its own stack from the grant that created it on: each later grant that acted on
 * the stack has put its token there. One of another lease that bears our token was marked by us, to be cleared.
 */
export function compareGrant(grant: GrantFacts, record: RecordFacts | null | 'unreadable'): GrantView {
  if (record === null) return 'none';
  if (record === 'unreadable') return 'unreadable';
  const token = record.fencing_token;
  if (record.lease_id !== grant.lease_id) return token <= grant.fencing_token ? 'predecessor' : 'newer_other';
  if (token === grant.fencing_token) return 'same_grant';
  if (token > grant.fencing_token) return 'newer_grant';
  return grant.created_fencing_token !== null && token >= grant.created_fencing_token ? 'created_grant' : 'older_grant';
}

/** `none`: offered only. `lost`: the coordinator gave the job to somebody else or closed it. */
export type Hold = 'none' | 'held' | 'lost';
export type ClaimView = 'bound' | 'unbound' | 'absent' | 'foreign' | 'unreadable';
export type PlanView = 'matches' | 'differs' | 'missing';
export type SupervisorView = 'none' | 'alive' | 'dead';

export type Intent = 'start' | 'fail' | 'hand_back' | 'reap';

/** What this attempt has done so far. */
export type Stage =
  | 'fresh'
  | 'whole'
  | 'starting'
  | 'broken'
  | 'child_ended'
  | 'torn_down'
  | 'absent'
  | 'not_absent'
  | 'up'
  | 'up_failed'
  | 'signed_absent'
  | 'signed_not_absent';

/** Read from the disk before every decision. */
export interface DiskFacts {
  grant: GrantView;
  /** The record was made from the plan that the lease names now. */
  recordPlan: 'same' | 'other';
  /** Whether what is recorded was made for this job or was there before it; only told, never decided on. */
  recordMade: 'before' | 'for_this_job';
  claim: ClaimView;
  plan: PlanView;
  supervisor: SupervisorView;
  /** A signed statement of exactly this job's grant that was not accepted yet. */
  stored: 'none' | 'usable';
}

/** Other work of this Helper for the same lease. */
export type OwnWork = 'none' | 'running';

export interface JobProgress {
  kind: JobKind;
  hold: Hold;
  intent: Intent;
  stage: Stage;
  /** A driver or supervisor was asked to act in this attempt. */
  touched: boolean;
  teardowns: number;
  failure: { error_class: string; error: string } | null;
  reprovisioned: string | null;
}

export function startOf(kind: JobKind): JobProgress {
  return {
    kind,
    hold: 'none',
    intent: kind === 'reap_stack' ? 'reap' : 'start',
    stage: 'fresh',
    touched: false,
    teardowns: 0,
    failure: null,
    reprovisioned: null,
  };
}

export type LookVerdict = 'absent' | 'present' | 'unknown';

/** Only a look in which everything was absent is a proof; a look for nothing is none. */
export function verdictOf(lookedFor: readonly { after: LookVerdict }[]): LookVerdict {
  if (lookedFor.some(({ after }) => after === 'present')) return 'present';
  if (lookedFor.length === 0 || lookedFor.some(({ after }) => after !== 'absent')) return 'unknown';
  return 'absent';
}

export type FallibleAction =
  | 'bind_claim'
  | 'inspect'
  | 'provision'
  | 'attach'
  | 'end_child'
  | 'tear_down'
  | 'look'
  | 'sign'
  /** No action failed: the rules turned a start down. */
  | 'turn';

export type ActionResult =
  | { done: 'claim'; held: boolean }
  | { done: 'stop_own_work' | 'bind_claim' | 'provision' | 'attach' | 'tear_down' }
  /** `ended`: processes were found and ended, the client's own child not counted. */
  | { done: 'end_child'; ended?: boolean }
  | { done: 'inspect'; found: 'whole' | 'starting' | 'broken'; reason: string | null }
  | { done: 'look' | 'sign'; verdict: LookVerdict }
  | { done: 'failed'; action: FallibleAction; error_class: string; error: string }
  /** A renewal or a report was refused, or the job is gone. */
  | { done: 'lost' }
  /** The Helper is to end; `stopped` is what it had to break off. */
  | { done: 'drained'; stopped: 'provision' | 'attach' | null };

/** Where a failed action leaves the attempt; `start` says whether a stack can still be had from it. */
const AFTER_FAILURE: Record<FallibleAction, { stage: Stage | 'unchanged'; start: 'goes_on' | 'over' }> = {
  bind_claim: { stage: 'unchanged', start: 'over' },
  inspect: { stage: 'broken', start: 'goes_on' },
  provision: { stage: 'up_failed', start: 'over' },
  attach: { stage: 'up_failed', start: 'over' },
  end_child: { stage: 'child_ended', start: 'over' },
  tear_down: { stage: 'torn_down', start: 'goes_on' },
  look: { stage: 'not_absent', start: 'goes_on' },
  sign: { stage: 'signed_not_absent', start: 'over' },
  turn: { stage: 'unchanged', start: 'over' },
};

/** The attempt after an action. A failed start turns into a roll-back and never back; the first reason stays. */
export function advance(progress: JobProgress, disk: DiskFacts, result: ActionResult): JobProgress {
  switch (result.done) {
    case 'claim':
      return { ...progress, hold: result.held ? 'held' : 'lost' };
    case 'lost':
      return { ...progress, hold: 'lost' };
    case 'stop_own_work':
    case 'bind_claim':
      return progress;
    case 'inspect':
      return { ...progress, stage: result.found, reprovisioned: afterInspection(progress, disk, result) };
    case 'provision':
    case 'attach':
      return { ...progress, stage: 'up', touched: true, reprovisioned: startedAnew(progress, disk) };
    case 'end_child':
      return { ...progress, stage: 'child_ended', touched: progress.touched || result.ended === true };
    case 'tear_down':
      return { ...tornDown(progress, disk), stage: 'torn_down' };
    case 'look':
      return { ...progress, stage: result.verdict === 'absent' ? 'absent' : 'not_absent' };
    case 'sign':
      return { ...progress, stage: result.verdict === 'absent' ? 'signed_absent' : 'signed_not_absent' };
    case 'failed':
      return failed(progress, disk, result);
    case 'drained':
      return drained(progress, result.stopped);
  }
}

function failed(
  progress: JobProgress,
  disk: DiskFacts,
  { action, error_class, error }: Extract<ActionResult, { done: 'failed' }>,
): JobProgress {
  const after = AFTER_FAILURE[action];
  const over = after.start === 'over' && progress.intent === 'start';
  const counted = action === 'tear_down' ? tornDown(progress, disk) : progress;
  return {
    ...counted,
    stage: after.stage === 'unchanged' ? progress.stage : after.stage,
    intent: over ? 'fail' : progress.intent,
    touched: counted.touched || action === 'provision' || action === 'attach',
    failure: progress.failure ?? (over || progress.intent !== 'start' ? { error_class, error } : null),
  };
}

/** What was broken off is rolled back; what is ready is reported; the rest is left as it is for the Helper's next life. */
function drained(progress: JobProgress, stopped: 'provision' | 'attach' | null): JobProgress {
  if (progress.intent !== 'start' || progress.stage === 'up' || progress.stage === 'whole') return progress;
  if (stopped === null) return { ...progress, hold: 'lost' };
  return { ...progress, intent: 'hand_back', stage: 'up_failed', touched: true };
}

function tornDown(progress: JobProgress, disk: DiskFacts): JobProgress {
  return {
    ...progress,
    touched: true,
    teardowns: progress.teardowns + 1,
    reprovisioned: startedAnew(progress, disk),
  };
}

function afterInspection(
  progress: JobProgress,
  disk: DiskFacts,
  { found, reason }: Extract<ActionResult, { done: 'inspect' }>,
): string | null {
  if (progress.kind !== 'readopt_stack') return null;
  if (found === 'broken') return reason ?? 'not_whole';
  return disk.recordMade === 'for_this_job' ? 'helper_restarted' : null;
}

const ANEW_BECAUSE: Record<GrantView, string> = {
  none: 'stack_missing',
  same_grant: 'not_whole',
  created_grant: 'not_whole',
  older_grant: 'older_grant',
  predecessor: 'left_by_earlier_lease',
  newer_grant: 'older_grant',
  newer_other: 'left_by_earlier_lease',
  unreadable: 'stack_missing',
};

/** Why a re-adopted lease gets a new stack; the first reason stays. */
function startedAnew(progress: JobProgress, disk: DiskFacts): string | null {
  if (progress.kind !== 'readopt_stack') return null;
  const own = disk.grant === 'same_grant' || disk.grant === 'created_grant';
  return progress.reprovisioned ?? (own && disk.recordPlan === 'other' ? 'plan_changed' : ANEW_BECAUSE[disk.grant]);
}

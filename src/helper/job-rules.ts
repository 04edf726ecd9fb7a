/**
 * What a Helper does next with a job: pure, from plain facts to one action, and from an action's result to the next
 * facts. The thin loop and the simulation run exactly these two functions.
 * Must not: touch a file, a process, a clock. Read next: `job-loop.ts`; for all that is not a job, `host-rules.ts`.
 */
import type { JobKind } from '../protocol/records.ts';
import type { ClaimView, DiskFacts, GrantView, JobProgress, OwnWork, PlanView } from './job-progress.ts';

export type JobAction =
  | { do: 'claim' | 'stop_own_work' | 'bind_claim' | 'inspect' | 'provision' | 'attach' }
  | { do: 'tear_down' | 'look' | 'complete' | 'fail' | 'abandon' }
  /** `marked`: everything that carries the lease's mark too; else the services are left to their driver. */
  | { do: 'end_child'; marked: boolean }
  | { do: 'sign'; kind: 'reap' | 'rollback' | 'pre_driver' }
  | { do: 'defer'; reason: string }
  /** Nothing may be touched: the reason goes to the coordinator without a proof. */
  | { do: 'refuse'; error_class: string; error: string }
  /** The rules themselves found that this start cannot be: give it to `advance` as `failed`. */
  | { do: 'turn'; error_class: string; error: string };

/** A look that still finds something is followed by another teardown, this often in one attempt. */
export const TEARDOWNS_MAX = 2;

type Fresh = 'provision' | 'inspect' | 'tear_down' | 'refuse' | 'refuse_unless_dead';

/** What a record on the disk means for a job that wants to start a stack. */
export const FRESH_START: Record<Exclude<JobKind, 'reap_stack'>, Record<GrantView, Fresh>> = {
  provision_stack: {
    none: 'provision',
    same_grant: 'inspect',
    created_grant: 'tear_down',
    older_grant: 'tear_down',
    predecessor: 'tear_down',
    newer_grant: 'refuse',
    newer_other: 'refuse_unless_dead',
    unreadable: 'refuse',
  },
  readopt_stack: {
    none: 'provision',
    same_grant: 'inspect',
    created_grant: 'inspect',
    older_grant: 'tear_down',
    predecessor: 'tear_down',
    newer_grant: 'refuse',
    newer_other: 'refuse_unless_dead',
    unreadable: 'refuse',
  },
};

/** The same for a job that wants the stack gone. */
export const FRESH_END: Record<GrantView, 'look' | 'tear_down' | 'refuse' | 'refuse_unless_dead'> = {
  none: 'look',
  same_grant: 'tear_down',
  created_grant: 'tear_down',
  older_grant: 'tear_down',
  predecessor: 'tear_down',
  newer_grant: 'refuse',
  newer_other: 'refuse_unless_dead',
  unreadable: 'refuse',
};

const CLAIM_GUARD: Record<ClaimView, 'pass' | 'bind_claim' | string> = {
  bound: 'pass',
  unbound: 'bind_claim',
  absent: 'no claim of this lease covers its ports on this host',
  foreign: 'the ports are claimed by another invocation',
  unreadable: 'the claim of the ports cannot be read',
};

const PLAN_GUARD: Record<PlanView, 'pass' | string> = {
  matches: 'pass',
  differs: 'the plan on this host is not the one that the lease names',
  missing: 'there is no plan for this slot on this host',
};

export function nextAction(progress: JobProgress, disk: DiskFacts, ownWork: OwnWork): JobAction {
  if (progress.hold === 'lost') return { do: 'abandon' };
  if (progress.hold === 'none') return { do: 'claim' };
  if (ownWork === 'running') return { do: 'stop_own_work' };
  return progress.intent === 'start' ? nextOfStart(progress, disk) : nextOfEnd(progress, disk);
}

function nextOfStart(progress: JobProgress, disk: DiskFacts): JobAction {
  switch (progress.stage) {
    case 'fresh': {
      const first = FRESH_START[progress.kind as Exclude<JobKind, 'reap_stack'>][disk.grant];
      if (refuses(first, disk)) return refusal(disk);
      const guarded = claimGuard(disk);
      if (guarded !== null) return guarded;
      if (first === 'provision') return planGuard(disk) ?? { do: 'provision' };
      return first === 'inspect' && disk.recordPlan === 'same' ? { do: 'inspect' } : { do: 'tear_down' };
    }
    case 'starting':
      return disk.grant === 'same_grant' ? { do: 'attach' } : { do: 'tear_down' };
    case 'broken':
      return { do: 'tear_down' };
    case 'torn_down':
      return { do: 'look' };
    case 'absent':
      return claimGuard(disk) ?? planGuard(disk) ?? { do: 'provision' };
    case 'not_absent':
      return (
        retryTeardown(progress) ?? turn('leftover_present', 'what an earlier stack left behind could not be removed')
      );
    case 'whole':
    case 'up':
      return { do: 'complete' };
    case 'up_failed':
    case 'child_ended':
    case 'signed_absent':
    case 'signed_not_absent':
      return turn('internal', `a start cannot be in stage ${progress.stage}`);
  }
}

function nextOfEnd(progress: JobProgress, disk: DiskFacts): JobAction {
  switch (progress.stage) {
    case 'fresh':
      if (refuses(FRESH_END[disk.grant], disk)) return refusal(disk);
      if (progress.intent !== 'reap') return firstStepOfEnd(progress, disk);
      return disk.stored === 'usable'
        ? { do: 'complete' }
        : { do: 'end_child', marked: FRESH_END[disk.grant] === 'look' };
    case 'child_ended':
    case 'whole':
    case 'starting':
    case 'broken':
    case 'up':
    case 'up_failed':
      if (refuses(FRESH_END[disk.grant], disk)) return refusal(disk);
      return firstStepOfEnd(progress, disk);
    case 'torn_down':
      return { do: 'look' };
    case 'absent':
      return { do: 'sign', kind: statementKind(progress, disk.grant) };
    case 'not_absent':
      return retryTeardown(progress) ?? { do: 'sign', kind: statementKind(progress, disk.grant) };
    case 'signed_absent':
      if (progress.intent === 'reap') return { do: 'complete' };
      return progress.intent === 'hand_back' ? { do: 'defer', reason: 'helper_draining' } : { do: 'fail' };
    case 'signed_not_absent':
      return { do: 'fail' };
  }
}

function firstStepOfEnd(progress: JobProgress, disk: DiskFacts): JobAction {
  const nothingMade = FRESH_END[disk.grant] === 'look' && !progress.touched;
  return nothingMade ? { do: 'look' } : { do: 'tear_down' };
}

function refuses(first: Fresh | 'look', disk: DiskFacts): boolean {
  return first === 'refuse' || (first === 'refuse_unless_dead' && disk.supervisor === 'alive');
}

function refusal(disk: DiskFacts): JobAction {
  return disk.grant === 'unreadable'
    ? { do: 'refuse', error_class: 'record_unreadable', error: 'the record of what was started here cannot be read' }
    : { do: 'refuse', error_class: 'OLD_GENERATION', error: 'a newer grant than this one owns what runs here' };
}

function claimGuard(disk: DiskFacts): JobAction | null {
  const verdict = CLAIM_GUARD[disk.claim];
  if (verdict === 'pass') return null;
  return verdict === 'bind_claim' ? { do: 'bind_claim' } : turn('STACK_CONTEXT_BIND_FAILED', verdict);
}

function planGuard(disk: DiskFacts): JobAction | null {
  const verdict = PLAN_GUARD[disk.plan];
  return verdict === 'pass' ? null : turn('plan_mismatch', verdict);
}

function turn(errorClass: string, error: string): JobAction {
  return { do: 'turn', error_class: errorClass, error };
}

function retryTeardown(progress: JobProgress): JobAction | null {
  return progress.teardowns < TEARDOWNS_MAX ? { do: 'tear_down' } : null;
}

/** `pre_driver` is said only when no driver ran: in this attempt, and in any that left a record. */
export function statementKind(progress: JobProgress, grant: GrantView): 'reap' | 'rollback' | 'pre_driver' {
  const nothingMade = grant === 'none' && !progress.touched;
  if (progress.kind === 'readopt_stack') return 'rollback';
  if (nothingMade) return 'pre_driver';
  return progress.kind === 'reap_stack' ? 'reap' : 'rollback';
}

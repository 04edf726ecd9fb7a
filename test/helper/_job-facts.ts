/** Facts, and a world that answers as the test says, for the rules of jobs. */
import {
  type ActionResult,
  advance,
  type DiskFacts,
  type GrantView,
  type JobProgress,
  type Stage,
  startOf,
} from '../../src/helper/job-progress.ts';
import { type JobAction, nextAction } from '../../src/helper/job-rules.ts';
import type { JobKind } from '../../src/protocol/records.ts';

export const clean: DiskFacts = {
  grant: 'none',
  recordPlan: 'same',
  recordMade: 'before',
  claim: 'bound',
  plan: 'matches',
  supervisor: 'none',
  stored: 'none',
};

export const held = (kind: JobKind, over: Partial<JobProgress> = {}): JobProgress => ({
  ...startOf(kind),
  hold: 'held',
  ...over,
});

export const next = (progress: JobProgress, disk: Partial<DiskFacts> = {}): JobAction['do'] =>
  nextAction(progress, { ...clean, ...disk }, 'none').do;

export const GRANTS: readonly GrantView[] = [
  'none',
  'same_grant',
  'created_grant',
  'older_grant',
  'predecessor',
  'newer_grant',
  'newer_other',
  'unreadable',
];
export const STAGES: readonly Stage[] = [
  'fresh',
  'whole',
  'starting',
  'broken',
  'child_ended',
  'torn_down',
  'absent',
  'not_absent',
  'up',
  'up_failed',
  'signed_absent',
  'signed_not_absent',
];
export const KINDS: readonly JobKind[] = ['provision_stack', 'readopt_stack', 'reap_stack'];

/** Runs the rules to the end against a scripted world and returns what was done. */
export function run(
  progress: JobProgress,
  disk: DiskFacts,
  answer: (action: JobAction, done: readonly string[]) => { result: ActionResult; disk?: Partial<DiskFacts> },
): { done: string[]; progress: JobProgress } {
  const done: string[] = [];
  let now = progress;
  let facts = disk;
  for (let step = 0; step < 40; step += 1) {
    const action = nextAction(now, facts, 'none');
    done.push(action.do === 'sign' ? `sign ${action.kind}` : action.do);
    if (['complete', 'fail', 'defer', 'abandon', 'refuse'].includes(action.do)) return { done, progress: now };
    if (action.do === 'turn') {
      now = advance(now, facts, {
        done: 'failed',
        action: 'turn',
        error_class: action.error_class,
        error: action.error,
      });
      continue;
    }
    const told = answer(action, done);
    now = advance(now, facts, told.result);
    facts = { ...facts, ...told.disk };
  }
  throw new Error(`no end: ${done.join(', ')}`);
}

export const ok = (action: JobAction): ActionResult => {
  switch (action.do) {
    case 'claim':
      return { done: 'claim', held: true };
    case 'inspect':
      return { done: 'inspect', found: 'whole', reason: null };
    case 'look':
    case 'sign':
      return { done: action.do, verdict: 'absent' };
    case 'end_child':
      return { done: 'end_child', ended: false };
    case 'bind_claim':
    case 'provision':
    case 'attach':
    case 'tear_down':
    case 'stop_own_work':
      return { done: action.do };
    default:
      throw new Error(action.do);
  }
};

export const failing = (action: JobAction['do'] & ('provision' | 'inspect' | 'tear_down' | 'sign')): ActionResult => ({
  done: 'failed',
  action,
  error_class: 'service_not_ready',
  error: 'db was not ready',
});

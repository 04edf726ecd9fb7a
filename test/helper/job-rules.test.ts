import { describe, expect, test } from 'bun:test';
import {
  type ActionResult,
  advance,
  type ClaimView,
  compareGrant,
  type DiskFacts,
  type GrantView,
  type JobProgress,
  type PlanView,
  type Stage,
  startOf,
  verdictOf,
} from '../../src/helper/job-progress.ts';
import { type JobAction, nextAction, TEARDOWNS_MAX } from '../../src/helper/job-rules.ts';
import type { JobKind } from '../../src/protocol/records.ts';

const clean: DiskFacts = {
  grant: 'none',
  recordPlan: 'same',
  recordMade: 'before',
  claim: 'bound',
  plan: 'matches',
  supervisor: 'none',
  stored: 'none',
};

const held = (kind: JobKind, over: Partial<JobProgress> = {}): JobProgress => ({
  ...startOf(kind),
  hold: 'held',
  ...over,
});

const next = (progress: JobProgress, disk: Partial<DiskFacts> = {}): JobAction['do'] =>
  nextAction(progress, { ...clean, ...disk }, 'none').do;

const GRANTS: readonly GrantView[] = [
  'none',
  'same_grant',
  'created_grant',
  'older_grant',
  'predecessor',
  'newer_grant',
  'newer_other',
  'unreadable',
];
const STAGES: readonly Stage[] = [
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
const KINDS: readonly JobKind[] = ['provision_stack', 'readopt_stack', 'reap_stack'];

describe('which grant made what is on the disk', () => {
  const grant = { lease_id: 'L', fencing_token: 10, created_fencing_token: 7, plan_digest: 'd' };
  const record = (lease_id: string, fencing_token: number) => ({ lease_id, fencing_token, plan_digest: 'd' });
  const cases: [ReturnType<typeof record> | null | 'unreadable', GrantView][] = [
    [null, 'none'],
    ['unreadable', 'unreadable'],
    [record('L', 10), 'same_grant'],
    [record('L', 7), 'created_grant'],
    [record('L', 8), 'created_grant'],
    [record('L', 6), 'older_grant'],
    [record('L', 11), 'newer_grant'],
    [record('K', 9), 'predecessor'],
    [record('K', 10), 'predecessor'],
    [record('K', 11), 'newer_other'],
  ];
  test.each(cases)('%p is %s', (made, view) => {
    expect(compareGrant(grant, made)).toBe(view);
  });
});

describe('before anything else', () => {
  test('an offered job is claimed', () => {
    for (const kind of KINDS) expect(nextAction(startOf(kind), clean, 'running').do).toBe('claim');
  });

  test('a job whose claim was lost is abandoned in every stage, whatever is on the disk', () => {
    for (const kind of KINDS) {
      for (const stage of STAGES) {
        for (const grant of GRANTS) expect(next(held(kind, { hold: 'lost', stage }), { grant })).toBe('abandon');
      }
    }
  });

  test('other work on the lease is stopped before anything is touched', () => {
    for (const kind of KINDS) {
      for (const stage of STAGES) expect(nextAction(held(kind, { stage }), clean, 'running').do).toBe('stop_own_work');
    }
  });
});

describe('the first step of a start, by what the disk records', () => {
  const table: Record<GrantView, [provision: JobAction['do'], readopt: JobAction['do']]> = {
    none: ['provision', 'provision'],
    same_grant: ['inspect', 'inspect'],
    created_grant: ['tear_down', 'inspect'],
    older_grant: ['tear_down', 'tear_down'],
    predecessor: ['tear_down', 'tear_down'],
    newer_grant: ['refuse', 'refuse'],
    newer_other: ['refuse', 'refuse'],
    unreadable: ['refuse', 'refuse'],
  };
  test.each(GRANTS.map((grant) => [grant]))('%s', (grant) => {
    const disk = { grant, supervisor: 'alive' } as const;
    expect([next(held('provision_stack'), disk), next(held('readopt_stack'), disk)]).toEqual(table[grant]);
  });

  test('what a newer grant of another lease left is cleared only when its supervisor is dead', () => {
    expect(next(held('provision_stack'), { grant: 'newer_other', supervisor: 'dead' })).toBe('tear_down');
  });

  test('a stack made from another plan is not adopted', () => {
    expect(next(held('readopt_stack'), { grant: 'created_grant', recordPlan: 'other' })).toBe('tear_down');
  });

  const claims: Record<ClaimView, JobAction['do']> = {
    bound: 'provision',
    unbound: 'bind_claim',
    absent: 'turn',
    foreign: 'turn',
    unreadable: 'turn',
  };
  test.each(Object.entries(claims))('with a claim that is %s: %s', (claim, action) => {
    expect(next(held('provision_stack'), { claim: claim as ClaimView })).toBe(action);
    expect(next(held('provision_stack', { stage: 'absent' }), { claim: claim as ClaimView })).toBe(action);
  });

  const plans: Record<PlanView, JobAction['do']> = { matches: 'provision', differs: 'turn', missing: 'turn' };
  test.each(Object.entries(plans))('with a plan that %s: %s', (plan, action) => {
    expect(next(held('provision_stack'), { plan: plan as PlanView })).toBe(action);
    expect(next(held('readopt_stack', { stage: 'absent' }), { plan: plan as PlanView })).toBe(action);
  });

  test('a whole stack is adopted although its plan file is gone', () => {
    expect(next(held('readopt_stack', { stage: 'whole' }), { grant: 'created_grant', plan: 'missing' })).toBe(
      'complete',
    );
  });
});

describe('the first step of an end, by what the disk records', () => {
  const table: Record<GrantView, JobAction['do']> = {
    none: 'end_child',
    same_grant: 'end_child',
    created_grant: 'end_child',
    older_grant: 'end_child',
    predecessor: 'end_child',
    newer_grant: 'refuse',
    newer_other: 'refuse',
    unreadable: 'refuse',
  };
  test.each(Object.entries(table))('%s: %s', (grant, action) => {
    expect(next(held('reap_stack'), { grant: grant as GrantView, supervisor: 'alive' })).toBe(action);
  });

  test('after the child, what was made is torn down, and where nothing was made one only looks', () => {
    for (const grant of GRANTS) {
      const expected = { none: 'look', newer_grant: 'refuse', newer_other: 'refuse', unreadable: 'refuse' }[
        grant as string
      ];
      const disk = { grant, supervisor: 'alive' } as const;
      expect(next(held('reap_stack', { stage: 'child_ended' }), disk)).toBe((expected ?? 'tear_down') as 'look');
    }
  });

  test('only where no driver keeps the services does the end of the child take all that bears the mark', () => {
    expect(nextAction(held('reap_stack'), clean, 'none')).toEqual({ do: 'end_child', marked: true });
    expect(nextAction(held('reap_stack'), { ...clean, grant: 'same_grant' }, 'none')).toEqual({
      do: 'end_child',
      marked: false,
    });
  });

  test('a statement of this very grant that was signed before is sent again as it is', () => {
    expect(next(held('reap_stack'), { stored: 'usable', grant: 'same_grant' })).toBe('complete');
    expect(next(held('reap_stack'), { stored: 'usable', grant: 'newer_grant' })).toBe('refuse');
  });

  test('a plan or claim that is gone keeps nobody from a teardown', () => {
    const disk = { grant: 'same_grant', plan: 'missing', claim: 'absent' } as const;
    expect(next(held('reap_stack', { stage: 'child_ended' }), disk)).toBe('tear_down');
  });
});

/** Runs the rules to the end against a scripted world and returns what was done. */
function run(
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

const ok = (action: JobAction): ActionResult => {
  switch (action.do) {
    case 'claim':
      return { done: 'claim', held: true };
    case 'inspect':
      return { done: 'inspect', found: 'whole', reason: null };
    case 'look':
    case 'sign':
      return { done: action.do, verdict: 'absent' };
    case 'bind_claim':
    case 'provision':
    case 'attach':
    case 'end_child':
    case 'tear_down':
    case 'stop_own_work':
      return { done: action.do };
    default:
      throw new Error(action.do);
  }
};

const failing = (action: JobAction['do'] & ('provision' | 'inspect' | 'tear_down' | 'sign')): ActionResult => ({
  done: 'failed',
  action,
  error_class: 'service_not_ready',
  error: 'db was not ready',
});

describe('whole attempts', () => {
  test('a provision binds the claim, starts the stack and completes', () => {
    const { done } = run(startOf('provision_stack'), { ...clean, claim: 'unbound' }, (action) => ({
      result: ok(action),
      disk: action.do === 'bind_claim' ? { claim: 'bound' } : {},
    }));
    expect(done).toEqual(['claim', 'bind_claim', 'provision', 'complete']);
  });

  test('a provision that fails is rolled back, proven and failed with the first reason', () => {
    const { done, progress } = run(startOf('provision_stack'), clean, (action) => ({
      result: action.do === 'provision' ? failing('provision') : ok(action),
    }));
    expect(done).toEqual(['claim', 'provision', 'tear_down', 'look', 'sign rollback', 'fail']);
    expect(progress.failure).toEqual({ error_class: 'service_not_ready', error: 'db was not ready' });
  });

  test('a provision that may not begin proves that nothing was begun', () => {
    const { done, progress } = run(startOf('provision_stack'), { ...clean, plan: 'differs' }, (action) => ({
      result: ok(action),
    }));
    expect(done).toEqual(['claim', 'turn', 'look', 'sign pre_driver', 'fail']);
    expect(progress.failure?.error_class).toBe('plan_mismatch');
  });

  test('a half-made stack of the same grant is taken over by the next life of the Helper', () => {
    const { done } = run(
      startOf('provision_stack'),
      { ...clean, grant: 'same_grant', supervisor: 'alive' },
      (action) => ({
        result: action.do === 'inspect' ? { done: 'inspect', found: 'starting', reason: null } : ok(action),
      }),
    );
    expect(done).toEqual(['claim', 'inspect', 'attach', 'complete']);
  });

  test('one that broke meanwhile is removed, seen gone and made anew', () => {
    const { done } = run(startOf('provision_stack'), { ...clean, grant: 'same_grant' }, (action) => ({
      result: action.do === 'inspect' ? failing('inspect') : ok(action),
      disk: action.do === 'tear_down' ? { grant: 'none' } : {},
    }));
    expect(done).toEqual(['claim', 'inspect', 'tear_down', 'look', 'provision', 'complete']);
  });

  test('what an earlier lease left and cannot be removed fails the provision without a proof', () => {
    const { done, progress } = run(startOf('provision_stack'), { ...clean, grant: 'predecessor' }, (action) => ({
      result: action.do === 'look' || action.do === 'sign' ? { done: action.do, verdict: 'present' } : ok(action),
    }));
    expect(done).toEqual(
      ['claim', ...Array(TEARDOWNS_MAX).fill(['tear_down', 'look']), 'turn', 'sign rollback', 'fail'].flat(),
    );
    expect(progress.failure?.error_class).toBe('leftover_present');
  });

  test('a whole idle stack is adopted as it is', () => {
    const { done, progress } = run(startOf('readopt_stack'), { ...clean, grant: 'created_grant' }, (action) => ({
      result: ok(action),
    }));
    expect(done).toEqual(['claim', 'inspect', 'complete']);
    expect(progress.reprovisioned).toBeNull();
  });

  const anew: [string, Partial<DiskFacts>, ActionResult | null, string][] = [
    [
      'is not whole',
      { grant: 'created_grant' },
      { done: 'inspect', found: 'broken', reason: 'service_ended' },
      'service_ended',
    ],
    ['was made from another plan', { grant: 'created_grant', recordPlan: 'other' }, null, 'plan_changed'],
    ['is gone', {}, null, 'stack_missing'],
    [
      'was made anew by an earlier life of the Helper',
      { grant: 'same_grant', recordMade: 'for_this_job' },
      null,
      'helper_restarted',
    ],
    ['was made by a grant that is neither', { grant: 'older_grant' }, null, 'older_grant'],
  ];
  test.each(anew)('a stack that %s is provisioned anew, and the reason is told', (_name, disk, inspected, reason) => {
    const { done, progress } = run(startOf('readopt_stack'), { ...clean, ...disk }, (action) => ({
      result: action.do === 'inspect' && inspected !== null ? inspected : ok(action),
      disk: action.do === 'tear_down' ? { grant: 'none' } : {},
    }));
    expect(done.at(-1)).toBe('complete');
    expect(progress.reprovisioned).toBe(reason);
  });

  test('a failed re-adoption says roll-back even where nothing was made', () => {
    const { done } = run(startOf('readopt_stack'), { ...clean, claim: 'absent' }, (action) => ({ result: ok(action) }));
    expect(done).toEqual(['claim', 'turn', 'look', 'sign rollback', 'fail']);
  });

  test('a reap ends the child first, then the stack, looks and completes with what it signed', () => {
    const { done } = run(startOf('reap_stack'), { ...clean, grant: 'same_grant' }, (action) => ({
      result: ok(action),
    }));
    expect(done).toEqual(['claim', 'end_child', 'tear_down', 'look', 'sign reap', 'complete']);
  });

  test('a reap of what no driver ever touched looks and says so', () => {
    const { done } = run(startOf('reap_stack'), clean, (action) => ({ result: ok(action) }));
    expect(done).toEqual(['claim', 'end_child', 'look', 'sign pre_driver', 'complete']);
  });

  test('a teardown that throws is still looked at, and its look decides', () => {
    const { done } = run(startOf('reap_stack'), { ...clean, grant: 'same_grant' }, (action) => ({
      result: action.do === 'tear_down' ? failing('tear_down') : ok(action),
    }));
    expect(done).toEqual(['claim', 'end_child', 'tear_down', 'look', 'sign reap', 'complete']);
  });

  test.each(['present', 'unknown'] as const)('a reap whose look finds something %s ends without a proof', (verdict) => {
    const { done } = run(startOf('reap_stack'), { ...clean, grant: 'same_grant' }, (action) => ({
      result: action.do === 'look' || action.do === 'sign' ? { done: action.do, verdict } : ok(action),
    }));
    expect(done).toEqual(
      ['claim', 'end_child', Array(TEARDOWNS_MAX).fill(['tear_down', 'look']), 'sign reap', 'fail'].flat(2),
    );
  });

  test('a statement that cannot be kept on the disk proves nothing', () => {
    const { done } = run(startOf('reap_stack'), { ...clean, grant: 'same_grant' }, (action) => ({
      result: action.do === 'sign' ? failing('sign') : ok(action),
    }));
    expect(done.at(-1)).toBe('fail');
  });

  test('a Helper that is to end hands a begun provision back with its roll-back proven', () => {
    const { done } = run(startOf('provision_stack'), clean, (action) => ({
      result: action.do === 'provision' ? { done: 'drained', stopped: 'provision' } : ok(action),
    }));
    expect(done).toEqual(['claim', 'provision', 'tear_down', 'look', 'sign rollback', 'defer']);
  });

  test('a hand-back whose roll-back is not proven is a failure', () => {
    const { done } = run(startOf('provision_stack'), clean, (action) => {
      if (action.do === 'provision') return { result: { done: 'drained', stopped: 'provision' } };
      return {
        result: action.do === 'look' || action.do === 'sign' ? { done: action.do, verdict: 'present' } : ok(action),
      };
    });
    expect(done.at(-1)).toBe('fail');
  });

  test('a Helper that is to end leaves alone what it has not begun', () => {
    const idle = advance(
      held('readopt_stack'),
      { ...clean, grant: 'created_grant' },
      { done: 'drained', stopped: null },
    );
    expect(next(idle, { grant: 'created_grant' })).toBe('abandon');
  });

  test('a reap goes on while the Helper drains', () => {
    expect(advance(held('reap_stack', { stage: 'torn_down' }), clean, { done: 'drained', stopped: null }).hold).toBe(
      'held',
    );
  });

  test('every attempt comes to an end, whatever each action answers', () => {
    for (const kind of KINDS) {
      for (const grant of GRANTS) {
        for (const supervisor of ['alive', 'dead'] as const) {
          for (const bad of ['inspect', 'provision', 'attach', 'end_child', 'tear_down', 'look', 'sign', 'none']) {
            const { done } = run(startOf(kind), { ...clean, grant, supervisor }, (action) => ({
              result:
                action.do === bad
                  ? { done: 'failed', action: bad as 'look', error_class: 'x', error: 'x' }
                  : ok(action),
            }));
            expect(done.length).toBeLessThan(20);
          }
        }
      }
    }
  });

  test('nothing is completed as gone without an all-absent look', () => {
    for (const grant of GRANTS) {
      const { done } = run(startOf('reap_stack'), { ...clean, grant }, (action) => ({
        result: action.do === 'look' || action.do === 'sign' ? { done: action.do, verdict: 'unknown' } : ok(action),
      }));
      expect(['fail', 'refuse']).toContain(done.at(-1) ?? '');
    }
  });
});

describe('what a look proves', () => {
  test('absence of everything, and only of something', () => {
    expect(verdictOf([{ after: 'absent' }, { after: 'absent' }])).toBe('absent');
    expect(verdictOf([])).toBe('unknown');
    expect(verdictOf([{ after: 'absent' }, { after: 'unknown' }])).toBe('unknown');
    expect(verdictOf([{ after: 'unknown' }, { after: 'present' }])).toBe('present');
  });
});

import { describe, expect, test } from 'bun:test';
import { type ClaimView, compareGrant, type GrantView, type PlanView, startOf } from '../../src/helper/job-progress.ts';
import { type JobAction, nextAction } from '../../src/helper/job-rules.ts';
import { clean, GRANTS, held, KINDS, next, STAGES } from './_job-facts.ts';

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

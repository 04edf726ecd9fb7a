import { describe, expect, test } from 'bun:test';
import { type ActionResult, advance, type DiskFacts, startOf, verdictOf } from '../../src/helper/job-progress.ts';
import { TEARDOWNS_MAX } from '../../src/helper/job-rules.ts';
import { clean, failing, GRANTS, held, KINDS, next, ok, run } from './_job-facts.ts';

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

  test('a reap that has no record and yet found something of the lease says that it reaped', () => {
    const { done } = run(startOf('reap_stack'), clean, (action) => ({
      result: action.do === 'end_child' ? { done: 'end_child', ended: true } : ok(action),
    }));
    expect(done).toEqual(['claim', 'end_child', 'tear_down', 'look', 'sign reap', 'complete']);
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

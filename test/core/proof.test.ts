import { describe, expect, test } from 'bun:test';
import type { StatementFacts } from '../../src/core/inputs.ts';
import type { Disposition, JobKind, Lease } from '../../src/core/model.ts';
import { judgeStatement, type StatementVerdict } from '../../src/core/proof.ts';
import { Machine, statementOf } from './machine.ts';

/** A lease whose job of the given kind is claimed. */
function scene(kind: JobKind, disposition: Disposition = 'destroy') {
  const machine = new Machine();
  machine.host(1);
  const lease = kind === 'provision_stack' ? machine.request('slot') : machine.active('slot');
  if (kind === 'readopt_stack') {
    machine.release(lease, 'idle');
    machine.request('slot', { blocks: lease.blocks });
  }
  if (kind === 'reap_stack') machine.release(lease, 'reap', { disposition });
  const now = machine.lease(lease.lease_id);
  return { machine, lease: now, held: machine.claim(now), job: machine.jobOf(now) };
}

type Row = readonly [string, Partial<StatementFacts> | null, StatementVerdict];

const absent = { kind: 'port', id: '1', after: 'absent' } as const;
const ROWS: readonly Row[] = [
  ['everything that was looked for is absent', {}, 'proven'],
  ['there is no statement', null, 'no_statement'],
  ['the signature does not verify', { signature_valid: false }, 'signature_invalid'],
  ['it is about a roll-back', { kind: 'rollback' }, 'wrong_kind'],
  ['it is about another lease', { lease_id: 'other' }, 'wrong_lease'],
  ['it is about another slot', { slot: 'other' }, 'wrong_slot'],
  ['it is about another tenant', { tenant: 'other' }, 'wrong_slot'],
  ['it comes from another host', { host_id: 'other' }, 'wrong_host'],
  ['it is about an older grant', { fencing_token: 0 }, 'old_generation'],
  ['it is about a grant that never was', { fencing_token: 1_000 }, 'old_generation'],
  ['it is about another plan', { plan_digest: 'other' }, 'wrong_plan'],
  ['only a stop is said where a destroy was asked', { disposition: 'stop' }, 'weaker_disposition'],
  ['nothing was looked for', { looked_for: [] }, 'looked_for_nothing'],
  ['one thing is still there', { looked_for: [absent, { ...absent, after: 'present' }] }, 'still_present'],
  ['one thing is unknown', { looked_for: [absent, { ...absent, after: 'unknown' }] }, 'unknown'],
];

describe('the judgement of a reap statement', () => {
  for (const [name, changes, verdict] of ROWS) {
    test(`${name}: ${verdict}`, () => {
      const { machine, lease, held, job } = scene('reap_stack');
      const statement = changes === null ? null : statementOf(lease, changes);
      expect(judgeStatement(lease, job, statement)).toBe(verdict);
      machine.ask('complete_job', { ...held, connection: null, reprovisioned: null, statement });
      expect(machine.lease(lease.lease_id).state).toBe(verdict === 'proven' ? 'reaped' : 'reaping');
      if (verdict !== 'proven') expect(machine.jobOf(lease)).toMatchObject({ state: 'waiting', attempts: 1 });
    });
  }

  test('a destroy proves more than the stop that was asked', () => {
    const { lease, job } = scene('reap_stack', 'stop');
    expect(judgeStatement(lease, job, statementOf(lease, { disposition: 'destroy' }))).toBe('proven');
  });
});

describe('which kind of statement proves which job', () => {
  const KINDS: Record<JobKind, Record<StatementFacts['kind'], boolean>> = {
    provision_stack: { reap: false, rollback: true, pre_driver: true },
    readopt_stack: { reap: false, rollback: true, pre_driver: false },
    reap_stack: { reap: true, rollback: false, pre_driver: true },
  };
  for (const [kind, allowed] of Object.entries(KINDS)) {
    for (const [said, proves] of Object.entries(allowed)) {
      test(`${said} for a ${kind} job: ${proves ? 'proven' : 'wrong_kind'}`, () => {
        const { lease, job } = scene(kind as JobKind);
        const statement = statementOf(lease, { kind: said as StatementFacts['kind'] });
        expect(judgeStatement(lease, job, statement)).toBe(proves ? 'proven' : 'wrong_kind');
      });
    }
  }
});

describe('a provision that failed', () => {
  const outcomes: readonly [string, (lease: Lease) => StatementFacts | null, string, string | null][] = [
    ['without a statement is reaped by a job of its own', () => null, 'reaping', null],
    [
      'with a proven roll-back is reaped at once',
      (lease) => statementOf(lease, { kind: 'rollback' }),
      'reaped',
      'signed_reap',
    ],
    [
      'before its driver ran is reaped at once',
      (lease) => statementOf(lease, { kind: 'pre_driver' }),
      'reaped',
      'pre_driver_absence',
    ],
    [
      'with something left is reaped by a job of its own',
      (lease) => statementOf(lease, { kind: 'rollback', looked_for: [{ ...absent, after: 'present' }] }),
      'reaping',
      null,
    ],
  ];
  for (const [name, statement, state, proof] of outcomes) {
    test(name, () => {
      const { machine, lease, held } = scene('provision_stack');
      machine.ask('fail_job', {
        ...held,
        error: 'initdb: no',
        error_class: 'prepare_failed',
        statement: statement(lease),
      });
      expect(machine.lease(lease.lease_id)).toMatchObject({
        state,
        reap_reason: 'provision_failed',
        error: 'initdb: no',
        error_class: 'prepare_failed',
        reap_failed_at: null,
        last_reap_outcome: state === 'reaped' ? 'succeeded' : null,
        cleanup_proof: proof,
      });
      if (state === 'reaping') {
        expect(machine.lease(lease.lease_id).cleanup_verified).toBeUndefined();
        expect(machine.jobOf(lease)).toMatchObject({ kind: 'reap_stack', state: 'open' });
      }
    });
  }
});

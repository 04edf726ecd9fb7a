import { describe, expect, test } from 'bun:test';
import { BOUNDS } from '../../src/core/bounds.ts';
import type { Lease } from '../../src/core/model.ts';
import { CONNECTION, HOST, Machine, statementOf } from './machine.ts';

function scene(): { machine: Machine; lease: Lease } {
  const machine = new Machine();
  machine.host(2);
  return { machine, lease: machine.request('slot') };
}

const completed = { connection: CONNECTION, reprovisioned: null, statement: null };

describe('the claim of a job', () => {
  test('takes a token larger than every token before it', () => {
    const { machine, lease } = scene();
    const tokens = [lease.fencing_token ?? 0];
    for (let life = 1; life <= 5; life += 1) {
      tokens.push(machine.claim(lease).job_token);
      machine.pass(BOUNDS.jobClaimTtlMs);
      machine.see('lease', lease.lease_id);
    }
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    expect(new Set(tokens).size).toBe(6);
  });

  test('by another host, by an earlier life of the Helper, or of no job is refused', () => {
    const { machine, lease } = scene();
    machine.host(1, { host_id: 'host-2' });
    const job_id = machine.jobOf(lease).job_id;
    const claim = (host_id: string, incarnation: string, id = job_id) =>
      machine.refused('claim_job', { job_id: id, host_id, incarnation }).code;
    expect(claim('host-2', 'helper-1')).toBe('JOB_NOT_YOURS');
    expect(claim(HOST, 'helper-0')).toBe('HELPER_SUPERSEDED');
    expect(claim('host-3', 'helper-1')).toBe('HOST_NOT_FOUND');
    expect(claim(HOST, 'helper-1', 'nothing')).toBe('JOB_CLAIM_LOST');
  });

  test('lapses without renewal and lives with it', () => {
    const { machine, lease } = scene();
    const held = machine.claim(lease);
    for (let i = 0; i < 4; i += 1) {
      machine.pass(BOUNDS.jobClaimTtlMs - 1_000);
      machine.ask('renew_job', held);
      machine.see('job', held.job_id);
      machine.see('lease', lease.lease_id);
    }
    expect(machine.jobOf(lease).state).toBe('claimed');
    machine.pass(BOUNDS.jobClaimTtlMs);
    expect(machine.jobOf(lease)).toMatchObject({ state: 'open', job_token: null, claimed_by: null });
  });
});

describe('an older job token', () => {
  const verbs = ['renew_job', 'complete_job', 'fail_job', 'defer_job'] as const;
  const fields = {
    renew_job: {},
    complete_job: completed,
    fail_job: { error: 'x', error_class: 'x', statement: null },
    defer_job: { reason: 'x', statement: null },
  };
  for (const verb of verbs) {
    test(`is refused for ${verb} once the job was claimed anew`, () => {
      const { machine, lease } = scene();
      const old = machine.claim(lease);
      machine.pass(BOUNDS.jobClaimTtlMs);
      const held = machine.claim(lease);
      const seq = machine.state.seq;
      const refusal = machine.refused(verb, { ...old, ...fields[verb] } as never);
      expect(refusal).toMatchObject({ code: 'JOB_CLAIM_LOST', fields: { job_token: held.job_token } });
      expect(machine.state.seq).toBe(seq);
    });

    test(`is refused for ${verb} while nobody holds the job, after it ended, and after the lease went another way`, () => {
      const { machine, lease } = scene();
      const old = machine.claim(lease);
      const refused = () => machine.refused(verb, { ...old, ...fields[verb] } as never).code;
      machine.host(2, { incarnation: 'helper-2' });
      expect(refused()).toBe('JOB_CLAIM_LOST');
      machine.release(lease, 'reap');
      expect(refused()).toBe('JOB_CLAIM_LOST');
      const held = machine.claim(lease, 'helper-2');
      machine.ask('complete_job', { ...held, connection: null, reprovisioned: null, statement: statementOf(lease) });
      expect(machine.lease(lease.lease_id).state).toBe('reaped');
      expect(refused()).toBe('JOB_CLAIM_LOST');
    });
  }
});

describe('the end of a job', () => {
  test('a provision without a connection is refused and the job stays claimed', () => {
    const { machine, lease } = scene();
    const held = machine.claim(lease);
    const refusal = machine.refused('complete_job', { ...held, ...completed, connection: null });
    expect(refusal.code).toBe('CONNECTION_MISSING');
    expect(machine.jobOf(lease).state).toBe('claimed');
  });

  test('a provision makes the lease active with its connection', () => {
    const { machine, lease } = scene();
    machine.now += 9_000;
    machine.ask('complete_job', { ...machine.claim(lease), ...completed });
    expect(machine.lease(lease.lease_id)).toMatchObject({
      state: 'active',
      connection: CONNECTION,
      active_at: machine.now,
      created_fencing_token: lease.fencing_token,
    });
    expect(machine.state.jobs.size).toBe(0);
  });

  test('a re-adoption keeps the token of the grant that made the stack, a new stack gets the new one', () => {
    for (const reprovisioned of [null, 'bind mounts moved']) {
      const machine = new Machine();
      machine.host(1);
      const lease = machine.idle('slot');
      const made = lease.created_fencing_token;
      machine.request('slot', { blocks: lease.blocks });
      machine.ask('complete_job', { ...machine.claim(lease), ...completed, reprovisioned });
      const now = machine.lease(lease.lease_id);
      expect(now).toMatchObject({ state: 'active', reused: 'idle', reprovisioned });
      expect(now.created_fencing_token).toBe(reprovisioned === null ? made : now.fencing_token);
      expect(now.fencing_token).toBeGreaterThan(made ?? 0);
    }
  });

  test('a release in mid-provision takes the job back and opens a reap', () => {
    const { machine, lease } = scene();
    const held = machine.claim(lease);
    machine.release(lease, 'reap');
    expect(machine.jobOf(lease)).toMatchObject({ kind: 'reap_stack', state: 'open' });
    expect(machine.jobOf(lease).job_id).not.toBe(held.job_id);
  });
});

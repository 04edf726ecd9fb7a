import { describe, expect, test } from 'bun:test';
import { BOUNDS } from '../../src/core/bounds.ts';
import type { Condition } from '../../src/core/model.ts';
import { BY, Machine } from './machine.ts';

function machineWith(units: number): Machine {
  const machine = new Machine();
  machine.host(units);
  return machine;
}

const reaches = (lease_id: string, state: 'provisioning' | 'active' | 'reaped' | null): Condition => ({
  type: 'lease',
  lease_id,
  state,
});

describe('a wait', () => {
  test('that is already true ends in its registration', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    const { ended, wait } = machine.wait('w', [reaches(lease.lease_id, 'active')]);
    expect(ended).toMatchObject({ outcome: 'matched', state: { lease_state: 'active' } });
    expect(wait.matched).toHaveLength(1);
    expect(machine.state.waits.size).toBe(0);
    expect(machine.endOf('w')?.outcome).toBe('matched');
  });

  test('ends in the very input that makes it true', () => {
    const machine = machineWith(1);
    const holder = machine.active('a');
    const next = machine.request('b');
    machine.wait('admitted', [reaches(next.lease_id, null)]);
    machine.release(holder, 'reap');
    expect(machine.endOf('admitted')).toBeNull();
    const before = machine.state.seq;
    machine.reap(holder);
    expect(machine.endOf('admitted')).toMatchObject({ outcome: 'matched', state: { lease_state: 'provisioning' } });
    expect(machine.typesSince(before)).toEqual([
      'job_claimed',
      'job_closed',
      'lease_reaped',
      'lease_granted',
      'job_opened',
      'wait_matched',
      'wait_ended',
    ]);
  });

  test('for a lease that is reaped and archived already is answered from the archive', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.release(lease, 'reap');
    machine.reap(lease);
    expect(machine.wait('w', [reaches(lease.lease_id, 'reaped')]).ended?.outcome).toBe('matched');
    expect(machine.wait('v', [reaches(lease.lease_id, 'active')]).ended?.outcome).toBe('lease_lost');
  });

  test('is lost on any way out of its lease, with the reason', () => {
    const machine = machineWith(1);
    const lease = machine.request('a');
    machine.wait('w', [reaches(lease.lease_id, 'active')]);
    machine.ask('fail_job', { ...machine.claim(lease), error: 'no', error_class: 'prepare_failed', statement: null });
    expect(machine.endOf('w')).toMatchObject({
      outcome: 'lease_lost',
      state: { lease_state: 'reaping', reap_reason: 'provision_failed', error_class: 'prepare_failed' },
    });
  });

  test('for proven cleanup ends as failed when the reap is given up, and may be asked again after a retry', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.wait('w', [reaches(lease.lease_id, 'reaped')]);
    machine.release(lease, 'reap');
    machine.failReap(lease);
    expect(machine.endOf('w')?.outcome).toBe('lease_cleanup_failed');
    machine.release(lease, 'reap');
    machine.wait('again', [reaches(lease.lease_id, 'reaped')]);
    machine.reap(lease);
    expect(machine.endOf('again')).toMatchObject({ outcome: 'matched', state: { cleanup_proof: 'signed_reap' } });
  });

  test('survives a deferral of its lease', () => {
    const machine = machineWith(1);
    const lease = machine.request('a');
    machine.wait('w', [reaches(lease.lease_id, 'active')]);
    const { job_id, job_token } = machine.claim(lease);
    machine.ask('defer_job', {
      job_id,
      job_token,
      reason: 'draining',
      statement: {
        receipt_id: 'r',
        signature_valid: true,
        kind: 'pre_driver',
        lease_id: lease.lease_id,
        slot: lease.slot,
        tenant: lease.tenant,
        host_id: lease.host_id,
        fencing_token: lease.fencing_token ?? 0,
        plan_digest: lease.plan_digest,
        disposition: 'destroy',
        looked_for: [{ kind: 'port', id: '1', after: 'absent' }],
      },
    });
    expect(machine.endOf('w')).toBeNull();
    machine.provision(machine.lease(lease.lease_id));
    expect(machine.endOf('w')?.outcome).toBe('matched');
  });

  test('has one outcome: later moves of its lease, its deadline and a cancel change nothing', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.wait('w', [reaches(lease.lease_id, 'active')]);
    machine.release(lease, 'reap');
    machine.reap(lease);
    machine.pass(1e7);
    const refusal = machine.refused('cancel_wait', { wait_session_id: 'w', by: BY, reason: 'cancelled' });
    expect(refusal.code).toBe('WAIT_NOT_FOUND');
    expect(machine.archive.filter((row) => row.kind === 'wait')).toHaveLength(1);
    expect(machine.log.filter(({ event }) => event.type === 'wait_ended')).toHaveLength(1);
  });

  test('registered again under its id is the same wait', () => {
    const machine = machineWith(1);
    machine.active('a');
    const lease = machine.request('b');
    const first = machine.wait('w', [reaches(lease.lease_id, null)]);
    const seq = machine.state.seq;
    expect(machine.wait('w', [reaches(lease.lease_id, null)]).wait.cursor_start).toBe(first.wait.cursor_start);
    expect(machine.state.seq).toBe(seq);
  });

  test('of another principal cannot be had, cancelled or joined by its id', () => {
    const machine = machineWith(1);
    machine.active('a');
    const lease = machine.request('b');
    machine.wait('w', [reaches(lease.lease_id, null)]);
    const other = { principal: 'other', tenant: BY.tenant };
    expect(machine.refused('cancel_wait', { wait_session_id: 'w', by: other, reason: 'cancelled' }).code).toBe(
      'WAIT_NOT_FOUND',
    );
    const joining = machine.waiting('w', [{ type: 'timer', at: 1 }], other);
    expect(machine.refused('register_wait', joining).code).toBe('WAIT_NOT_FOUND');
    const spying = machine.waiting('v', [reaches(lease.lease_id, null)], other);
    expect(machine.refused('register_wait', spying).code).toBe('LEASE_NOT_FOUND');
  });

  test('for a lease that never was, without conditions or with too many is refused', () => {
    const machine = machineWith(1);
    const timer: Condition = { type: 'timer', at: 1 };
    const refused = (conditions: Condition[]) =>
      machine.refused('register_wait', machine.waiting('w', conditions)).code;
    expect(refused([reaches('nothing', null)])).toBe('LEASE_NOT_FOUND');
    expect(refused([])).toBe('INVALID_CONDITION');
    expect(refused(Array.from({ length: BOUNDS.conditionsPerWaitMax + 1 }, () => timer))).toBe('INVALID_CONDITION');
    expect(machine.state.seq).toBe(2);
  });
});

describe('several conditions', () => {
  test('all: ends with the last of them, and tells each match with its place in the log', () => {
    const machine = machineWith(2);
    const [a, b] = [machine.request('a'), machine.request('b')];
    machine.wait('w', [reaches(a.lease_id, 'active'), reaches(b.lease_id, 'active')]);
    machine.provision(b);
    expect(machine.endOf('w')).toBeNull();
    machine.provision(a);
    const ended = machine.endOf('w');
    expect(ended?.matched.map((match) => match.condition)).toEqual([1, 0]);
    const seqs = ended?.matched.map((match) => match.seq) ?? [];
    expect(seqs).toEqual([...seqs].sort((x, y) => x - y));
  });

  test('any: ends with the first', () => {
    const machine = machineWith(2);
    const [a, b] = [machine.request('a'), machine.request('b')];
    machine.wait('w', [reaches(a.lease_id, 'active'), reaches(b.lease_id, 'active')], 'any');
    machine.provision(b);
    expect(machine.endOf('w')?.matched.map((match) => match.condition)).toEqual([1]);
  });

  test('a condition once matched stays matched when its lease moves on', () => {
    const machine = machineWith(2);
    const [a, b] = [machine.request('a'), machine.request('b')];
    machine.wait('w', [reaches(a.lease_id, 'provisioning'), reaches(b.lease_id, 'active')]);
    machine.provision(a);
    machine.release(a, 'reap');
    machine.provision(b);
    expect(machine.endOf('w')?.outcome).toBe('matched');
  });

  test('two leases that move in one input are both judged', () => {
    const machine = machineWith(1);
    const holder = machine.active('a');
    const next = machine.request('b');
    machine.wait('w', [reaches(holder.lease_id, 'reaped'), reaches(next.lease_id, null)]);
    machine.release(holder, 'reap');
    machine.reap(holder);
    expect(machine.endOf('w')?.outcome).toBe('matched');
  });
});

describe('time', () => {
  test('a timer matches when the clock passes it, not before, and at once when it has passed', () => {
    const machine = machineWith(1);
    machine.wait('w', [{ type: 'timer', at: machine.now + 5_000 }]);
    machine.pass(4_999);
    expect(machine.endOf('w')).toBeNull();
    machine.pass(1);
    expect(machine.endOf('w')).toMatchObject({ outcome: 'matched', ended_at: machine.now });
    expect(machine.wait('v', [{ type: 'timer', at: machine.now }]).ended?.outcome).toBe('matched');
  });

  test('timers of one wait fire one after the other', () => {
    const machine = machineWith(1);
    machine.wait('w', [
      { type: 'timer', at: machine.now + 9_000 },
      { type: 'timer', at: machine.now + 3_000 },
    ]);
    machine.pass(3_000);
    expect(machine.state.waits.get('w')?.matched.map((match) => match.condition)).toEqual([1]);
    machine.pass(6_000);
    expect(machine.endOf('w')?.outcome).toBe('matched');
  });

  test('the deadline of a wait ends it as a time-out', () => {
    const machine = machineWith(1);
    machine.active('a', { mode: 'detached' });
    const lease = machine.request('b', { mode: 'detached' });
    machine.ask(
      'register_wait',
      machine.waiting('w', [reaches(lease.lease_id, null)], { deadline_at: machine.now + 60_000 }),
    );
    machine.pass(60_000);
    expect(machine.endOf('w')?.outcome).toBe('timeout');
  });

  test('a wait that nobody attends is abandoned, one with a live stream is not', () => {
    const machine = machineWith(1);
    machine.active('a', { mode: 'detached' });
    const lease = machine.request('b', { mode: 'detached' });
    for (const id of ['alone', 'attended']) machine.wait(id, [reaches(lease.lease_id, null)]);
    machine.pass(100_000);
    machine.see('wait', 'attended');
    machine.pass(BOUNDS.waitAbandonedAfterMs - 100_000);
    expect(machine.endOf('alone')).toMatchObject({ outcome: 'abandoned', state: { reason: 'no_live_stream' } });
    expect(machine.endOf('attended')).toBeNull();
    machine.pass(100_000);
    expect(machine.endOf('attended')?.outcome).toBe('abandoned');
  });
});

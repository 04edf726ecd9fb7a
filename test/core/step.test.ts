import { describe, expect, test } from 'bun:test';
import { toSnapshot } from '../../src/core/state.ts';
import { BY, HOST, Machine, replay } from './machine.ts';

describe('a step', () => {
  test('that is refused appends nothing and changes nothing', () => {
    const machine = new Machine();
    machine.host(1);
    const lease = machine.active('a');
    const before = JSON.stringify(toSnapshot(machine.state));
    const refused = [
      machine.submit('request_lease', { request: machine.asking('b', { units: 9 }) }),
      machine.submit('request_lease', { request: machine.asking('b', { blocks: lease.blocks }) }),
      machine.submit('touch_lease', { lease_id: 'none', by: BY, fencing_token: null }),
      machine.submit('claim_job', { job_id: 'none', host_id: HOST, incarnation: 'helper-1' }),
      machine.submit('cancel_wait', { wait_session_id: 'none', by: BY, reason: 'cancelled' }),
    ];
    for (const answer of refused) expect(answer).toMatchObject({ ok: false, events: [], archive: [] });
    expect(JSON.stringify(toSnapshot(machine.state))).toBe(before);
  });

  test('runs all consequences of one input to their end', () => {
    const machine = new Machine();
    machine.host(2);
    const idle = machine.idle('idle', { units: 2 });
    const wanting = machine.request('wants', { units: 2 });
    machine.wait('w', [{ type: 'lease', lease_id: wanting.lease_id, state: 'provisioning' }]);
    const before = machine.state.seq;
    machine.reap(idle);
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

  test('archives a lease that left memory, and a wait, with the input that ended them', () => {
    const machine = new Machine();
    machine.host(1);
    const lease = machine.active('a');
    machine.wait('w', [{ type: 'lease', lease_id: lease.lease_id, state: 'reaped' }]);
    machine.release(lease, 'reap');
    machine.reap(lease);
    expect(machine.archive.map(({ kind, id }) => [kind, id])).toEqual([
      ['lease', lease.lease_id],
      ['wait', 'w'],
    ]);
    expect(machine.state.leases.size + machine.state.waits.size + machine.state.jobs.size).toBe(0);
    expect(machine.state.index.deadlines.size).toBe(0);
  });

  test('gives events that fold to the state it left behind', () => {
    const machine = new Machine();
    machine.host(1);
    machine.idle('a');
    machine.request('b');
    machine.pass(3_000_000);
    expect(JSON.stringify(toSnapshot(replay(machine.log)))).toBe(JSON.stringify(toSnapshot(machine.state)));
  });
});

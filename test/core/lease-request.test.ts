import { describe, expect, test } from 'bun:test';
import { BOUNDS } from '../../src/core/bounds.ts';
import type { LeaseRequest } from '../../src/core/inputs.ts';
import { blocksOverlap } from '../../src/core/lease-request.ts';
import { BY, HOST, Machine, statementOf } from './machine.ts';

function machineWith(units: number): Machine {
  const machine = new Machine();
  machine.host(units);
  return machine;
}

describe('a request for a lease', () => {
  test('is answered with a queued lease that carries what was asked', () => {
    const machine = new Machine();
    const asked = machine.asking('a', { units: 2, priority: 7, mode: 'detached', labels: { ticket: 'T-1' } });
    const { lease, reused } = machine.ask('request_lease', { request: asked });
    const { queue_timeout_ms, ...terms } = asked;
    expect(reused).toBeNull();
    expect(lease).toMatchObject(terms);
    expect(lease).toMatchObject({
      state: 'queued',
      fencing_token: null,
      queue_deadline_at: machine.now + queue_timeout_ms,
    });
  });

  test('attached, waits as long as its owner does and no deadline ends it', () => {
    const machine = machineWith(1);
    machine.active('a', { mode: 'detached', idle_ttl_ms: 1e9 });
    const lease = machine.request('b', { queue_timeout_ms: 90_000 });
    expect(lease.queue_deadline_at).toBeNull();
    for (let i = 0; i < 5; i += 1) {
      machine.pass(50_000);
      machine.see('lease', lease.lease_id);
    }
    expect(machine.lease(lease.lease_id).state).toBe('queued');
  });

  const refusals: readonly [string, Partial<LeaseRequest>, string][] = [
    ['a priority beyond the bound', { priority: BOUNDS.priorityMax + 1 }, 'INVALID_PRIORITY'],
    ['a priority far below', { priority: -BOUNDS.priorityMax - 1 }, 'INVALID_PRIORITY'],
    ['a broken priority', { priority: 0.5 }, 'INVALID_PRIORITY'],
    [
      'too many labels',
      { labels: Object.fromEntries(Array.from({ length: BOUNDS.labelsMax + 1 }, (_, i) => [`${i}`, ''])) },
      'TOO_MANY_LABELS',
    ],
    ['a label that is too long', { labels: { ticket: 'x'.repeat(BOUNDS.labelLengthMax + 1) } }, 'TOO_MANY_LABELS'],
  ];
  for (const [what, changes, code] of refusals) {
    test(`with ${what} is refused as ${code}`, () => {
      const machine = machineWith(4);
      expect(machine.refused('request_lease', { request: machine.asking('a', changes) }).code).toBe(code);
    });
  }

  for (const units of [0, -1, 1.5, Number.NaN, BOUNDS.unitsMax + 1]) {
    test(`for ${units} units is refused as INVALID_UNITS`, () => {
      const machine = machineWith(4);
      expect(machine.refused('request_lease', { request: machine.asking('a', { units }) }).code).toBe('INVALID_UNITS');
    });
  }

  test('for more than the host has in all is refused at once', () => {
    const machine = machineWith(4);
    const refusal = machine.refused('request_lease', { request: machine.asking('a', { units: 5 }) });
    expect(refusal).toMatchObject({ code: 'HOST_CAPACITY_BUDGET_FULL', fields: { units: 5, capacity_units: 4 } });
  });

  test('with more port blocks than a lease may carry is refused', () => {
    const machine = machineWith(4);
    const blocks = Array.from({ length: BOUNDS.blocksPerLeaseMax + 1 }, (_, i) => ({
      port_base: 20_000 + i * 20,
      size: 20,
    }));
    expect(machine.refused('request_lease', { request: machine.asking('a', { blocks }) }).code).toBe(
      'TOO_MANY_PORT_BLOCKS',
    );
  });

  test('repeated with its claim token answers with its own lease', () => {
    const machine = machineWith(1);
    const asked = machine.asking('a');
    const first = machine.ask('request_lease', { request: asked }).lease;
    const seq = machine.state.seq;
    expect(machine.ask('request_lease', { request: asked }).lease.lease_id).toBe(first.lease_id);
    expect(machine.state.seq).toBe(seq);
  });

  test('twenty at once for one slot make one lease and nineteen refusals that name it', () => {
    const machine = machineWith(4);
    const answers = Array.from({ length: 20 }, () => machine.submit('request_lease', { request: machine.asking('a') }));
    const refused = answers.filter((answer) => !answer.ok);
    expect(machine.state.leases.size).toBe(1);
    expect(refused).toHaveLength(19);
    for (const answer of refused) {
      expect(answer).toMatchObject({ refusal: { fields: { lease_id: 'lease-1' } } });
    }
  });

  test('under the id of a lease that lives is refused', () => {
    const machine = machineWith(4);
    const lease = machine.request('a');
    const refusal = machine.refused('request_lease', { request: machine.asking('b', { lease_id: lease.lease_id }) });
    expect(refusal.code).toBe('LEASE_ID_TAKEN');
  });
});

describe('port blocks', () => {
  const rows: readonly [[number, number], [number, number], boolean][] = [
    [[100, 20], [100, 20], true],
    [[100, 20], [119, 20], true],
    [[100, 20], [120, 20], false],
    [[100, 20], [80, 20], false],
    [[100, 20], [81, 20], true],
    [[100, 20], [105, 5], true],
    [[105, 5], [100, 20], true],
    [[100, 20], [60, 100], true],
  ];
  for (const [[a, aSize], [b, bSize], overlap] of rows) {
    test(`[${a}, ${a + aSize}) and [${b}, ${b + bSize}) ${overlap ? 'overlap' : 'are disjoint'}`, () => {
      const [left, right] = [
        { port_base: a, size: aSize },
        { port_base: b, size: bSize },
      ];
      expect(blocksOverlap(left, right)).toBe(overlap);
      expect(blocksOverlap(right, left)).toBe(overlap);
    });
  }

  const block = { port_base: 20_100, size: 20 };
  const overlapping = [{ port_base: 20_110, size: 20 }];

  for (const state of ['queued', 'provisioning', 'active', 'idle', 'reaping', 'reap_failed'] as const) {
    test(`of a lease in ${state} are refused to every other slot on the host`, () => {
      const machine = machineWith(state === 'queued' ? 1 : 4);
      if (state === 'queued') machine.active('holder');
      const lease =
        state === 'provisioning' || state === 'queued'
          ? machine.request('a', { blocks: [block] })
          : machine.active('a', { blocks: [block] });
      if (state === 'idle') machine.release(lease, 'idle');
      if (state === 'reaping' || state === 'reap_failed') machine.release(lease, 'reap');
      if (state === 'reap_failed') machine.failReap(lease);
      expect(machine.lease(lease.lease_id).state).toBe(state);
      const refusal = machine.refused('request_lease', { request: machine.asking('b', { blocks: overlapping }) });
      expect(refusal).toMatchObject({ code: 'PORT_BLOCK_TAKEN', fields: { port_base: 20_100, size: 20 } });
    });
  }

  test('of a reaped lease are free again', () => {
    const machine = machineWith(4);
    const lease = machine.active('a', { blocks: [block] });
    machine.release(lease, 'reap');
    machine.reap(lease);
    expect(machine.request('b', { blocks: overlapping }).state).toBe('provisioning');
  });

  test('of another host do not matter', () => {
    const machine = machineWith(4);
    machine.active('a', { blocks: [block] });
    expect(machine.request('b', { blocks: overlapping, host_id: 'host-2' }).state).toBe('queued');
  });
});

describe('re-adopting an idle lease', () => {
  test('grants it anew with a larger token and the terms of the new request', () => {
    const machine = machineWith(1);
    const lease = machine.idle('a');
    const before = { ...machine.lease(lease.lease_id) };
    machine.now += 5_000;
    const asked = machine.asking('a', { blocks: lease.blocks, mode: 'detached', plan_digest: 'plan-2', ttl_ms: 1_000 });
    const reply = machine.ask('request_lease', { request: asked });
    expect(reply.reused).toBe('idle');
    expect(reply.lease).toMatchObject({
      lease_id: before.lease_id,
      state: 'provisioning',
      claim_token: asked.claim_token,
      plan_digest: 'plan-2',
      mode: 'detached',
      idle_since: null,
      connection: null,
      created_fencing_token: before.created_fencing_token,
    });
    expect(reply.lease.fencing_token).toBeGreaterThan(before.fencing_token ?? 0);
    expect(machine.jobOf(lease).kind).toBe('readopt_stack');
  });

  test('with other units or ports is refused and leaves it idle', () => {
    const machine = machineWith(4);
    const lease = machine.idle('a');
    for (const changes of [
      { units: 2, blocks: lease.blocks },
      { blocks: [{ port_base: 25_000, size: 20 }] },
      { blocks: [] },
    ]) {
      expect(machine.refused('request_lease', { request: machine.asking('a', changes) }).code).toBe(
        'IDLE_STACK_DIFFERS',
      );
    }
    expect(machine.lease(lease.lease_id).state).toBe('idle');
  });

  test('from another host is refused and leaves it idle', () => {
    const machine = machineWith(4);
    const lease = machine.idle('a');
    const request = machine.asking('a', { blocks: lease.blocks, host_id: 'host-2' });
    expect(machine.refused('request_lease', { request }).code).toBe('STACK_EXECUTION_MODE_MISMATCH');
    expect(machine.lease(lease.lease_id).state).toBe('idle');
  });

  test('handed back with proof waits until the deadline of the new request', () => {
    const machine = machineWith(1);
    const lease = machine.idle('a', { queue_timeout_ms: 60_000, mode: 'detached' });
    machine.pass(600_000);
    const asked = machine.asking('a', { blocks: lease.blocks, queue_timeout_ms: 900_000, mode: 'detached' });
    const { lease: again } = machine.ask('request_lease', { request: asked });
    machine.host(1, { incarnation: 'helper-2', beacon: false });
    const held = machine.claim(again, 'helper-2');
    const statement = statementOf(again, { kind: 'rollback' });
    machine.ask('defer_job', { ...held, reason: 'draining', statement });
    expect(machine.lease(lease.lease_id).state).toBe('queued');
    machine.pass(899_999);
    expect(machine.lease(lease.lease_id).state).toBe('queued');
    machine.pass(1);
    expect(machine.lease(lease.lease_id)).toMatchObject({ state: 'reaped', reap_reason: 'queue_deadline' });
  });

  test('takes its queue deadline and its place from the new request, not from the first one', () => {
    const machine = machineWith(1);
    const lease = machine.idle('a', { queue_timeout_ms: 60_000 });
    machine.now += 600_000;
    const asked = machine.asking('a', { mode: 'detached', blocks: lease.blocks, queue_timeout_ms: 90_000 });
    machine.ask('request_lease', { request: asked });
    expect(machine.lease(lease.lease_id)).toMatchObject({
      requested_at: machine.now,
      queue_deadline_at: machine.now + 90_000,
      arrival_seq: machine.log.findLast(({ event }) => event.type === 'lease_readopting')?.seq,
    });
  });

  test('forgets the disposition of the earlier release', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    machine.release(lease, 'idle', { disposition: 'stop' });
    machine.request('a', { blocks: lease.blocks });
    machine.provision(machine.lease(lease.lease_id));
    machine.pass(120_000);
    expect(machine.lease(lease.lease_id)).toMatchObject({ reap_reason: 'heartbeat_lost', reap_disposition: 'destroy' });
  });
});

describe('keeping a lease', () => {
  test('a touch with the token of the newest grant renews, an older one is told that the lease is lost', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    const old = lease.fencing_token;
    machine.release(lease, 'idle');
    machine.request('a', { blocks: lease.blocks });
    const renewed = machine.provision(machine.lease(lease.lease_id));
    const touch = (token: number | null) =>
      machine.submit('touch_lease', { lease_id: lease.lease_id, by: BY, fencing_token: token });
    expect(touch(renewed.fencing_token).ok).toBe(true);
    expect(touch(old)).toMatchObject({ ok: false, refusal: { code: 'LEASE_LOST' } });
  });

  const strangers = [
    [{ principal: 'owner', tenant: 'other' }, 'LEASE_NOT_FOUND'],
    [{ principal: 'other', tenant: 'local' }, 'LEASE_NOT_OWNED'],
  ] as const;
  for (const [by, code] of strangers) {
    test(`a touch by ${by.principal} of tenant ${by.tenant} is refused as ${code}`, () => {
      const machine = machineWith(1);
      const lease = machine.active('a');
      const refusal = machine.refused('touch_lease', { lease_id: lease.lease_id, by, fencing_token: null });
      expect(refusal.code).toBe(code);
    });
  }
});

describe('a stack that its Helper lost', () => {
  const lost = (machine: Machine, lease_id: string, fencing_token: number | null, incarnation = 'helper-1') =>
    machine.submit('stack_lost', {
      lease_id,
      host_id: HOST,
      incarnation,
      fencing_token: fencing_token ?? -1,
      error: 'the supervisor died',
    });

  for (const how of ['active', 'idle'] as const) {
    test(`takes an ${how} lease to reaping, reason stack_lost`, () => {
      const machine = machineWith(1);
      const lease = machine[how]('a');
      expect(lost(machine, lease.lease_id, lease.fencing_token).ok).toBe(true);
      expect(machine.lease(lease.lease_id)).toMatchObject({
        state: 'reaping',
        reap_reason: 'stack_lost',
        error: 'the supervisor died',
        error_class: 'stack_lost',
      });
    });
  }

  test('changes nothing while it is provisioned or already reaped', () => {
    const machine = machineWith(2);
    const provisioning = machine.request('a');
    const reaping = machine.active('b');
    machine.release(reaping, 'reap');
    for (const lease of [provisioning, reaping]) {
      const { state } = machine.lease(lease.lease_id);
      expect(lost(machine, lease.lease_id, machine.lease(lease.lease_id).fencing_token).events).toEqual([]);
      expect(machine.lease(lease.lease_id).state).toBe(state);
    }
  });

  test('of an older grant, from an older Helper or of no lease is refused', () => {
    const machine = machineWith(1);
    const lease = machine.active('a');
    const old = lease.fencing_token;
    machine.release(lease, 'idle');
    machine.request('a', { blocks: lease.blocks });
    machine.provision(machine.lease(lease.lease_id));
    expect(lost(machine, lease.lease_id, old)).toMatchObject({ ok: false, refusal: { code: 'OLD_GENERATION' } });
    expect(lost(machine, 'nothing', 1)).toMatchObject({ ok: false, refusal: { code: 'LEASE_NOT_FOUND' } });
    machine.host(1, { incarnation: 'helper-2' });
    const now = machine.lease(lease.lease_id).fencing_token;
    expect(lost(machine, lease.lease_id, now)).toMatchObject({ ok: false, refusal: { code: 'HELPER_SUPERSEDED' } });
    expect(machine.lease(lease.lease_id).state).toBe('active');
  });
});

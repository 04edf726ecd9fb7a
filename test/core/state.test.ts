import { describe, expect, test } from 'bun:test';
import { apply } from '../../src/core/apply.ts';
import { violationsOf } from '../../src/core/invariants.ts';
import type { State } from '../../src/core/model.ts';
import { emptyState, fromSnapshot, type Snapshot, toSnapshot } from '../../src/core/state.ts';
import { type SeededRandom, seededRandom } from '../simulation/random.ts';
import { BY, CONNECTION, HOST, Machine, replay, statementOf } from './machine.ts';

const stored = (state: State): Snapshot => JSON.parse(JSON.stringify(toSnapshot(state))) as Snapshot;

/** Everything but the heap, whose entries may come earlier after a reload. */
const facts = (state: State) => ({
  ...stored(state),
  leaseBySlot: [...state.index.leaseBySlot].sort(),
  jobByLease: [...state.index.jobByLease].sort(),
  waitsByLease: [...state.index.waitsByLease].map(([lease, waits]) => [lease, [...waits].sort()]).sort(),
});

/** One random input that may be accepted or refused. */
function poke(machine: Machine, random: SeededRandom): void {
  const slot = `slot-${random.below(5)}`;
  const leases = [...machine.state.leases.values()];
  const lease = leases.length === 0 ? null : random.pick(leases);
  const job = lease === null ? null : machine.state.jobs.get(machine.state.index.jobByLease.get(lease.lease_id) ?? '');
  const held = { job_id: job?.job_id ?? 'none', job_token: job?.job_token ?? random.below(20) };
  const statement =
    lease === null || random.chance(0.4)
      ? null
      : statementOf(lease, { kind: random.pick(['reap', 'rollback', 'pre_driver'] as const) });
  switch (random.below(11)) {
    case 0:
    case 1: {
      const known = leases.find((other) => other.slot === slot);
      const blocks = known?.blocks ?? [{ port_base: 20_000 + random.below(8) * 15, size: 20 }];
      const mode = random.pick(['attached', 'detached'] as const);
      const changes = {
        blocks,
        mode,
        units: random.between(1, 3),
        priority: random.below(3),
        queue_timeout_ms: 200_000,
      };
      machine.submit('request_lease', { request: machine.asking(slot, changes) });
      return;
    }
    case 2:
    case 3:
      machine.submit('claim_job', { job_id: held.job_id, host_id: HOST, incarnation: 'helper-1' });
      return;
    case 4:
    case 5: {
      const connection = random.chance(0.9) ? CONNECTION : null;
      machine.submit('complete_job', { ...held, connection, reprovisioned: null, statement });
      return;
    }
    case 6:
      machine.submit('fail_job', { ...held, error: 'x', error_class: 'x', statement });
      return;
    case 7:
      machine.submit('defer_job', { ...held, reason: 'x', statement });
      return;
    case 8:
      if (lease !== null) machine.release(lease, random.pick(['idle', 'reap'] as const));
      return;
    case 9:
      if (lease !== null) {
        const state = random.pick(['provisioning', 'active', 'reaped', null] as const);
        machine.wait(`wait-${machine.state.seq}`, [{ type: 'lease', lease_id: lease.lease_id, state }]);
        machine.submit('touch_lease', { lease_id: lease.lease_id, by: BY, fencing_token: null });
        machine.see('lease', lease.lease_id);
      }
      return;
    case 10:
      machine.pass(random.below(120_000));
  }
}

describe('a stored state', () => {
  test('folded from the log, from a snapshot, or from a snapshot and its tail is the state that lived', () => {
    for (let seed = 1; seed <= 25; seed += 1) {
      const random = seededRandom(seed);
      const machine = new Machine();
      machine.host(3);
      let snapshot = stored(machine.state);
      for (let i = 0; i < 200; i += 1) {
        poke(machine, random);
        if (random.chance(0.02)) snapshot = stored(machine.state);
      }
      const live = facts(machine.state);
      expect(facts(replay(machine.log))).toEqual(live);
      expect(facts(fromSnapshot(stored(machine.state)))).toEqual(live);
      const caughtUp = fromSnapshot(structuredClone(snapshot));
      for (const event of machine.log) if (event.seq > snapshot.seq) apply(caughtUp, structuredClone(event));
      expect(facts(caughtUp)).toEqual(live);
      expect(violationsOf(caughtUp)).toEqual([]);
    }
  });

  test('reloaded in the middle goes on like the one that lived', () => {
    for (let seed = 100; seed <= 115; seed += 1) {
      const [live, reloaded] = [new Machine(), new Machine()];
      for (const machine of [live, reloaded]) {
        const random = seededRandom(seed);
        machine.host(3);
        for (let i = 0; i < 150; i += 1) {
          poke(machine, random);
          if (machine === reloaded && i % 10 === 0) Object.assign(machine.state, fromSnapshot(stored(machine.state)));
        }
      }
      expect(facts(reloaded.state)).toEqual(facts(live.state));
      expect(reloaded.log).toEqual(live.log);
    }
  });

  test('of an empty fleet is small and loads', () => {
    expect(facts(fromSnapshot(stored(emptyState())))).toEqual(facts(emptyState()));
  });
});

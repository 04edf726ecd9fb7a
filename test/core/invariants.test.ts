import { describe, expect, test } from 'bun:test';
import { INVARIANTS, violationsOf } from '../../src/core/invariants.ts';
import type { Lease } from '../../src/core/model.ts';
import { HOST, Machine } from './machine.ts';

interface Scene {
  machine: Machine;
  a: Lease;
  b: Lease;
}

function scene(): Scene {
  const machine = new Machine();
  machine.host(2);
  return { machine, a: machine.active('a'), b: machine.request('b') };
}

/** Each breaks the one thing that its invariant watches. */
const BREAKS: Record<keyof typeof INVARIANTS, (scene: Scene) => void> = {
  capacityIsNeverExceeded: ({ a }) => {
    a.units = 2;
  },
  slotsHaveOneLease: ({ a, b }) => {
    b.slot = a.slot;
  },
  blocksAreDisjoint: ({ a, b }) => {
    b.blocks = [{ port_base: (a.blocks[0]?.port_base ?? 0) + 19, size: 20 }];
  },
  tokensAreUnique: ({ a, b }) => {
    b.fencing_token = a.fencing_token;
  },
  jobsFitTheirLeases: ({ machine, b }) => {
    machine.state.index.jobByLease.delete(b.lease_id);
  },
  grantsHaveTokens: ({ a }) => {
    a.fencing_token = null;
  },
  deadlinesAreWatched: ({ machine, a }) => {
    machine.state.index.deadlines.forget('lease', a.lease_id);
  },
};

describe('every invariant', () => {
  for (const [name, breakIt] of Object.entries(BREAKS)) {
    test(`${name} holds, and tells when it is broken`, () => {
      const broken = scene();
      const granted = broken.machine.log.filter(({ event }) => event.type === 'lease_granted');
      expect(violationsOf(broken.machine.state, granted)).toEqual([]);
      breakIt(broken);
      const violations = violationsOf(broken.machine.state, granted);
      expect(violations.some((violation) => violation.startsWith(`${name}: `))).toBe(true);
    });
  }

  test('has a case here', () => expect(Object.keys(BREAKS)).toEqual(Object.keys(INVARIANTS)));

  test('a host that shrank under its leases is no violation, a further grant on it is', () => {
    const { machine, b } = scene();
    const host = machine.state.hosts.get(HOST);
    if (host !== undefined) host.capacity_units = 1;
    expect(violationsOf(machine.state)).toEqual([]);
    const grant = machine.log.filter(({ event }) => event.type === 'lease_granted' && event.lease_id === b.lease_id);
    expect(violationsOf(machine.state, grant)).toHaveLength(1);
  });
});

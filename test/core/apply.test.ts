import { describe, expect, test } from 'bun:test';
import { apply } from '../../src/core/apply.ts';
import { AssertionFailure } from '../../src/core/assertion.ts';
import type { Event, SequencedEvent } from '../../src/core/events.ts';
import { Machine, replay } from './machine.ts';

function scene() {
  const machine = new Machine();
  machine.host(2);
  const lease = machine.active('slot');
  const next = (event: Event, changes: Partial<SequencedEvent> = {}): (() => void) => {
    const { seq, at } = machine.state;
    return () => apply(machine.state, { seq: seq + 1, at, event, ...changes });
  };
  return { machine, lease, next };
}

describe('the fold asserts', () => {
  test('that events follow each other without a gap', () => {
    const { next, lease } = scene();
    const event = {
      type: 'lease_idled',
      lease_id: lease.lease_id,
      idle_reason: '',
      disposition: 'stop',
      idle_ttl_ms: 1,
    } as const;
    expect(next(event, { seq: 99 })).toThrow(AssertionFailure);
    expect(next(event, { seq: 1 })).toThrow(AssertionFailure);
  });

  test('that time does not go back', () => {
    const { next, lease } = scene();
    const event = { type: 'lease_reap_failed', lease_id: lease.lease_id, error: '', error_class: '' } as const;
    expect(next(event, { at: 5 })).toThrow(AssertionFailure);
  });

  const impossible: readonly [string, (lease: string) => Event][] = [
    ['a move that the table forbids', (lease_id) => ({ type: 'lease_deferred', lease_id, reason: '', receipt_id: '' })],
    [
      'a grant with an old token',
      (lease_id) => ({ type: 'lease_granted', lease_id, fencing_token: 1, placement_reason: '' }),
    ],
    [
      'a lease that is not there',
      () => ({ type: 'lease_idled', lease_id: 'x', idle_reason: '', disposition: 'stop', idle_ttl_ms: 1 }),
    ],
    ['a job that is not there', () => ({ type: 'job_closed', job_id: 'x', outcome: 'completed' })],
    ['a wait that is not there', () => ({ type: 'wait_ended', wait_session_id: 'x', outcome: 'matched', state: {} })],
  ];
  for (const [name, event] of impossible) {
    test(`against ${name}`, () => {
      const { next, lease } = scene();
      expect(next(event(lease.lease_id))).toThrow(AssertionFailure);
    });
  }

  test('that a slot has one live lease', () => {
    const { machine, next, lease } = scene();
    expect(next({ type: 'lease_requested', lease: { ...machine.lease(lease.lease_id), lease_id: 'second' } })).toThrow(
      AssertionFailure,
    );
  });
});

describe('the fold', () => {
  test('keeps nothing of the events that it was given', () => {
    const machine = new Machine();
    machine.host(1);
    machine.active('slot');
    const log = structuredClone(machine.log);
    const state = replay(log);
    for (const host of state.hosts.values()) host.keys = { forged: 'x' };
    for (const lease of state.leases.values()) lease.blocks.push({ port_base: 1, size: 2 });
    expect(log).toEqual(machine.log);
  });

  test('gives fencing tokens in one rising order over leases and jobs', () => {
    const machine = new Machine();
    machine.host(2);
    for (const slot of ['a', 'b', 'a', 'b']) {
      const lease = machine.active(slot);
      machine.release(lease, 'reap');
      machine.reap(lease);
    }
    const tokens = machine.log.flatMap(({ event }) =>
      event.type === 'lease_granted' ? [event.fencing_token] : event.type === 'job_claimed' ? [event.job_token] : [],
    );
    expect(tokens).toEqual(tokens.map((_, i) => i + 1));
  });
});

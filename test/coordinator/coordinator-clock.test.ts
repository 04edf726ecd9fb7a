import { describe, expect, test } from 'bun:test';
import { CoordinatorClock } from '../../src/coordinator/coordinator-clock.ts';
import { LivenessTable } from '../../src/coordinator/liveness-table.ts';
import { FakeTime } from './fake-time.ts';

const HOUR = 3_600_000;

describe('the clock of the coordinator', () => {
  test('runs with the monotonic clock and starts with the wall clock', () => {
    const time = new FakeTime();
    const clock = new CoordinatorClock({ graceMs: 60_000, clock: time });
    expect(clock.now()).toBe(time.wallMs());
    time.pass(1_500);
    expect(clock.now()).toBe(time.wallMs());
    expect(clock.look(0, 1_000)).toBeNull();
    expect(clock.graceUntil).toBe(0);
  });

  test('starts no earlier than the last event and runs on from there', () => {
    const time = new FakeTime();
    const clock = new CoordinatorClock({ graceMs: 60_000, clock: time });
    const last = time.wallMs() + HOUR;
    clock.startAfter(last);
    expect(clock.now()).toBe(last);
    time.pass(10);
    expect(clock.now()).toBe(last + 10);
  });

  test('a jump of the wall clock changes nothing until it is looked at, then moves the base and gives grace', () => {
    const time = new FakeTime();
    const clock = new CoordinatorClock({ graceMs: 60_000, clock: time });
    const before = clock.now();
    time.jump(HOUR);
    expect(clock.now()).toBe(before);
    expect(clock.look(0, 1_000)).toEqual({ kind: 'wall_jump', ms: HOUR });
    expect(clock.now()).toBe(before + HOUR);
    expect(clock.graceUntil).toBe(clock.now() + 60_000);
    expect(clock.look(0, 1_000)).toBeNull();
  });

  test('a jump back gives grace, and time neither goes back nor stands still', () => {
    const time = new FakeTime();
    const clock = new CoordinatorClock({ graceMs: 60_000, clock: time });
    const before = clock.now();
    time.jump(-HOUR);
    expect(clock.look(0, 1_000)).toEqual({ kind: 'wall_jump', ms: -HOUR });
    expect(clock.now()).toBe(before);
    expect(clock.graceUntil).toBe(before + 60_000);
    time.pass(7);
    expect(clock.now()).toBe(before + 7);
  });

  test('a slewed wall clock is no jump', () => {
    const time = new FakeTime();
    const clock = new CoordinatorClock({ graceMs: 60_000, clock: time });
    for (let look = 0; look < 100; look += 1) {
      time.pass(5_000);
      time.jump(look % 2 === 0 ? 40 : -40);
      expect(clock.look(0, 1_000)).toBeNull();
    }
    expect(clock.graceUntil).toBe(0);
  });

  test('waking up much later than planned is a stall of this process and gives grace', () => {
    const time = new FakeTime();
    const clock = new CoordinatorClock({ graceMs: 60_000, clock: time });
    expect(clock.look(999, 1_000)).toBeNull();
    expect(clock.look(1_001, 1_000)).toEqual({ kind: 'stall', ms: 1_001 });
    expect(clock.graceUntil).toBe(clock.now() + 60_000);
  });
});

describe('the liveness table', () => {
  const make = (waiting: Set<string> = new Set()) => {
    const time = new FakeTime();
    const table = new LivenessTable({ now: () => time.monotonicMs(), leaseIsWaiting: (id) => waiting.has(id) });
    return { time, table, waiting, start: time.monotonicMs() };
  };

  test('who was never heard of counts as seen at the start', () => {
    const { time, table, start } = make();
    time.pass(1_000);
    expect(table.lastSeenAt('lease', 'l')).toBe(start);
    expect(table.heardAt('lease', 'l')).toBeNull();
  });

  test('kinds and ids are kept apart', () => {
    const { time, table, start } = make();
    time.pass(1_000);
    table.seen('lease', 'x');
    expect(table.lastSeenAt('lease', 'x')).toBe(start + 1_000);
    expect(table.lastSeenAt('job', 'x')).toBe(start);
    expect(table.lastSeenAt('lease', 'y')).toBe(start);
  });

  test('an open stream counts as being seen until it closes, and from then on as last seen', () => {
    const { time, table, start } = make();
    const release = table.hold('wait', 'w');
    time.pass(5_000);
    expect(table.lastSeenAt('wait', 'w')).toBe(start + 5_000);
    release();
    time.pass(5_000);
    expect(table.lastSeenAt('wait', 'w')).toBe(start + 5_000);
    release();
    expect(table.lastSeenAt('wait', 'w')).toBe(start + 5_000);
  });

  test('of two streams the last one to close counts', () => {
    const { time, table, start } = make();
    const first = table.hold('wait', 'w');
    const second = table.hold('wait', 'w');
    time.pass(100);
    first();
    time.pass(100);
    expect(table.lastSeenAt('wait', 'w')).toBe(start + 200);
    second();
    time.pass(100);
    expect(table.lastSeenAt('wait', 'w')).toBe(start + 200);
    expect(table.size).toBe(1);
  });

  test('a stream keeps a lease alive only while that is waiting for its stack', () => {
    const { time, table, waiting, start } = make(new Set(['l']));
    const release = table.hold('lease', 'l');
    time.pass(1_000);
    expect(table.lastSeenAt('lease', 'l')).toBe(start + 1_000);
    waiting.delete('l');
    time.pass(1_000);
    expect(table.lastSeenAt('lease', 'l')).toBe(start);
    release();
    expect(table.lastSeenAt('lease', 'l')).toBe(start);
  });

  test('after a disturbance of time everybody counts as seen then', () => {
    const { time, table, start } = make();
    table.seen('lease', 'l');
    time.pass(9_000);
    table.seeAll();
    expect(table.lastSeenAt('lease', 'l')).toBe(start + 9_000);
    expect(table.lastSeenAt('job', 'j')).toBe(start + 9_000);
    expect(table.heardAt('lease', 'l')).toBe(start);
  });

  test('what ended is forgotten', () => {
    const { table } = make();
    table.seen('lease', 'l');
    table.hold('wait', 'w')();
    table.forget('lease', 'l');
    table.forget('wait', 'w');
    expect(table.size).toBe(0);
  });
});

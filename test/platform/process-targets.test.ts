import { expect, test } from 'bun:test';
import { DAEMON_VARIABLE, selectTargets, type TargetQuestion } from '../../src/platform/_process-targets.ts';
import type { ProcessRow } from '../../src/platform/process-table.ts';

const MARK = { name: 'MARK', value: 'lease-1' };

test('a group is its leader, the members of its group and of its session', () => {
  const rows = [row(10), row(11, { ppid: 10, pgid: 10, sid: 10 }), row(12, { ppid: 1, pgid: 12, sid: 10 }), row(20)];
  expect(pick({ rows, leaders: [leader(10)] })).toEqual({ 10: 'group', 11: 'group', 12: 'group' });
});

test('a leader that has ended still names its members', () => {
  const rows = [row(11, { pgid: 10, sid: 10, started_at: '110' })];
  expect(pick({ rows, leaders: [leader(10)] })).toEqual({ 11: 'group' });
});

test('a leader that is a zombie still names its members and is none itself', () => {
  const rows = [row(10, { zombie: true }), row(11, { pgid: 10, sid: 10 })];
  expect(pick({ rows, leaders: [leader(10)] })).toEqual({ 11: 'group' });
});

test('a number that now belongs to another process names nobody', () => {
  const rows = [row(10, { started_at: '999' }), row(11, { ppid: 10, pgid: 10, sid: 10, started_at: '1000' })];
  expect(pick({ rows, leaders: [leader(10)] })).toEqual({});
});

test('a member that is older than the recorded leader belongs to somebody else', () => {
  const rows = [row(11, { pgid: 10, sid: 10, started_at: '90' })];
  expect(pick({ rows, leaders: [leader(10)] })).toEqual({});
});

test('start times of macOS are compared as dates', () => {
  const rows = [row(11, { pgid: 10, sid: 10, started_at: 'Sat Nov 29 10:11:12 2025' })];
  const before = { pid: 10, started_at: 'Fri Nov 28 23:00:00 2025' };
  const later = { pid: 10, started_at: 'Sun Nov 30 01:00:00 2025' };
  expect(pick({ rows, leaders: [before] })).toEqual({ 11: 'group' });
  expect(pick({ rows, leaders: [later] })).toEqual({});
});

test('a member without a leader that carries the mark of another lease is left alone', () => {
  const rows = [row(11, { pgid: 10, sid: 10 }), row(12, { pgid: 10, sid: 10 })];
  const environments = { 11: { MARK: 'lease-2' }, 12: {} };
  expect(pick({ rows, leaders: [leader(10)], mark: MARK, environments })).toEqual({ 12: 'group' });
});

test('the mark is found in any session, with all that such a session holds', () => {
  const rows = [row(30), row(31, { ppid: 1, pgid: 30, sid: 30 }), row(40), row(50)];
  const environments = { 30: { MARK: 'lease-1' }, 31: {}, 40: { MARK: 'lease-2' }, 50: { OTHER: 'lease-1' } };
  expect(pick({ rows, mark: MARK, environments })).toEqual({ 30: 'marked', 31: 'marked' });
});

test('a marked process does not draw in the session that it only joined', () => {
  const rows = [row(5), row(6, { ppid: 5, pgid: 6, sid: 5 }), row(7, { ppid: 5, pgid: 7, sid: 5 })];
  expect(pick({ rows, mark: MARK, environments: { 6: { MARK: 'lease-1' } } })).toEqual({ 6: 'marked' });
});

test('children are followed across sessions where that is safe', () => {
  const rows = [row(10), row(11, { ppid: 10 }), row(12, { ppid: 11 })];
  expect(pick({ rows, leaders: [leader(10)] })).toEqual({ 10: 'group', 11: 'child', 12: 'child' });
  expect(pick({ rows, leaders: [leader(10)], followChildren: false })).toEqual({ 10: 'group' });
});

test('a background service of ours is no child, nor is what it started', () => {
  const rows = [row(10), row(11, { ppid: 10 }), row(12, { ppid: 11 })];
  const environments = { 11: { [DAEMON_VARIABLE]: '1' } };
  expect(pick({ rows, leaders: [leader(10)], environments })).toEqual({ 10: 'group' });
});

test('a marked process is a target whatever else its environment says', () => {
  const rows = [row(10), row(11, { ppid: 10 })];
  const environments = { 11: { [DAEMON_VARIABLE]: '1', MARK: 'lease-1' } };
  expect(pick({ rows, leaders: [leader(10)], mark: MARK, environments })).toEqual({ 10: 'group', 11: 'marked' });
});

test('zombies are nobody', () => {
  const rows = [row(10), row(11, { ppid: 10, pgid: 10, sid: 10, zombie: true })];
  expect(pick({ rows, leaders: [leader(10)] })).toEqual({ 10: 'group' });
});

function row(pid: number, rest: Partial<ProcessRow> = {}): ProcessRow {
  return { pid, ppid: 1, pgid: pid, sid: pid, state: 'S', started_at: '100', zombie: false, ...rest };
}

function leader(pid: number) {
  return { pid, started_at: '100' };
}

interface Question extends Partial<Omit<TargetQuestion, 'environmentOf'>> {
  environments?: Record<number, Record<string, string>>;
}

function pick({ environments = {}, ...question }: Question): Record<number, string> {
  const environmentOf = (pid: number) => {
    const environment = environments[pid];
    return environment === undefined ? null : new Map(Object.entries(environment));
  };
  const base = { rows: [], leaders: [], mark: null, followChildren: true, environmentOf };
  return Object.fromEntries(selectTargets({ ...base, ...question }).map(({ row: { pid }, why }) => [pid, why]));
}

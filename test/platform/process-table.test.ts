import { expect, test } from 'bun:test';
import { parsePsLines } from '../../src/platform/_process-table-darwin.ts';
import {
  environmentsAreVisible,
  parseLinuxStat,
  readProcess,
  readProcessEnvironment,
  readProcessTable,
} from '../../src/platform/process-table.ts';
import { startFixture } from '../fixtures/processes/start-fixture.ts';

const onLinux = process.platform === 'linux';

const STAT_TAIL = '0 -1 4194304 126 0 0 0 0 0 0 0 20 0 THREADS 0 209137 2580480 239 18446744073709551615 1 1 0 0';

function statLine(command: string, state: string, threads = 1): string {
  return `4298 (${command}) ${state} 4290 4297 4296 ${STAT_TAIL.replace('THREADS', String(threads))}\n`;
}

test('a stat line gives pid, parent, group, session and start time', () => {
  expect(parseLinuxStat(statLine('sh', 'S'))).toEqual({
    pid: 4298,
    ppid: 4290,
    pgid: 4297,
    sid: 4296,
    state: 'S',
    started_at: '209137',
    zombie: false,
  });
});

test.each(['a) R 1 1 1 (b', 'two words', '((', 'line\nbreak', ''])(
  'the command name %j does not shift the fields',
  (name) => {
    expect(parseLinuxStat(statLine(name, 'S'))).toMatchObject({ pid: 4298, ppid: 4290, started_at: '209137' });
  },
);

test('a zombie is one only when no thread of it runs on', () => {
  expect(parseLinuxStat(statLine('sh', 'Z'))?.zombie).toBeTrue();
  expect(parseLinuxStat(statLine('sh', 'X'))?.zombie).toBeTrue();
  expect(parseLinuxStat(statLine('sh', 'Z', 3))?.zombie).toBeFalse();
  expect(parseLinuxStat(statLine('sh', 'T'))?.zombie).toBeFalse();
});

test('a line that is cut off is nobody', () => {
  expect(parseLinuxStat('')).toBeNull();
  expect(parseLinuxStat('42 (sh) S 1 2')).toBeNull();
});

test('the lines of ps on macOS give the same fields', () => {
  const text = [
    '    1     0     1 Ss   Mon Nov 24 08:00:01 2025    ',
    '  812     1   812 S    Sat Nov 29 10:11:12 2025',
    '  813   812   812 Z+   Sat Nov 29 10:11:13 2025',
    'ps: something else',
    '',
  ].join('\n');
  const rows = parsePsLines(text, (pid) => (pid === 813 ? 700 : null));
  expect(rows.map(({ pid, ppid, pgid, sid, zombie }) => [pid, ppid, pgid, sid, zombie])).toEqual([
    [1, 0, 1, 1, false],
    [812, 1, 812, 812, false],
    [813, 812, 812, 700, true],
  ]);
  expect(rows[1]?.started_at).toBe('Sat Nov 29 10:11:12 2025');
});

test('this process finds itself, in the table and by its number', () => {
  const row = readProcess(process.pid);
  expect(row).toMatchObject({ pid: process.pid, ppid: process.ppid, zombie: false });
  expect(readProcessTable().find(({ pid }) => pid === process.pid)?.started_at).toBe(row?.started_at);
});

test.each([0, -1, 1.5, Number.NaN, 2 ** 40, 2 ** 60])('no process has the number %p', (pid) => {
  expect(readProcess(pid)).toBeNull();
});

test.if(onLinux)('the environment of another process is read as it was started', async () => {
  await using fixture = await startFixture('forever', { env: { EMPTY: '', EQUALS: 'a=b', LINES: 'a\nb' } });
  const environment = readProcessEnvironment(fixture.child.identity.pid);
  expect(environmentsAreVisible).toBeTrue();
  expect(environment?.get('EQUALS')).toBe('a=b');
  expect(environment?.get('LINES')).toBe('a\nb');
  expect(environment?.get('EMPTY')).toBe('');
  expect(environment?.has('HOME')).toBeFalse();
});

test('nobody has no environment', () => {
  expect(readProcessEnvironment(2 ** 40)).toBeNull();
});

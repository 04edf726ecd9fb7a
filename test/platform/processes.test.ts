import { expect, test } from 'bun:test';
import { chmodSync, closeSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../src/platform/failure.ts';
import { readProcess } from '../../src/platform/process-table.ts';
import {
  findMarked,
  groupMembers,
  identityOf,
  isAlive,
  ownIdentity,
  type SpawnOptions,
  spawnChild,
} from '../../src/platform/processes.ts';
import { fixturePath, startFixture } from '../fixtures/processes/start-fixture.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir } from '../support/temp-home.ts';

const PATH = process.env['PATH'] ?? '';
const onLinux = process.platform === 'linux';

test('this process is alive under its own identity', () => {
  expect(ownIdentity()).toEqual(identityOf(process.pid) as never);
  expect(isAlive(ownIdentity())).toBeTrue();
});

test('another start time, another boot or another number is not this process', () => {
  const own = ownIdentity();
  expect(isAlive({ ...own, started_at: `${own.started_at}1` })).toBeFalse();
  expect(isAlive({ ...own, boot_id: '00000000-0000-0000-0000-000000000000' })).toBeFalse();
  expect(isAlive({ ...own, pid: 2 ** 40 })).toBeFalse();
});

test('a process that ended is dead at once, although nobody asked for it yet', async () => {
  await using fixture = await startFixture('zombie-parent');
  const pid = Number(fixture.ready);
  const row = await eventually('the child has ended', () => {
    const found = readProcess(pid);
    return found?.zombie === true ? found : null;
  });
  expect(identityOf(pid)).toBeNull();
  expect(isAlive({ ...fixture.child.identity, pid, started_at: row.started_at })).toBeFalse();
  expect(isAlive(fixture.child.identity)).toBeTrue();
  expect(groupMembers(fixture.child.identity.pid)).toEqual([fixture.child.identity]);
});

test('a detached child leads a group and a session of its own', async () => {
  await using fixture = await startFixture('fork-child');
  const { pid } = fixture.child.identity;
  expect(readProcess(pid)).toMatchObject({ pgid: pid, sid: pid, ppid: process.pid });
  expect(groupMembers(pid)).toHaveLength(2);
});

test('a child that is not detached stays in our session', async () => {
  await using fixture = await startFixture('forever', { detached: false });
  expect(readProcess(fixture.child.identity.pid)?.sid).toBe(readProcess(process.pid)?.sid as number);
});

test.each([0, 1, 2, 77, 126, 127, 128, 130, 255])('exit code %i arrives as it is', async (code) => {
  const child = spawn(['sh', '-c', `exit ${code}`]);
  expect(await child.exited).toEqual({ exit_code: code, signal: null });
  expect(isAlive(child.identity)).toBeFalse();
});

test.each(['TERM', 'KILL', 'INT', 'SEGV', 'HUP', 'USR1', 'PIPE'])(
  'death by SIG%s arrives as a signal',
  async (name) => {
    const child = spawn([fixturePath('die-by'), name]);
    expect(await child.exited).toEqual({ exit_code: null, signal: `SIG${name}` });
  },
);

test.if(onLinux)('death by a signal without a name of its own is still a signal', async () => {
  expect(await spawn([fixturePath('die-by'), '40']).exited).toEqual({ exit_code: null, signal: 'SIG40' });
});

test('every argument arrives byte for byte, without a shell', async () => {
  using directory = makeTempDir();
  const output = join(directory.path, 'out');
  const argv = ['', ' ', 'a\nb', '-x', '--', '--help', '$(id)', '*', "it's", '"q"', '\\', 'ü 漢 🙂', '=', 'a=b'];
  const child = spawn([fixturePath('show-argv'), ...argv], { stdout: { file: output } });
  expect(await child.exited).toEqual({ exit_code: 0, signal: null });
  expect(readFileSync(output, 'utf8').split('\0')).toEqual([...argv, '']);
});

test('the environment is exactly what was given', async () => {
  using directory = makeTempDir();
  const output = join(directory.path, 'out');
  const env = { PATH, ONLY: 'this', EMPTY: '' };
  await spawn(['env'], { env, stdout: { file: output } }).exited;
  expect(readFileSync(output, 'utf8').trim().split('\n').sort()).toEqual(['EMPTY=', 'ONLY=this', `PATH=${PATH}`]);
});

test('a program is looked up in the PATH of the child', async () => {
  using directory = makeTempDir();
  writeFileSync(join(directory.path, 'only-here'), '#!/bin/sh\nexit 9\n');
  chmodSync(join(directory.path, 'only-here'), 0o755);
  expect(await spawn(['only-here'], { env: { PATH: directory.path } }).exited).toEqual({ exit_code: 9, signal: null });
});

test('output is appended to files that are 0600, both streams into one where asked', async () => {
  using directory = makeTempDir();
  const output = join(directory.path, 'out');
  writeFileSync(output, 'before\n');
  chmodSync(output, 0o644);
  const stdio = { stdout: { file: output }, stderr: { file: output } };
  await spawn(['sh', '-c', 'echo one; echo two >&2; echo three'], stdio).exited;
  expect(readFileSync(output, 'utf8')).toBe('before\none\ntwo\nthree\n');
  expect(statSync(output).mode & 0o777).toBe(0o600);
});

test('a child starts in its directory and inherits no open file of ours', async () => {
  using directory = makeTempDir();
  const output = join(directory.path, 'out');
  const secret = openSync(join(directory.path, 'secret'), 'w');
  await spawn(['sh', '-c', 'pwd; ls -l /dev/fd/'], { cwd: directory.path, stdout: { file: output } }).exited;
  closeSync(secret);
  expect(readFileSync(output, 'utf8').split('\n')[0]).toBe(directory.path);
  expect(readFileSync(output, 'utf8')).not.toContain('secret');
});

test('a program that is not there, is no program, or names no interpreter is a typed failure', () => {
  using directory = makeTempDir();
  const plain = join(directory.path, 'plain');
  writeFileSync(plain, 'text');
  const headless = join(directory.path, 'headless');
  writeFileSync(headless, 'text');
  chmodSync(headless, 0o755);
  const orphan = join(directory.path, 'orphan');
  writeFileSync(orphan, '#!/nowhere/at/all\n');
  chmodSync(orphan, 0o755);
  expect(spawnFailure(['no-such-program-here'])).toMatchObject({
    code: 'command_not_found',
    fields: { errno: 'ENOENT' },
  });
  expect(spawnFailure(['/no/such/program']).code).toBe('command_not_found');
  expect(spawnFailure([orphan]).code).toBe('command_not_found');
  expect(spawnFailure([plain])).toMatchObject({
    code: 'command_not_executable',
    fields: { command: plain, errno: 'EACCES' },
  });
  expect(spawnFailure([directory.path]).code).toBe('command_not_executable');
  expect(spawnFailure([headless])).toMatchObject({ code: 'command_not_executable', fields: { errno: 'ENOEXEC' } });
  expect(spawnFailure(['true'], { cwd: join(directory.path, 'gone') })).toMatchObject({ fields: { errno: 'ENOTDIR' } });
  expect(spawnFailure(['true', 'a\0b']).code).toBe('command_not_executable');
});

test('an output file that cannot be made is a failure and starts nothing', () => {
  using directory = makeTempDir();
  const file = join(directory.path, 'missing', 'out');
  expect(spawnFailure(['true'], { stdout: { file } })).toMatchObject({
    code: 'state_unwritable',
    fields: { path: file },
  });
});

test.if(onLinux)('the mark finds a process in a session of its own, and only that one', async () => {
  await using one = await startFixture('setsid-grandchild');
  await using other = await startFixture('forever');
  const found = findMarked(one.mark.name, one.mark.value);
  expect(found).toContainEqual(one.child.identity);
  expect(found.length).toBeGreaterThanOrEqual(2);
  expect(findMarked(other.mark.name, other.mark.value)).toEqual([other.child.identity]);
  expect(findMarked(one.mark.name, one.mark.value.slice(0, -1))).toEqual([]);
});

function spawn(argv: string[], options: Partial<SpawnOptions> = {}) {
  const quiet = { stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' } as const;
  return spawnChild({ argv, cwd: '/', env: { PATH }, ...quiet, ...options });
}

function spawnFailure(argv: string[], options: Partial<SpawnOptions> = {}): Failure {
  try {
    spawn(argv, options);
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new Error(`${argv.join(' ')} was started`);
}

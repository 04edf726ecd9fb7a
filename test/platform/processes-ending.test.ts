import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { readTextIfPresent } from '../../src/platform/durable-files.ts';
import { readProcess, readProcessEnvironment, readProcessTable } from '../../src/platform/process-table.ts';
import {
  endProcessTree,
  findMarked,
  groupMembers,
  identityOf,
  isAlive,
  ownIdentity,
  type ProcessIdentity,
  signalGroup,
} from '../../src/platform/processes.ts';
import { newId } from '../../src/platform/random.ts';
import { type Fixture, startFixture } from '../fixtures/processes/start-fixture.ts';
import { eventually } from '../support/eventually.ts';

const onLinux = process.platform === 'linux';
/** Longer than any test waits: an end that comes earlier came by the signal and not by SIGKILL. */
const LONG_GRACE_MS = 60_000;

test('a signal reaches the whole group of a leader', async () => {
  await using fixture = await startFixture('fork-child');
  expect(signalGroup(fixture.child.identity, 'SIGTERM')).toBeTrue();
  expect(await fixture.child.exited).toEqual({ exit_code: null, signal: 'SIGTERM' });
  await eventually('the group is empty', () => groupMembers(fixture.child.identity.pid).length === 0);
});

test('a signal reaches the members that are left of a group whose leader ended', async () => {
  await using fixture = await startFixture('leave-child');
  await fixture.child.exited;
  expect(groupMembers(fixture.child.identity.pid)).toHaveLength(1);
  expect(signalGroup(fixture.child.identity, 'SIGTERM')).toBeTrue();
  await eventually('the group is empty', () => groupMembers(fixture.child.identity.pid).length === 0);
});

test('nobody is signalled under an identity that does not match', async () => {
  await using fixture = await startFixture('fork-child');
  const { identity } = fixture.child;
  expect(signalGroup({ ...identity, started_at: `${identity.started_at}0` }, 'SIGKILL')).toBeFalse();
  expect(signalGroup({ ...identity, started_at: '1' }, 'SIGKILL')).toBeFalse();
  expect(signalGroup({ ...identity, boot_id: 'another' }, 'SIGKILL')).toBeFalse();
  expect(signalGroup({ ...identity, pid: 2 ** 40 }, 'SIGKILL')).toBeFalse();
  expect(groupMembers(identity.pid)).toHaveLength(2);
});

test('this process never signals itself or what it descends from', async () => {
  const parent = identityOf(process.ppid) as ProcessIdentity;
  expect(signalGroup(ownIdentity(), 'SIGKILL')).toBeFalse();
  signalGroup(parent, 'SIGCONT');
  const result = await endProcessTree({ groups: [ownIdentity()], graceMs: 0 });
  expect(result.ended).toBe(0);
  expect(isAlive(parent)).toBeTrue();
});

test('a tree that is gone ends at once', async () => {
  await using fixture = await startFixture('forever');
  signalGroup(fixture.child.identity, 'SIGKILL');
  await fixture.child.exited;
  expect(await end(fixture, LONG_GRACE_MS)).toEqual({ survivors: [], ended: 0 });
});

test('an obedient tree ends by the first signal, well before the grace is over', async () => {
  await using fixture = await startFixture('fork-child');
  expect(await end(fixture, LONG_GRACE_MS)).toEqual({ survivors: [], ended: 2 });
  expect(await fixture.child.exited).toEqual({ exit_code: null, signal: 'SIGTERM' });
});

test.each(['SIGINT', 'SIGQUIT', 'SIGUSR1'] as const)(
  'the first signal can be %s and comes exactly once',
  async (signal) => {
    await using fixture = await startFixture('say-signal');
    const result = await endProcessTree({ ...treeOf(fixture), graceMs: 300, firstSignal: signal });
    expect(result.survivors).toEqual([]);
    expect(readTextIfPresent(fixture.readyFile)).toBe(`${signal}\n`);
  },
);

test('what ignores the first signal is killed when the grace is over', async () => {
  await using fixture = await startFixture('ignore-term');
  expect(await end(fixture, 50)).toEqual({ survivors: [], ended: 1 });
  expect(await fixture.child.exited).toEqual({ exit_code: null, signal: 'SIGKILL' });
});

test('a stopped process is continued, so that the first signal can end it', async () => {
  await using fixture = await startFixture('fork-child');
  signalGroup(fixture.child.identity, 'SIGSTOP');
  await eventually('it is stopped', () => statesOf(fixture.child.identity.pid) === 'TT');
  expect((await end(fixture, LONG_GRACE_MS)).survivors).toEqual([]);
  expect(await fixture.child.exited).toEqual({ exit_code: null, signal: 'SIGTERM' });
});

test.if(onLinux)('a process that ended is no survivor, although its parent never asks for it', async () => {
  await using fixture = await startFixture('negligent-parent');
  const pid = Number(fixture.ready);
  await eventually('the child leads its session', () => readProcess(pid)?.sid === pid);
  const child = identityOf(pid) as ProcessIdentity;
  expect(await endProcessTree({ groups: [child], graceMs: LONG_GRACE_MS })).toEqual({ survivors: [], ended: 1 });
  expect(readProcess(pid)?.zombie).toBeTrue();
});

test('a process that is stopped after the first signal is continued all the same', async () => {
  await using fixture = await startFixture('say-signal');
  const ending = endProcessTree({ ...treeOf(fixture), graceMs: 1_000, firstSignal: 'SIGINT' });
  signalGroup(fixture.child.identity, 'SIGSTOP');
  await eventually('it went on and said so', () => readTextIfPresent(fixture.readyFile) === 'SIGINT\n');
  expect((await ending).survivors).toEqual([]);
});

test('a stop signal to a group stops it', async () => {
  await using fixture = await startFixture('fork-child');
  for (let round = 0; round < 2; round += 1) {
    expect(signalGroup(fixture.child.identity, 'SIGSTOP')).toBeTrue();
    await eventually('both are stopped', () => statesOf(fixture.child.identity.pid) === 'TT');
  }
});

test('members of a group whose leader ended are found without a mark', async () => {
  await using fixture = await startFixture('leave-child');
  await fixture.child.exited;
  const result = await endProcessTree({ groups: [fixture.child.identity], graceMs: LONG_GRACE_MS });
  expect(result).toEqual({ survivors: [], ended: 1 });
});

test.if(onLinux)('a deaf grandchild in a session of its own is found by the mark and killed', async () => {
  await using fixture = await startFixture('setsid-grandchild');
  const before = findMarked(fixture.mark.name, fixture.mark.value);
  expect((await end(fixture, 50)).survivors).toEqual([]);
  expect(before.filter(isAlive)).toEqual([]);
});

test.if(onLinux)('the mark alone is enough when nobody knows the groups', async () => {
  await using fixture = await startFixture('setsid-grandchild');
  const result = await endProcessTree({ groups: [], mark: fixture.mark, graceMs: 50 });
  expect(result.survivors).toEqual([]);
  expect(result.ended).toBeGreaterThanOrEqual(2);
  expect(isAlive(fixture.child.identity)).toBeFalse();
});

test.if(onLinux)('a grandchild without session, group or environment of ours is found by its parent', async () => {
  await using fixture = await startFixture('bare-grandchild');
  const bare = childrenOf(fixture.child.identity.pid).find(({ sid }) => sid !== fixture.child.identity.pid);
  expect(bare).toBeDefined();
  expect((await end(fixture, 50)).survivors).toEqual([]);
  expect(readProcess(bare?.pid ?? 0)?.zombie ?? true).toBeTrue();
});

test.if(onLinux)('a background service of ours that the tree started outlives it', async () => {
  await using fixture = await startFixture('daemon-child');
  const daemon = childrenOf(fixture.child.identity.pid).find(
    ({ pid }) => readProcessEnvironment(pid)?.get('TEST_DAEMON') === fixture.readyFile,
  );
  const identity = identityOf(daemon?.pid ?? 0) as ProcessIdentity;
  expect((await end(fixture, 50)).survivors).toEqual([]);
  expect(isAlive(identity)).toBeTrue();
  await endProcessTree({ groups: [identity], graceMs: 0 });
  expect(isAlive(identity)).toBeFalse();
});

test.if(onLinux)('a tree that starts itself anew all the time does not get away', async () => {
  await using fixture = await startFixture('restless-forker');
  expect((await end(fixture, 100)).survivors).toEqual([]);
  expect(findMarked(fixture.mark.name, fixture.mark.value)).toEqual([]);
});

test.if(onLinux)('neighbours with another mark are left alone', async () => {
  await using mine = await startFixture('setsid-grandchild');
  await using other = await startFixture('setsid-grandchild');
  const neighbours = findMarked(other.mark.name, other.mark.value);
  await end(mine, 0);
  expect(neighbours.length).toBeGreaterThanOrEqual(2);
  expect(neighbours.filter(isAlive)).toEqual(neighbours);
});

test.if(onLinux)('this process is reported as a survivor when it is part of the tree itself', async () => {
  const mark = { name: 'BOTBUDDY_REAP_MARK', value: newId() };
  const script = `import { endProcessTree, ownIdentity } from ${JSON.stringify(modulePath('processes.ts'))};
    const result = await endProcessTree({ groups: [ownIdentity()], mark: ${JSON.stringify(mark)}, graceMs: 0 });
    console.log(JSON.stringify([result.survivors.map(({ pid }) => pid), process.pid, result.ended]));`;
  const env = { PATH: process.env['PATH'] ?? '', [mark.name]: mark.value };
  const child = Bun.spawn([process.execPath, '-e', script], { env, stdout: 'pipe', detached: true } as never);
  const [survivors, pid, ended] = JSON.parse(await new Response(child.stdout as ReadableStream).text()) as [
    number[],
    number,
    number,
  ];
  expect(survivors).toEqual([pid]);
  expect(ended).toBe(0);
});

function end(fixture: Fixture, graceMs: number) {
  return endProcessTree({ ...treeOf(fixture), graceMs });
}

function treeOf(fixture: Fixture) {
  return { groups: [fixture.child.identity], mark: fixture.mark };
}

/** The states of a group's members, one letter each. */
function statesOf(pgid: number): string {
  return readProcessTable()
    .filter((row) => row.pgid === pgid)
    .map(({ state }) => state)
    .join('');
}

function childrenOf(pid: number) {
  return readProcessTable().filter((row) => row.ppid === pid && !row.zombie);
}

function modulePath(name: string): string {
  return join(import.meta.dirname, '../../src/platform', name);
}

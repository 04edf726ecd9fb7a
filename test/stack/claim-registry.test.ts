import { describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Failure } from '../../src/platform/failure.ts';
import { acquireLock } from '../../src/platform/kernel-lock.ts';
import { bindClaims, markIdle } from '../../src/stack/claim-binding.ts';
import { readInventory } from '../../src/stack/claim-files.ts';
import { abandonClaims, type ClaimRequest, claimBlocks, claimsOfSlot } from '../../src/stack/claim-registry.ts';
import { slotDirOf, slotOf, slotPaths } from '../../src/stack/slot.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { claimSetting, clockAt, DEAD_OWNER, ENDED, SIZE } from './_claim-setting.ts';

const otherSlot = (name: string) =>
  slotOf({ tenant: 'local', gitCommonDir: `/${name}/.git`, worktreeRoot: `/${name}` });
const failureOf = (promise: Promise<unknown>): Promise<Failure> =>
  promise.then(
    () => Promise.reject(new Error('nothing was refused')),
    (error) => (error instanceof Failure ? error : Promise.reject(error)),
  );
const YEAR = 365 * 24 * 3_600_000;

describe('a claim', () => {
  test('is one private file a block, with its owner and an end', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request({ clock: clockAt(1_000) }));
    expect(hold).toMatchObject({ wanted: setting.range.first, got: setting.range.first, offered_idle: false });
    const file = join(setting.home, 'ports', `${setting.range.first}.json`);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({
      schema: 1,
      stack_dir: setting.root,
      lease_id: null,
      retain_until: 601_000,
      owner_pid: process.pid,
    });
  });

  test('takes the next block and says so when the wanted one is claimed', async () => {
    using setting = claimSetting();
    await claimBlocks(setting.request());
    const second = await claimBlocks(setting.request({ slot: otherSlot('b'), invocationToken: 'b', stackDir: '/b' }));
    expect(second).toMatchObject({ wanted: setting.range.first, got: setting.range.first + SIZE });
  });

  test('wants the same block for a slot each time', async () => {
    using setting = claimSetting();
    const { preferred: _, ...request } = setting.request();
    const first = await claimBlocks(request);
    await abandonClaims({ home: setting.home, token: 'token', answer: 'refused' });
    const again = await claimBlocks({ ...request, invocationToken: 'again' });
    expect(again.got).toBe(first.got);
  });

  test.each(['127.0.0.1', '0.0.0.0', '::1', '::'])(
    'leaves a block on which somebody listens at %s',
    async (address) => {
      using setting = claimSetting();
      const server = createServer();
      await new Promise<void>((done) => server.listen(setting.range.first + 1, address, done));
      try {
        expect((await claimBlocks(setting.request())).got).toBe(setting.range.first + SIZE);
      } finally {
        server.close();
      }
    },
  );

  test('spans as many blocks as its ports need, the last port of each left for the guard', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request({ portsNeeded: SIZE }));
    expect(hold.blocks.map(({ port_base }) => port_base)).toEqual([setting.range.first, setting.range.first + SIZE]);
  });

  test('takes a block even for a stack without ports', async () => {
    using setting = claimSetting();
    expect((await claimBlocks(setting.request({ portsNeeded: 0 }))).blocks).toHaveLength(1);
  });

  test('of the same invocation is found again', async () => {
    using setting = claimSetting();
    const first = await claimBlocks(setting.request());
    expect((await claimBlocks(setting.request())).blocks).toEqual(first.blocks);
    expect(readInventory(setting.home).claims).toHaveLength(1);
  });

  test('leaves the blocks that the coordinator refused', async () => {
    using setting = claimSetting();
    const first = await claimBlocks(setting.request());
    await abandonClaims({ home: setting.home, token: 'token', answer: 'refused' });
    expect((await claimBlocks(setting.request({ avoid: first.blocks }))).got).toBe(setting.range.first + SIZE);
  });

  test('waits for no coordinator under the allocation lock', async () => {
    using setting = claimSetting();
    await claimBlocks(setting.request({ owner: DEAD_OWNER }));
    const lockedMeanwhile: boolean[] = [];
    await claimBlocks(
      setting.request({
        slot: otherSlot('b'),
        stackDir: '/b',
        invocationToken: 'b',
        clock: clockAt(Date.now() + YEAR),
        leaseViewOf: async () => {
          using lock = await acquireLock(join(setting.home, 'ports', 'allocation.lock'), { timeoutMs: 0 });
          lockedMeanwhile.push(lock === null);
          return ENDED;
        },
      }),
    );
    expect(lockedMeanwhile).toEqual([false]);
  });
});

describe('a full range', () => {
  test('is refused with the range and who holds it, and nothing half-claimed stays', async () => {
    using setting = claimSetting(3);
    await claimBlocks(setting.request({ portsNeeded: 2 * (SIZE - 1) }));
    const failure = await failureOf(
      claimBlocks(setting.request({ slot: otherSlot('b'), stackDir: '/b', invocationToken: 'b', portsNeeded: SIZE })),
    );
    expect(failure.code).toBe('port_range_full');
    expect(failure.fields).toMatchObject({ ...setting.range, size: SIZE });
    expect(failure.fields['holders']).toHaveLength(2);
    expect(failure.message).toContain(setting.root);
    expect(readInventory(setting.home).claims).toHaveLength(2);
  });

  test('still takes over what nobody can want any more', async () => {
    using setting = claimSetting(2);
    const stale = setting.request({ owner: DEAD_OWNER, portsNeeded: SIZE });
    await claimBlocks(stale);
    const later = clockAt(Date.now() + YEAR);
    const hold = await claimBlocks(
      setting.request({
        slot: otherSlot('b'),
        stackDir: '/b',
        invocationToken: 'b',
        clock: later,
        preferred: setting.range.last,
      }),
    );
    expect(hold.got).toBe(setting.range.last);
  });
});

describe('a claim left by a dead owner', () => {
  const later = clockAt(Date.now() + YEAR);
  test.each([
    ['is taken over when its time is over and no lease lives', {}, 0],
    ['stays before its time', { clock: clockAt(Date.now()) }, 1],
    ['stays when the coordinator does not answer', { leaseViewOf: async () => 'no_answer' as const }, 1],
    ['stays while a lease lives', { leaseViewOf: async () => ({ live: true, lease_id: 'L', state: 'active' }) }, 1],
  ] as [string, Partial<ClaimRequest>, number][])('%s', async (_rule, change, blocksAway) => {
    using setting = claimSetting();
    await claimBlocks(setting.request({ owner: DEAD_OWNER }));
    const asked = setting.request({
      slot: otherSlot('b'),
      stackDir: '/b',
      invocationToken: 'b',
      clock: later,
      ...change,
    });
    expect((await claimBlocks(asked)).got).toBe(setting.range.first + blocksAway * SIZE);
  });

  test('stays while the owner lives, a year later too', async () => {
    using setting = claimSetting();
    await claimBlocks(setting.request());
    const asked = setting.request({ slot: otherSlot('b'), stackDir: '/b', invocationToken: 'b', clock: later });
    expect((await claimBlocks(asked)).got).toBe(setting.range.first + SIZE);
  });
});

describe('an idle claim', () => {
  test('of the slot is offered as it is, and its file does not change', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request());
    await bindClaims({ home: setting.home, hold, leaseId: 'L', idleTtlMs: 1 });
    await markIdle({ home: setting.home, leaseId: 'L', idleTtlMs: 1 });
    const file = join(setting.home, 'ports', `${hold.got}.json`);
    const before = readFileSync(file, 'utf8');
    const offered = await claimBlocks(setting.request({ invocationToken: 'new' }));
    expect(offered).toMatchObject({ offered_idle: true, got: hold.got });
    expect(readFileSync(file, 'utf8')).toBe(before);
    expect(claimsOfSlot(setting.home, setting.request().slot.slot)).toHaveLength(1);
  });

  test('with too few ports for the stack of today is left alone', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request());
    await bindClaims({ home: setting.home, hold, leaseId: 'L', idleTtlMs: 1 });
    await markIdle({ home: setting.home, leaseId: 'L', idleTtlMs: 1 });
    const fresh = await claimBlocks(setting.request({ invocationToken: 'new', portsNeeded: SIZE }));
    expect(fresh.offered_idle).toBe(false);
    expect(fresh.blocks.map(({ port_base }) => port_base)).not.toContain(hold.got);
  });
});

describe('a registry file that nobody can read', () => {
  const write = (home: string, name: string, text: string) => {
    mkdirSync(join(home, 'ports'), { recursive: true, mode: 0o700 });
    writeFileSync(join(home, 'ports', name), text);
  };

  test.each([
    ['no JSON', 'not json', 'not_a_claim'],
    ['empty', '', 'not_a_claim'],
    ['another schema', '{"schema":2}', 'not_a_claim'],
  ])('(%s) is allocated around, named and kept', async (_what, text, why) => {
    using setting = claimSetting(12);
    const name = `${setting.range.first}.json`;
    write(setting.home, name, text);
    const hold = await claimBlocks(setting.request());
    expect(hold.got).toBeGreaterThan(setting.range.first);
    expect(readInventory(setting.home).unknown).toMatchObject([{ file: join(setting.home, 'ports', name), why }]);
    expect(readFileSync(join(setting.home, 'ports', name), 'utf8')).toBe(text);
  });

  test.each([
    ['a wrong name', 'mine.json'],
    ['the name of another base', '65000.json'],
    ['a leading zero', '020000.json'],
  ])('(%s) covers what it says inside', async (_what, name) => {
    using setting = claimSetting(12);
    await claimBlocks(setting.request());
    const inside = readFileSync(join(setting.home, 'ports', `${setting.range.first}.json`), 'utf8');
    await abandonClaims({ home: setting.home, token: 'token', answer: 'refused' });
    write(setting.home, name, inside);
    expect((await claimBlocks(setting.request())).got).toBe(setting.range.first + SIZE);
    expect(existsSync(join(setting.home, 'ports', name))).toBe(true);
  });

  test('is no reason to read a file that is being written', async () => {
    using setting = claimSetting();
    write(setting.home, `.${setting.range.first}.json.abcd.tmp`, '{');
    expect(readInventory(setting.home)).toEqual({ claims: [], unknown: [] });
  });
});

describe('a directory that is bound elsewhere', () => {
  test('is refused before anything is claimed, with the lease that holds it', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request());
    await bindClaims({ home: setting.home, hold, leaseId: 'L', idleTtlMs: 1 });
    const failure = await failureOf(claimBlocks(setting.request({ slot: otherSlot('b'), invocationToken: 'b' })));
    expect(failure.code).toBe('STACK_CONTEXT_ALREADY_BOUND');
    expect(failure.fields).toMatchObject({ lease_id: 'L' });
    expect(readInventory(setting.home).claims).toHaveLength(1);
  });

  test('is refused when its marker directory is a link to somewhere else', async () => {
    using setting = claimSetting();
    using elsewhere = makeTempDir();
    symlinkSync(elsewhere.path, join(setting.root, '.botbuddy'));
    expect((await failureOf(claimBlocks(setting.request()))).code).toBe('STACK_CONTEXT_BIND_FAILED');
    expect(readdirSync(elsewhere.path)).toEqual([]);
  });
});

test('a busy project lock of the slot does not disturb another slot', async () => {
  using setting = claimSetting();
  const { slot } = setting.request();
  using _busy = await acquireLock(slotPaths(slotDirOf(setting.home, slot.slot_dir_name)).lock, { timeoutMs: 0 });
  const hold = await claimBlocks(setting.request({ slot: otherSlot('b'), stackDir: '/b' }));
  expect(hold.got).toBe(setting.range.first);
});

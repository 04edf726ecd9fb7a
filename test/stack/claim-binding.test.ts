import { describe, expect, test } from 'bun:test';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../src/platform/failure.ts';
import { ownIdentity } from '../../src/platform/processes.ts';
import { bindClaims, confirmClaims, markIdle, recordChild, renewClaims } from '../../src/stack/claim-binding.ts';
import { readInventory, writeClaim } from '../../src/stack/claim-files.ts';
import { claimBlocks, claimsOfLease } from '../../src/stack/claim-registry.ts';
import { type ClaimSetting, claimSetting, clockAt, DEAD_OWNER, SIZE } from './_claim-setting.ts';

const MINUTE = 60_000;
const markerOf = (setting: ClaimSetting) =>
  JSON.parse(readFileSync(join(setting.root, '.botbuddy', 'stack.json'), 'utf8'));
const refusalOf = async (promise: Promise<unknown>) => {
  const failure = await promise.then(
    () => null,
    (error: unknown) => error,
  );
  if (!(failure instanceof Failure)) throw new Error('nothing was refused');
  return { code: failure.code, reason: failure.fields['reason'] };
};

async function boundClaim(setting: ClaimSetting, leaseId = 'L') {
  const hold = await claimBlocks(setting.request());
  await bindClaims({ home: setting.home, hold, leaseId, idleTtlMs: MINUTE });
  return hold;
}

describe('the client binds', () => {
  test('every block of the invocation and the marker, which git ignores', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request({ portsNeeded: SIZE }));
    const bound = await bindClaims({
      home: setting.home,
      hold,
      leaseId: 'L',
      idleTtlMs: 30 * MINUTE,
      clock: clockAt(0),
    });
    expect(bound).toHaveLength(2);
    for (const claim of claimsOfLease(setting.home, 'L')) expect(claim.retain_until).toBe(35 * MINUTE);
    expect(markerOf(setting)).toMatchObject({ lease_id: 'L', invocation_token: 'token', stack_dir: setting.root });
    expect(readFileSync(join(setting.root, '.botbuddy', '.gitignore'), 'utf8')).toBe('*\n');
  });

  test('the same lease twice without harm', async () => {
    using setting = claimSetting();
    const hold = await boundClaim(setting);
    await bindClaims({ home: setting.home, hold, leaseId: 'L', idleTtlMs: MINUTE });
    expect(claimsOfLease(setting.home, 'L')).toHaveLength(1);
  });

  test('no block of several when one was replaced, and says so', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request({ portsNeeded: SIZE }));
    const second = hold.claims[1];
    if (second === undefined) throw new Error('no second block');
    writeClaim(setting.home, { ...second, invocation_token: 'other' });
    const refusal = await refusalOf(bindClaims({ home: setting.home, hold, leaseId: 'L', idleTtlMs: MINUTE }));
    expect(refusal).toEqual({ code: 'STACK_CONTEXT_BIND_FAILED', reason: 'claim_replaced' });
    expect(claimsOfLease(setting.home, 'L')).toEqual([]);
    expect(readInventory(setting.home).claims).toHaveLength(2);
  });

  test('not over a file that nobody can read', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request());
    const file = join(setting.home, 'ports', `${hold.got}.json`);
    writeFileSync(file, 'torn');
    const refusal = await refusalOf(bindClaims({ home: setting.home, hold, leaseId: 'L', idleTtlMs: MINUTE }));
    expect(refusal.reason).toBe('claim_unreadable');
    expect(readFileSync(file, 'utf8')).toBe('torn');
  });

  test('a claim that vanished is made again', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request());
    rmSync(join(setting.home, 'ports', `${hold.got}.json`));
    await bindClaims({ home: setting.home, hold, leaseId: 'L', idleTtlMs: MINUTE });
    expect(claimsOfLease(setting.home, 'L')).toMatchObject([{ port_base: hold.got, owner_pid: process.pid }]);
  });

  test('a claim that vanished is not made again where another one overlaps by now', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request());
    const claim = hold.claims[0];
    if (claim === undefined) throw new Error('no block');
    rmSync(join(setting.home, 'ports', `${hold.got}.json`));
    writeClaim(setting.home, { ...claim, port_base: hold.got + 1, invocation_token: 'other', slot: 'other' });
    const refusal = await refusalOf(bindClaims({ home: setting.home, hold, leaseId: 'L', idleTtlMs: MINUTE }));
    expect(refusal.reason).toBe('claim_replaced');
  });

  test('an offered idle claim by moving it to its own token and owner', async () => {
    using setting = claimSetting();
    await boundClaim(setting);
    await markIdle({ home: setting.home, leaseId: 'L', idleTtlMs: MINUTE });
    const offered = await claimBlocks(setting.request({ invocationToken: 'new' }));
    await bindClaims({ home: setting.home, hold: offered, leaseId: 'L', idleTtlMs: MINUTE });
    expect(claimsOfLease(setting.home, 'L')).toMatchObject([{ invocation_token: 'new', idle: null }]);
    expect(markerOf(setting)).toMatchObject({ invocation_token: 'new' });
  });

  test('a new lease onto the idle claim whose own lease ended meanwhile', async () => {
    using setting = claimSetting();
    await boundClaim(setting, 'old');
    await markIdle({ home: setting.home, leaseId: 'old', idleTtlMs: MINUTE });
    const offered = await claimBlocks(setting.request({ invocationToken: 'new' }));
    await bindClaims({ home: setting.home, hold: offered, leaseId: 'L', idleTtlMs: MINUTE });
    expect(claimsOfLease(setting.home, 'old')).toEqual([]);
    expect(claimsOfLease(setting.home, 'L')).toHaveLength(1);
  });

  test('not an offered claim that another invocation took first', async () => {
    using setting = claimSetting();
    await boundClaim(setting);
    await markIdle({ home: setting.home, leaseId: 'L', idleTtlMs: MINUTE });
    const [mine, other] = await Promise.all(
      ['mine', 'other'].map((invocationToken) => claimBlocks(setting.request({ invocationToken }))),
    );
    if (mine === undefined || other === undefined) throw new Error('no offer');
    await bindClaims({ home: setting.home, hold: other, leaseId: 'L', idleTtlMs: MINUTE });
    const refusal = await refusalOf(bindClaims({ home: setting.home, hold: mine, leaseId: 'L', idleTtlMs: MINUTE }));
    expect(refusal).toEqual({ code: 'STACK_CONTEXT_BIND_FAILED', reason: 'claim_replaced' });
    expect(claimsOfLease(setting.home, 'L')).toMatchObject([{ invocation_token: 'other' }]);
  });
});

describe('the Helper', () => {
  const confirm = (setting: ClaimSetting, token = 'token', change = {}) => {
    const { slot } = setting.request();
    return confirmClaims({
      home: setting.home,
      slotDirName: slot.slot_dir_name,
      asker: {
        invocation_token: token,
        slot: slot.slot,
        project_id: slot.project,
        host: 'host',
        stack_dir: setting.root,
      },
      leaseId: 'L',
      blocks: [{ port_base: setting.range.first, size: SIZE }],
      idleTtlMs: MINUTE,
      ...change,
    });
  };

  test('binds what the client claimed and had no time to bind, and leaves its owner', async () => {
    using setting = claimSetting();
    await claimBlocks(setting.request({ owner: DEAD_OWNER }));
    await confirm(setting);
    expect(claimsOfLease(setting.home, 'L')).toMatchObject([{ owner_started_at: DEAD_OWNER.started_at }]);
    expect(markerOf(setting)).toMatchObject({ lease_id: 'L' });
  });

  test('moves the idle claim of the lease that it re-adopts, and the client binds after it', async () => {
    using setting = claimSetting();
    await boundClaim(setting);
    await markIdle({ home: setting.home, leaseId: 'L', idleTtlMs: MINUTE });
    const offered = await claimBlocks(setting.request({ invocationToken: 'new' }));
    await confirm(setting, 'new');
    expect(claimsOfLease(setting.home, 'L')).toMatchObject([{ invocation_token: 'new', idle: null }]);
    await bindClaims({ home: setting.home, hold: offered, leaseId: 'L', idleTtlMs: MINUTE });
    expect(claimsOfLease(setting.home, 'L')).toMatchObject([{ owner_pid: ownIdentity().pid }]);
  });

  test('provisions nothing without a claim', async () => {
    using setting = claimSetting();
    expect(await refusalOf(confirm(setting))).toEqual({ code: 'STACK_CONTEXT_BIND_FAILED', reason: 'claim_missing' });
  });

  test('provisions nothing on the claim of another invocation', async () => {
    using setting = claimSetting();
    await claimBlocks(setting.request({ invocationToken: 'other' }));
    expect((await refusalOf(confirm(setting))).reason).toBe('claim_replaced');
  });

  test('provisions nothing on a block of another size', async () => {
    using setting = claimSetting();
    await claimBlocks(setting.request());
    const blocks = [{ port_base: setting.range.first, size: SIZE + 1 }];
    expect((await refusalOf(confirm(setting, 'token', { blocks }))).reason).toBe('claim_replaced');
  });

  test('needs no stack directory: it may be gone', async () => {
    using setting = claimSetting();
    await claimBlocks(setting.request());
    rmSync(setting.root, { recursive: true });
    expect(await confirm(setting)).toHaveLength(1);
  });
});

describe('while the lease lives', () => {
  test('the child is noted in every file of the invocation', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request({ portsNeeded: SIZE }));
    await bindClaims({ home: setting.home, hold, leaseId: 'L', idleTtlMs: MINUTE });
    expect(await recordChild({ home: setting.home, token: 'token', child: ownIdentity() })).toBe(2);
    for (const claim of claimsOfLease(setting.home, 'L')) expect(claim.child).toEqual(ownIdentity());
  });

  test('a child is never noted for another invocation', async () => {
    using setting = claimSetting();
    await boundClaim(setting);
    expect(await recordChild({ home: setting.home, token: 'other', child: ownIdentity() })).toBe(0);
  });

  test('a beat moves the end of the retention forward, never back', async () => {
    using setting = claimSetting();
    await boundClaim(setting);
    const later = Date.now() + 60 * MINUTE;
    expect(await renewClaims({ home: setting.home, leaseId: 'L', idleTtlMs: MINUTE, clock: clockAt(later) })).toBe(1);
    const renewed = claimsOfLease(setting.home, 'L')[0]?.retain_until;
    expect(renewed).toBe(later + 10 * MINUTE);
    await renewClaims({ home: setting.home, leaseId: 'L', idleTtlMs: MINUTE, clock: clockAt(0) });
    expect(claimsOfLease(setting.home, 'L')[0]?.retain_until).toBe(renewed);
  });

  test('a beat that moves one block of a lease leaves another that is kept longer', async () => {
    using setting = claimSetting();
    const hold = await claimBlocks(setting.request({ portsNeeded: SIZE }));
    const [first] = await bindClaims({ home: setting.home, hold, leaseId: 'L', idleTtlMs: MINUTE, clock: clockAt(0) });
    if (first === undefined) throw new Error('no block');
    writeClaim(setting.home, { ...first, retain_until: 1_000 * MINUTE });
    await renewClaims({ home: setting.home, leaseId: 'L', idleTtlMs: MINUTE, clock: clockAt(20 * MINUTE) });
    const kept = claimsOfLease(setting.home, 'L').map(({ retain_until }) => retain_until / MINUTE);
    expect(kept).toEqual([1_000, 30]);
  });

  test('an idle claim keeps its lease and has no child', async () => {
    using setting = claimSetting();
    await boundClaim(setting);
    await recordChild({ home: setting.home, token: 'token', child: ownIdentity() });
    await markIdle({ home: setting.home, leaseId: 'L', idleTtlMs: 30 * MINUTE, clock: clockAt(5) });
    const [claim] = claimsOfLease(setting.home, 'L');
    expect(claim).toMatchObject({ idle: { since_at: 5 }, child: null, retain_until: 35 * MINUTE + 5 });
  });
});

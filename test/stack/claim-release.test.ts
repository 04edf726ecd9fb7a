import { describe, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { acquireLock } from '../../src/platform/kernel-lock.ts';
import { identityOf, ownIdentity } from '../../src/platform/processes.ts';
import { bindClaims, markIdle, recordChild } from '../../src/stack/claim-binding.ts';
import { readInventory } from '../../src/stack/claim-files.ts';
import { claimBlocks } from '../../src/stack/claim-registry.ts';
import { type ReleaseRequest, releaseClaims } from '../../src/stack/claim-release.ts';
import { slotDirOf, slotPaths } from '../../src/stack/slot.ts';
import { type ClaimSetting, claimSetting, DEAD_OWNER, leaseOf, proofOf, SIZE } from './_claim-setting.ts';

async function bound(setting: ClaimSetting, change: Parameters<ClaimSetting['request']>[0] = {}) {
  const hold = await claimBlocks(setting.request(change));
  await bindClaims({ home: setting.home, hold, leaseId: 'L', idleTtlMs: 1 });
  return hold;
}

const release = (setting: ClaimSetting, change: Partial<ReleaseRequest> = {}) =>
  releaseClaims({
    home: setting.home,
    slotDirName: setting.request().slot.slot_dir_name,
    lease: leaseOf(setting),
    proof: proofOf('L'),
    otherLeaseOnSlot: false,
    caller: { kind: 'client', identity: ownIdentity(), worktreeRoot: setting.root },
    ...change,
  });

const marker = (setting: ClaimSetting) =>
  JSON.parse(readFileSync(join(setting.root, '.botbuddy', 'stack.json'), 'utf8'));
const claimsLeft = (setting: ClaimSetting) => readInventory(setting.home).claims.length;

describe('a release with a proof', () => {
  test('removes every file of the lease and marks the marker', async () => {
    using setting = claimSetting();
    await bound(setting, { portsNeeded: SIZE });
    expect(await release(setting)).toEqual({
      released: true,
      reason: null,
      cleanup_proof: 'signed_reap',
      cleanup_receipt_id: 'R',
    });
    expect(claimsLeft(setting)).toBe(0);
    expect(marker(setting).released_at).toBeNumber();
  });

  test('lets the next invocation of any slot use the directory', async () => {
    using setting = claimSetting();
    await bound(setting);
    await release(setting);
    await bound(setting, { invocationToken: 'next' });
    expect(marker(setting)).toMatchObject({ invocation_token: 'next', released_at: null });
  });

  test('is done already when no claim is left', async () => {
    using setting = claimSetting();
    expect((await release(setting)).released).toBe(true);
  });

  test('works when the stack directory was deleted', async () => {
    using setting = claimSetting();
    await bound(setting, { owner: DEAD_OWNER });
    rmSync(setting.root, { recursive: true });
    expect((await release(setting, { caller: { kind: 'helper' } })).released).toBe(true);
    expect(existsSync(setting.root)).toBe(false);
  });

  test('by the Helper works for a dead owner', async () => {
    using setting = claimSetting();
    await bound(setting, { owner: DEAD_OWNER });
    expect((await release(setting, { caller: { kind: 'helper' } })).released).toBe(true);
  });

  test('leaves the claims of every other lease', async () => {
    using setting = claimSetting();
    await bound(setting);
    const other = { ...setting.request().slot, slot: 'other' };
    await claimBlocks(setting.request({ slot: other, stackDir: '/other', invocationToken: 'other' }));
    await release(setting);
    expect(readInventory(setting.home).claims).toMatchObject([{ slot: 'other' }]);
  });
});

describe('a claim stays', () => {
  test.each([
    ['without a proof', { proof: null }, 'cleanup_unproven'],
    ['with the proof of another lease', { proof: proofOf('M') }, 'cleanup_unproven'],
    ['while another lease of the slot lives', { otherLeaseOnSlot: true }, 'another_lease_on_slot'],
    ['for the Helper while its owner lives', { caller: { kind: 'helper' } }, 'owner_alive'],
    [
      'for a command in another worktree',
      { caller: { kind: 'client', identity: ownIdentity(), worktreeRoot: '/x' } },
      'not_this_worktree',
    ],
  ] as [string, Partial<ReleaseRequest>, string][])('%s', async (_rule, change, reason) => {
    using setting = claimSetting();
    await bound(setting);
    expect(await release(setting, change)).toMatchObject({ released: false, reason, cleanup_proof: null });
    expect(claimsLeft(setting)).toBe(1);
  });

  test('when the lease of today bears another token', async () => {
    using setting = claimSetting();
    await bound(setting);
    const lease = leaseOf(setting, { claim_token: 'newer' });
    expect((await release(setting, { lease })).reason).toBe('claim_replaced');
    expect(claimsLeft(setting)).toBe(1);
  });

  test('while the child of a dead owner lives', async () => {
    using setting = claimSetting();
    await bound(setting, { owner: DEAD_OWNER });
    const child = Bun.spawn(['sleep', '60']);
    try {
      await recordChild({ home: setting.home, token: 'token', child: identityOf(child.pid) });
      expect((await release(setting, { caller: { kind: 'helper' } })).reason).toBe('cleanup_unproven');
    } finally {
      child.kill('SIGKILL');
      await child.exited;
    }
    expect((await release(setting, { caller: { kind: 'helper' } })).released).toBe(true);
  });

  test('when the marker cannot be read', async () => {
    using setting = claimSetting();
    await bound(setting);
    writeFileSync(join(setting.root, '.botbuddy', 'stack.json'), '{');
    expect((await release(setting)).reason).toBe('marker_unreadable');
    expect(claimsLeft(setting)).toBe(1);
  });

  test('when another command of the slot works on it, without waiting', async () => {
    using setting = claimSetting();
    await bound(setting);
    const { slot } = setting.request();
    using _busy = await acquireLock(slotPaths(slotDirOf(setting.home, slot.slot_dir_name)).lock, { timeoutMs: 0 });
    expect((await release(setting)).released).toBe(false);
    expect(claimsLeft(setting)).toBe(1);
  });

  test('when an unreadable file hides whether one is left', async () => {
    using setting = claimSetting();
    mkdirSync(join(setting.home, 'ports'), { recursive: true });
    writeFileSync(join(setting.home, 'ports', '20000.json'), 'torn');
    expect((await release(setting)).reason).toBe('removal_failed');
  });

  test('when the registry does not obey, and the receipt is had all the same', async () => {
    using setting = claimSetting();
    await bound(setting);
    const ports = join(setting.home, 'ports');
    renameSync(ports, `${ports}-away`);
    writeFileSync(ports, '');
    expect(await release(setting)).toMatchObject({ released: false, reason: 'removal_failed' });
    rmSync(ports);
    renameSync(`${ports}-away`, ports);
    expect(claimsLeft(setting)).toBe(1);
  });
});

test('an idle claim is released by the Helper though the command that left it still runs', async () => {
  using setting = claimSetting();
  await bound(setting);
  await markIdle({ home: setting.home, leaseId: 'L', idleTtlMs: 1 });
  expect((await release(setting, { caller: { kind: 'helper' } })).released).toBe(true);
});

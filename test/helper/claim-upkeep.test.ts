import { describe, expect, test } from 'bun:test';
import { existsSync } from 'node:fs';
import { Failure } from '../../src/platform/failure.ts';
import type { LeaseView } from '../../src/protocol/records.ts';
import { claimsOfLease } from '../../src/stack/claim-registry.ts';
import { ONE_SERVICE, realStack } from './_real-stack.ts';

/** Provisions and reaps; the coordinator takes the proof, and its answer is lost. */
async function reapedUnheard() {
  const world = await realStack(ONE_SERVICE);
  await world.work('provision_stack');
  world.coordinator.once('complete_job', () => {
    const gone = { ...world.lease, state: 'reaped', cleanup_verified: true, cleanup_proof: 'signed_reap' };
    world.coordinator.ended.set(world.lease.lease_id, {
      ...gone,
      cleanup_receipt_id: 'receipt-1',
    } as unknown as LeaseView);
    world.coordinator.leases.clear();
    world.coordinator.jobs.clear();
    throw new Failure('platform_unreachable', 'cut');
  });
  await world.reap();
  return world;
}

describe('a proof whose acceptance was never heard of', () => {
  test('is settled at the next beacon: claim, record and statement go', async () => {
    await using world = await reapedUnheard();
    expect(world.statements.all()).toMatchObject([{ state: 'pending', verdict: 'absent' }]);
    expect(claimsOfLease(world.home, world.lease.lease_id)).toHaveLength(1);
    await world.claims.follow([]);
    expect(world.statements.all()).toEqual([]);
    expect(claimsOfLease(world.home, world.lease.lease_id)).toEqual([]);
    expect(existsSync(world.paths.creation)).toBe(false);
  });

  test('stays while nobody answers, with the claim', async () => {
    await using world = await reapedUnheard();
    for (let turn = 0; turn < 2; turn += 1) world.coordinator.unreachableOnce('get_stack_lease');
    await world.claims.follow([]);
    expect(world.statements.all()).toHaveLength(1);
    expect(claimsOfLease(world.home, world.lease.lease_id)).toHaveLength(1);
  });

  test('is void for a coordinator that knows no such lease, and frees nothing', async () => {
    await using world = await reapedUnheard();
    world.coordinator.ended.clear();
    await world.claims.follow([]);
    expect(world.statements.all()).toEqual([]);
    expect(claimsOfLease(world.home, world.lease.lease_id)).toHaveLength(1);
    expect(existsSync(world.paths.creation)).toBe(true);
  });
});

test('a claim whose lease nobody knows is asked for once and kept', async () => {
  await using world = await realStack();
  await world.work('provision_stack');
  world.coordinator.leases.clear();
  for (let beacon = 0; beacon < 3; beacon += 1) await world.claims.follow([]);
  expect(world.coordinator.toldOf('get_stack_lease')).toHaveLength(1);
  expect(claimsOfLease(world.home, world.lease.lease_id)).toHaveLength(1);
});

test('the claims of live leases are kept longer than their idle TTL', async () => {
  await using world = await realStack();
  await world.work('provision_stack');
  const before = Date.now();
  await world.claims.follow([{ ...world.lease, state: 'active', idle_ttl_ms: 7_200_000 }]);
  const [claim] = claimsOfLease(world.home, world.lease.lease_id);
  expect(claim?.retain_until).toBeGreaterThan(before + 7_200_000);
});

import { describe, expect, test } from 'bun:test';
import type { Claim, LeaseFacts, Marker, ReleaseProof } from '../../src/protocol/claim.ts';
import {
  type BindQuestion,
  blocksOverlap,
  chooseBlock,
  isProofFor,
  judgeAbandon,
  judgeBind,
  judgeBlock,
  judgeFound,
  judgeMarker,
  judgeRelease,
  judgeTakeover,
  type Occupancy,
  type ReleaseQuestion,
  retainUntil,
  type TakeoverQuestion,
  wantedBase,
} from '../../src/stack/claim-rules.ts';

const NOW = 1_000_000;
const MINUTE = 60_000;
const asker = { invocation_token: 'token', slot: 'slot', project_id: 'bb-t-1', host: 'host', stack_dir: '/w' };
const claim: Claim = {
  schema: 1,
  ...asker,
  port_base: 20_000,
  size: 20,
  lease_id: null,
  created_at: 0,
  retain_until: NOW - 1,
  owner_pid: 1,
  owner_started_at: 's',
  owner_boot_id: 'b',
  child: null,
  idle: null,
};
const child = { pid: 7, started_at: 's', boot_id: 'b' };
const idle = { since_at: 1 };
const nothing: Occupancy = { claimed: [], unknown: [], leased: [], busy_bases: new Set() };

describe('retention', () => {
  test.each([
    ['unbound: ten minutes', null, 10 * MINUTE],
    ['bound with a short idle TTL: ten minutes', 2 * MINUTE, 10 * MINUTE],
    ['bound with a long idle TTL: five minutes more than that', 30 * MINUTE, 35 * MINUTE],
  ])('%s', (_rule, idleTtlMs, keptMs) => expect(retainUntil(NOW, idleTtlMs)).toBe(NOW + keptMs));
});

describe('a block', () => {
  const block = { port_base: 20_020, size: 20 };
  test.each([
    [{ port_base: 20_000, size: 20 }, false],
    [{ port_base: 20_000, size: 21 }, true],
    [{ port_base: 20_039, size: 2 }, true],
    [{ port_base: 20_040, size: 20 }, false],
    [{ port_base: 20_000, size: 100 }, true],
  ])('is judged by its ports: beside %p overlap is %p', (other, overlap) => {
    expect(blocksOverlap(block, other)).toBe(overlap);
    expect(blocksOverlap(other, block)).toBe(overlap);
  });

  test.each([
    ['nothing covers it', nothing, 'free'],
    ['a claim covers a part of it', { ...nothing, claimed: [{ port_base: 20_030, size: 20 }] }, 'claimed'],
    [
      'a file that nobody can read may cover it',
      { ...nothing, unknown: [{ port_base: 20_020, size: 20 }] },
      'unknown_file',
    ],
    ['a live lease carries it', { ...nothing, leased: [{ port_base: 20_020, size: 20 }] }, 'leased'],
    ['its ports cannot be bound', { ...nothing, busy_bases: new Set([20_020]) }, 'ports_busy'],
    ['only its neighbour is claimed', { ...nothing, claimed: [{ port_base: 20_000, size: 20 }] }, 'free'],
  ] as [string, Occupancy, string][])('when %s', (_when, occupancy, verdict) => {
    expect(judgeBlock(block, occupancy)).toBe(verdict as ReturnType<typeof judgeBlock>);
  });
});

describe('the choice of a block', () => {
  const range = { first: 20_000, last: 20_060, size: 20 };
  test.each([
    ['the wanted one where it is free', 20_040, [], 20_040],
    ['the next one where it is not', 20_020, [20_020], 20_040],
    ['around the end of the range', 20_060, [20_060], 20_000],
    ['the first one for a base outside of the range', 31_000, [], 20_000],
    ['the first one for a base between two blocks', 20_050, [], 20_000],
    ['none when the range is full', 20_000, [20_000, 20_020, 20_040, 20_060], null],
  ])('takes %s', (_what, wanted, busy, base) => {
    const chosen = chooseBlock(wanted, range, { ...nothing, busy_bases: new Set(busy) });
    expect(chosen?.port_base ?? null).toBe(base);
  });

  test('prefers bases of the range only, its last one included', () => {
    const bases = new Set(Array.from({ length: 200 }, (_, number) => wantedBase(number * 7919, range)));
    expect([...bases].sort()).toEqual([20_000, 20_020, 20_040, 20_060]);
  });
});

describe('a claim that a new invocation finds', () => {
  test.each([
    ['its own', claim, 'ours'],
    ['an idle one of its stack', { ...claim, invocation_token: 'old', idle }, 'offer_idle'],
    ['one in use by another invocation', { ...claim, invocation_token: 'old' }, 'leave'],
    ['an idle one of another slot', { ...claim, invocation_token: 'old', idle, slot: 'other' }, 'leave'],
    ['an idle one of another project', { ...claim, invocation_token: 'old', idle, project_id: 'bb-t-2' }, 'leave'],
    ['an idle one of another directory', { ...claim, invocation_token: 'old', idle, stack_dir: '/x' }, 'leave'],
    ['an idle one of another host', { ...claim, invocation_token: 'old', idle, host: 'other' }, 'leave'],
    ['one with its token for another directory', { ...claim, stack_dir: '/x' }, 'leave'],
  ] as [string, Claim, string][])('%s', (_what, found, verdict) => {
    expect(judgeFound(found, asker)).toBe(verdict as ReturnType<typeof judgeFound>);
  });
});

describe('a takeover', () => {
  const ended: LeaseFacts = { live: false, lease_id: null, state: null };
  const open: TakeoverQuestion = { claim, owner: 'dead', child: 'dead', now: NOW, lease: ended };
  test.each([
    ['happens when the owner is dead, the time has passed and no lease lives', {}, 'take'],
    ['is refused for a file that nobody can read', { claim: 'unreadable' }, 'unreadable'],
    ['is refused while the owner lives', { owner: 'alive' }, 'owner_alive'],
    ['does not ask for the life of an owner who gave it up', { owner: 'alive', claim: { ...claim, idle } }, 'take'],
    ['is refused while the child lives', { child: 'alive' }, 'child_alive'],
    ['is refused before the time', { now: claim.retain_until - 1 }, 'retained'],
    ['is refused at the very time', { now: claim.retain_until }, 'retained'],
    ['is refused without an answer', { lease: 'no_answer' }, 'coordinator_silent'],
    ['is refused while a lease lives', { lease: { live: true, lease_id: 'l', state: 'reap_failed' } }, 'lease_live'],
  ] as [string, Partial<TakeoverQuestion>, string][])('%s', (_rule, change, verdict) => {
    expect(judgeTakeover({ ...open, ...change })).toBe(verdict as ReturnType<typeof judgeTakeover>);
  });
});

describe('a bind', () => {
  const open: BindQuestion = { claim, asker, lease_id: 'L', seen_token: null, binder: 'client' };
  const other = { ...claim, invocation_token: 'old' };
  test.each([
    ['writes an unbound claim of the invocation', {}, 'write'],
    ['writes it again for the same lease', { claim: { ...claim, lease_id: 'L' } }, 'write'],
    ['never moves a claim to a second lease', { claim: { ...claim, lease_id: 'M' } }, 'bound_to_another_lease'],
    [
      'not even an idle one that bears the token',
      { claim: { ...claim, lease_id: 'M', idle } },
      'bound_to_another_lease',
    ],
    ['moves the idle claim of a re-adopted lease', { claim: { ...other, idle, lease_id: 'L' } }, 'write'],
    ['moves the idle claim that was offered', { claim: { ...other, idle, lease_id: 'M' }, seen_token: 'old' }, 'write'],
    [
      'leaves an idle claim that was not offered',
      { claim: { ...other, idle, lease_id: 'M' }, seen_token: 'older' },
      'claim_replaced',
    ],
    [
      'leaves an offered claim that is idle no more',
      { claim: { ...other, lease_id: 'M' }, seen_token: 'old' },
      'claim_replaced',
    ],
    ['leaves a claim of another invocation', { claim: other }, 'claim_replaced'],
    ['leaves a claim of another project', { claim: { ...claim, project_id: 'bb-t-2' } }, 'claim_replaced'],
    ['leaves a claim of another host', { claim: { ...claim, host: 'other' } }, 'claim_replaced'],
    ['leaves a claim of another directory', { claim: { ...claim, stack_dir: '/x' } }, 'claim_replaced'],
    ['leaves a claim of another slot', { claim: { ...claim, slot: 'other' } }, 'claim_replaced'],
    ['leaves a file that nobody can read', { claim: 'unreadable' }, 'claim_unreadable'],
    ['lets the client make a missing file again', { claim: 'absent' }, 'recreate'],
    ['refuses the Helper a claim that was never made', { claim: 'absent', binder: 'helper' }, 'claim_missing'],
    ['lets the Helper bind what the client claimed', { binder: 'helper' }, 'write'],
    ['refuses the Helper a claim of another invocation', { binder: 'helper', claim: other }, 'claim_replaced'],
  ] as [string, Partial<BindQuestion>, string][])('%s', (_rule, change, expected) => {
    const verdict = judgeBind({ ...open, ...change });
    expect(verdict.bind === 'refused' ? verdict.reason : verdict.bind).toBe(expected as 'write');
  });
});

const marker: Marker = {
  schema: 1,
  invocation_token: 'token',
  lease_id: 'L',
  project_id: asker.project_id,
  stack_dir: asker.stack_dir,
  released_at: null,
};

describe('a marker', () => {
  test.each([
    ['that is missing is written', 'absent', 'write'],
    ['of the same project and directory moves to the new token', { ...marker, invocation_token: 'old' }, 'write'],
    ['of another project stays', { ...marker, project_id: 'bb-t-2' }, 'bound_elsewhere'],
    ['of another directory stays', { ...marker, stack_dir: '/x' }, 'bound_elsewhere'],
    ['that was released binds nobody', { ...marker, project_id: 'bb-t-2', released_at: 5 }, 'write'],
    ['that nobody can read stays', 'unreadable', 'unreadable'],
  ] as [string, Marker | 'absent' | 'unreadable', string][])('%s', (_rule, found, verdict) => {
    expect(judgeMarker(found, asker)).toBe(verdict as ReturnType<typeof judgeMarker>);
  });
});

describe('a claim that came to carry no lease', () => {
  test.each([
    ['goes after a refusal', claim, 'token', 'refused', true],
    ['goes when the lease is placed on another host', claim, 'token', 'placed_elsewhere', true],
    ['stays without an answer', claim, 'token', 'no_answer', false],
    ['stays when it is bound', { ...claim, lease_id: 'L' }, 'token', 'refused', false],
    ['stays when a child was started', { ...claim, child }, 'token', 'refused', false],
    ['stays when it is another invocation', claim, 'other', 'refused', false],
  ] as [string, Claim, string, 'refused' | 'placed_elsewhere' | 'no_answer', boolean][])(
    '%s',
    (_rule, found, token, answer, goes) => expect(judgeAbandon(found, token, answer)).toBe(goes),
  );
});

const proof: ReleaseProof = {
  lease_id: 'L',
  state: 'reaped',
  cleanup_verified: true,
  cleanup_proof: 'signed_reap',
  cleanup_receipt_id: 'R',
};

describe('whether this is a proof of the end of a lease', () => {
  test.each([
    ['a signed reap with its receipt', proof, true],
    [
      'a lease that was never provisioned',
      { ...proof, cleanup_proof: 'never_provisioned', cleanup_receipt_id: null },
      true,
    ],
    [
      'a teardown by the command itself',
      { ...proof, cleanup_proof: 'local_exec_teardown', cleanup_receipt_id: null },
      true,
    ],
    [
      'absence before the driver ran',
      { ...proof, cleanup_proof: 'pre_driver_absence', cleanup_receipt_id: null },
      true,
    ],
    ['nothing', null, false],
    ['a proof for another lease', { ...proof, lease_id: 'M' }, false],
    ['a lease that is still reaping', { ...proof, state: 'reaping' }, false],
    ['a failed reap', { ...proof, state: 'reap_failed' }, false],
    ['an unverified end', { ...proof, cleanup_verified: false }, false],
    ['an end that nobody judged yet', { ...proof, cleanup_verified: null }, false],
    ['an end without a proof', { ...proof, cleanup_proof: null }, false],
    ["an operator's override", { ...proof, cleanup_proof: 'operator_override' }, false],
    ['a signed reap without a receipt', { ...proof, cleanup_receipt_id: null }, false],
    ['a signed reap with an empty receipt', { ...proof, cleanup_receipt_id: '' }, false],
  ] as [string, ReleaseProof | null, boolean][])('%s', (_what, given, proven) => {
    expect(isProofFor('L', given)).toBe(proven);
  });
});

describe('a release', () => {
  const bound = { ...claim, lease_id: 'L' };
  const held = { claim: bound, owner: 'caller', child: 'dead' } as const;
  const open: ReleaseQuestion = {
    lease: { ...asker, lease_id: 'L', state: 'reaped', claim_token: 'token', stack_path: '.' },
    proof,
    other_lease_on_slot: false,
    caller: 'client_in_worktree',
    claims: [held],
    unknown_files: 0,
    marker,
    stack_dir_present: true,
  };
  const withClaim = (change: Partial<Claim>) => ({ claims: [held, { ...held, claim: { ...bound, ...change } }] });
  const withLease = (change: Partial<ReleaseQuestion['lease']>) => ({ lease: { ...open.lease, ...change } });
  const noProof = { proof: null };

  test.each([
    ['by the owner, with a proof', {}],
    ['by the Helper, for a dead owner', { caller: 'helper', claims: [{ ...held, owner: 'dead' }] }],
    [
      'for an owner who made it idle, though it lives',
      { claims: [{ ...held, owner: 'alive', claim: { ...bound, idle } }] },
    ],
    ['when no claim is left', { claims: [] }],
    ['when the marker was never written', { marker: 'absent' }],
    ['when the marker was released before', { marker: { ...marker, invocation_token: 'old', released_at: 5 } }],
    ['when the marker is not bound yet', { marker: { ...marker, lease_id: null } }],
    ['of an unbound claim with the token of the lease', { claims: [{ ...held, claim }], marker: 'absent' }],
    ['when the directory is gone and the claim is bound', { stack_dir_present: false, marker: 'absent' }],
    ['from a directory below the worktree', withLease({ stack_path: 'a/b..c' })],
    ['though another file cannot be read', { unknown_files: 1 }],
  ] as [string, Partial<ReleaseQuestion>][])('happens %s', (_rule, change) => {
    expect(judgeRelease({ ...open, ...change })).toEqual({ release: true });
  });

  test.each([
    ['while the lease is idle', withLease({ state: 'idle' }), 'idle'],
    ['while another lease of the slot lives', { other_lease_on_slot: true }, 'another_lease_on_slot'],
    ['without a proof', noProof, 'cleanup_unproven'],
    ['without a proof, though no claim is left', { ...noProof, claims: [] }, 'cleanup_unproven'],
    ['from another worktree', { caller: 'client_elsewhere' }, 'not_this_worktree'],
    ['for an absolute stack path', withLease({ stack_path: '/w' }), 'not_this_worktree'],
    ['for a stack path that climbs', withLease({ stack_path: 'a/../..' }), 'not_this_worktree'],
    ['for a project id with other characters', withLease({ project_id: 'bb/../x' }), 'not_this_worktree'],
    ['when absence cannot be told', { claims: [], unknown_files: 1 }, 'removal_failed'],
    ['when one claim bears another token', withClaim({ invocation_token: 'new' }), 'claim_replaced'],
    ['when one claim is of another host', withClaim({ host: 'other' }), 'claim_replaced'],
    ['when one claim is of another directory', withClaim({ stack_dir: '/x' }), 'claim_replaced'],
    ['when one claim is of another project', withClaim({ project_id: 'bb-t-2' }), 'claim_replaced'],
    ['while another owner lives', { claims: [{ ...held, owner: 'alive' }] }, 'owner_alive'],
    [
      'by the Helper, while the owner lives',
      { caller: 'helper', claims: [{ ...held, owner: 'alive' }] },
      'owner_alive',
    ],
    ['while the child lives', { claims: [{ ...held, child: 'alive' }] }, 'cleanup_unproven'],
    ['when the marker cannot be read', { marker: 'unreadable' }, 'marker_unreadable'],
    ['when the marker bears another token', { marker: { ...marker, invocation_token: 'new' } }, 'claim_replaced'],
    ['when the marker names another lease', { marker: { ...marker, lease_id: 'M' } }, 'claim_replaced'],
    ['when the marker names another project', { marker: { ...marker, project_id: 'bb-t-2' } }, 'claim_replaced'],
    [
      'when the directory is gone and the claim is unbound',
      { stack_dir_present: false, marker: 'absent', claims: [{ ...held, claim }] },
      'not_this_worktree',
    ],
  ] as [string, Partial<ReleaseQuestion>, string][])('is refused %s', (_rule, change, reason) => {
    expect(judgeRelease({ ...open, ...change })).toEqual({ release: false, reason: reason as 'idle' });
  });
});

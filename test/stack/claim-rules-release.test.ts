import { describe, expect, test } from 'bun:test';
import type { Claim, Marker, ReleaseProof } from '../../src/protocol/claim.ts';
import { isProofFor, judgeRelease, type ReleaseQuestion } from '../../src/stack/claim-rules.ts';

const NOW = 1_000_000;
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
const idle = { since_at: 1 };

const marker: Marker = {
  schema: 1,
  invocation_token: 'token',
  lease_id: 'L',
  project_id: asker.project_id,
  stack_dir: asker.stack_dir,
  released_at: null,
};

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

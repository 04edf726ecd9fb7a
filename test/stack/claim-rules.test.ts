import { describe, expect, test } from 'bun:test';
import type { Claim, LeaseFacts, Marker } from '../../src/protocol/claim.ts';
import {
  type BindQuestion,
  blocksOverlap,
  chooseBlock,
  judgeAbandon,
  judgeBind,
  judgeBlock,
  judgeFound,
  judgeMarker,
  judgeTakeover,
  type Occupancy,
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

import { describe, expect, test } from 'bun:test';
import { ACTIVE, ADMITTED, exited, glimpse, LEASE_ID, parked, play, reaped, types } from './_runs.ts';

describe('the way to the child', () => {
  test('claims, asks, binds before any park, waits for its turn and for the stack, reads once more, starts the child', () => {
    const { state, actions } = play({}, ACTIVE);
    expect(actions.map(types)).toEqual([
      ['claim'],
      ['request'],
      ['bind'],
      ['park'],
      ['park'],
      ['read_lease'],
      ['start_child'],
    ]);
    expect(state.phase).toBe('child');
  });

  test('a lease that is read as queued again goes back to the queue park', () => {
    const { actions } = play({}, [...ACTIVE.slice(0, -1), { type: 'lease_read', lease: glimpse('queued') }]);
    expect(actions.at(-1)).toEqual([{ type: 'park', phase: 'queue', lease_id: LEASE_ID }]);
  });

  test('a read without an answer parks again instead of starting the child on old knowledge', () => {
    const { state, actions } = play({}, [...ACTIVE.slice(0, -1), { type: 'lease_read', lease: null }]);
    expect(actions.at(-1)).toEqual([{ type: 'park', phase: 'provision', lease_id: LEASE_ID }]);
    expect(state.phase).toBe('provision');
  });

  test('a deferral during provisioning goes back to the queue park', () => {
    const { actions } = play({}, [
      ...ADMITTED,
      parked('matched', { lease: glimpse('provisioning') }),
      parked('deferred'),
    ]);
    expect(actions.at(-1)).toEqual([{ type: 'park', phase: 'queue', lease_id: LEASE_ID }]);
  });

  test('an active lease without a connection never starts the child', () => {
    const { state } = play({}, [
      ...ACTIVE.slice(0, -1),
      { type: 'lease_read', lease: glimpse('active', { has_connection: false }) },
    ]);
    expect(state.phase).toBe('release');
  });

  test('up ends at an active lease and gives nothing back', () => {
    const { state, actions } = play({ command: 'up' }, ACTIVE);
    expect(types(actions.at(-1))).toEqual(['finish']);
    expect(state.end).toEqual({ by: 'ready' });
  });

  test('up that may not wait ends as queued', () => {
    const { state } = play({ command: 'up', parkInQueue: false }, ADMITTED);
    expect(state.end).toEqual({ by: 'queued' });
  });

  test('up whose park times out leaves the lease as it is', () => {
    const { state, actions } = play({ command: 'up' }, [...ADMITTED, parked('timeout', { code: 'timeout' })]);
    expect(types(actions.at(-1))).toEqual(['finish']);
    expect(state.end).toMatchObject({ by: 'park', kind: 'timeout' });
  });
});

describe('refusals', () => {
  const refusal = {
    code: 'SLOT_HELD',
    message: 'held',
    lease_id: LEASE_ID,
    state: 'active',
    own: false,
    reap_reason: null,
    owner_dead: false,
  };
  const refuse = (changes: Partial<typeof refusal> & { reap_reason?: string | null }, options = {}) =>
    play(options, [{ type: 'claimed' }, { type: 'refused', refusal: { ...refusal, ...changes } }]);

  test.each([
    ['another agent holds the slot', {}, ['abandon_claim', 'finish']],
    ['own live lease', { code: 'STACK_CONTEXT_ALREADY_BOUND', own: true }, ['abandon_claim', 'finish']],
    [
      'own predecessor whose owner is dead',
      { code: 'STACK_CONTEXT_ALREADY_BOUND', own: true, owner_dead: true },
      ['abandon_claim', 'release'],
    ],
    [
      'own idle stack with other units',
      { code: 'IDLE_STACK_DIFFERS', own: true, state: 'idle' },
      ['abandon_claim', 'release'],
    ],
    [
      'own slot reaped by preemption',
      { code: 'SLOT_REAPING', own: true, state: 'reaping', reap_reason: 'preempted_idle' },
      ['abandon_claim', 'park'],
    ],
    [
      'own slot reaped on demand',
      { code: 'SLOT_REAPING', own: true, state: 'reaping', reap_reason: 'released' },
      ['abandon_claim', 'finish'],
    ],
    [
      'own slot whose reap failed',
      { code: 'SLOT_REAPING', own: true, state: 'reap_failed', reap_reason: 'idle_ttl' },
      ['abandon_claim', 'finish'],
    ],
    ['block taken', { code: 'PORT_BLOCK_TAKEN', lease_id: null }, ['abandon_claim', 'claim']],
  ])('%s', (_, changes, expected) => {
    expect(types(refuse(changes as never).actions.at(-1))).toEqual(expected);
  });

  test('a slot that is waited for is claimed anew once its lease is gone', () => {
    const { actions } = play({ waitForSlot: true }, [
      { type: 'claimed' },
      { type: 'refused', refusal: { ...refusal, code: 'STACK_CONTEXT_ALREADY_BOUND', own: true } },
      parked('matched', { lease: reaped }),
    ]);
    expect(actions.slice(-2).map(types)).toEqual([['abandon_claim', 'park'], ['claim']]);
  });

  test('an unanswered request keeps the claim and ends as unknown', () => {
    const { state, actions } = play({}, [
      { type: 'claimed' },
      { type: 'admission_unknown', code: 'platform_unreachable', message: 'gone' },
    ]);
    expect(types(actions.at(-1))).toEqual(['finish']);
    expect(state).toMatchObject({ claim: 'held', end: { by: 'admission_unknown' } });
  });
});

describe('cleanup', () => {
  test('a finished child gives the stack to idle by default, and the claims with it', () => {
    const { state, actions } = play({ cleanup: 'idle' }, [
      ...ACTIVE,
      exited(0),
      { type: 'released', lease: glimpse('idle'), changed: true },
    ]);
    expect(actions.at(-2)).toEqual([{ type: 'release', lease_id: LEASE_ID, how: 'idle', disposition: 'destroy' }]);
    expect(types(actions.at(-1))).toEqual(['mark_claims_idle']);
    expect(state.cleanup).toEqual({ kind: 'idle' });
  });

  test('a run that never became active is reaped even where idle was wished', () => {
    const { actions } = play({ cleanup: 'idle' }, [...ADMITTED, parked('timeout')]);
    expect(actions.at(-1)).toMatchObject([{ type: 'release', how: 'reap' }]);
  });

  test('a proven reap releases the claims', () => {
    const { state, actions } = play({}, [
      ...ACTIVE,
      exited(0),
      { type: 'released', lease: glimpse('reaping'), changed: true },
      parked('matched', { lease: reaped }),
      { type: 'claims_released', released: true, reason: null },
    ]);
    expect(actions.slice(-3).map(types)).toEqual([['park'], ['release_claims'], ['finish']]);
    expect(state).toMatchObject({ claim: 'released', cleanup: { kind: 'proven', receipt_id: 'receipt-1' } });
  });

  test.each([
    [
      'a proof that never came',
      parked('timeout', { code: 'platform_unreachable', message: 'the coordinator is away' }),
    ],
    ['a failed reap', parked('lease_cleanup_failed', { lease: glimpse('reap_failed', { error: 'still present' }) })],
    ['a reaped row without a proof', parked('matched', { lease: glimpse('reaped', { cleanup_verified: null }) })],
    ['a signed reap without a receipt', parked('matched', { lease: { ...reaped, cleanup_receipt_id: null } })],
  ])('%s keeps the claims and ends unproven', (_, event) => {
    const { state, actions } = play({}, [
      ...ACTIVE,
      exited(0),
      { type: 'released', lease: glimpse('reaping'), changed: true },
      event,
    ]);
    expect(types(actions.at(-1))).toEqual(['finish']);
    expect(state).toMatchObject({ claim: 'kept', cleanup: { kind: 'unproven' }, claimReason: 'cleanup_unproven' });
  });

  test('a release that throws counts as unproven and still finishes', () => {
    const { state } = play({}, [
      ...ACTIVE,
      exited(0),
      { type: 'release_failed', code: 'platform_unreachable', message: 'gone' },
    ]);
    expect(state).toMatchObject({ phase: 'finished', cleanup: { kind: 'unproven', code: 'platform_unreachable' } });
  });

  test('a claim that was replaced is never released, though its lease is', () => {
    const { state, actions } = play({}, [
      ...ADMITTED.slice(0, 2),
      { type: 'bind_failed', code: 'STACK_CONTEXT_BIND_FAILED', message: 'replaced' },
      {
        type: 'released',
        lease: { ...reaped, cleanup_proof: 'never_provisioned', cleanup_receipt_id: null },
        changed: true,
      },
    ]);
    expect(types(actions.at(-1))).toEqual(['finish']);
    expect(state).toMatchObject({ claim: 'lost', end: { by: 'failure' } });
  });
});

describe('ends', () => {
  test('the first reason wins: a lost lease is not overruled by the child that it ended', () => {
    const { state, actions } = play({ cleanup: 'idle' }, [
      ...ACTIVE,
      { type: 'lease_lost', code: 'LEASE_LOST', message: 'heartbeat_lost' },
      { type: 'child_exited', exit_code: null, signal: 'SIGTERM' },
    ]);
    expect(actions.at(-2)).toEqual([{ type: 'stop_child', signal: 'SIGTERM' }]);
    expect(actions.at(-1)).toMatchObject([{ type: 'release', how: 'reap' }]);
    expect(state.end).toMatchObject({ by: 'fence' });
  });

  test('a lease that was lost while the command ended is a lost lease, whatever the command came to', () => {
    const lost = glimpse('reaping', { reap_reason: 'stack_lost' });
    const { state } = play({}, [...ACTIVE, exited(0), { type: 'released', lease: lost, changed: false }]);
    expect(state.end).toMatchObject({ by: 'fence', code: 'LEASE_LOST' });
  });

  test('a signal while parked ends the park and gives the lease back', () => {
    const { state, actions } = play({}, [...ADMITTED, { type: 'signal', signal: 'SIGTERM' }, parked('interrupted')]);
    expect(types(actions.at(-2))).toEqual(['end_park']);
    expect(types(actions.at(-1))).toEqual(['release']);
    expect(state.end).toEqual({ by: 'signal', signal: 'SIGTERM' });
  });

  test('a signal while the request is under way is cleaned up like any lease', () => {
    const { state, actions } = play({}, [
      { type: 'claimed' },
      { type: 'signal', signal: 'SIGINT' },
      { type: 'admitted', lease: glimpse('queued') },
      { type: 'bound' },
    ]);
    expect(types(actions.at(-1))).toEqual(['release']);
    expect(state.end).toEqual({ by: 'signal', signal: 'SIGINT' });
  });

  test('a signal before the request asks for nothing', () => {
    const { actions } = play({}, [{ type: 'signal', signal: 'SIGINT' }, { type: 'claimed' }]);
    expect(types(actions.at(-1))).toEqual(['abandon_claim', 'finish']);
  });

  test('a signal during cleanup changes nothing', () => {
    const { state, actions } = play({}, [...ACTIVE, exited(0), { type: 'signal', signal: 'SIGINT' }]);
    expect(actions.at(-1)).toEqual([]);
    expect(state.end).toMatchObject({ by: 'child', exit_code: 0 });
  });

  test('every signal reaches the child, and the first one is the end', () => {
    const { state, actions } = play({}, [
      ...ACTIVE,
      { type: 'signal', signal: 'SIGINT' },
      { type: 'signal', signal: 'SIGTERM' },
    ]);
    expect(actions.slice(-2).map(types)).toEqual([['stop_child'], ['stop_child']]);
    expect(state.end).toEqual({ by: 'signal', signal: 'SIGINT' });
  });

  test('a command that cannot be started gives the stack back and fails', () => {
    const { state, actions } = play({ cleanup: 'idle' }, [
      ...ACTIVE,
      { type: 'failed', code: 'command_not_found', message: 'nope' },
    ]);
    expect(actions.at(-1)).toMatchObject([{ type: 'release', how: 'idle' }]);
    expect(state.end).toMatchObject({ by: 'failure', code: 'command_not_found' });
  });

  test('nothing moves a finished run', () => {
    const { state, actions } = play({ command: 'up' }, [...ACTIVE, { type: 'signal', signal: 'SIGINT' }, exited(3)]);
    expect(actions.slice(-2)).toEqual([[], []]);
    expect(state.end).toEqual({ by: 'ready' });
  });
});

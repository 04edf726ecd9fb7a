import { describe, expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CoordinatorClient } from '../../src/client/calls.ts';
import { refusalOf } from '../../src/flows/request-phase.ts';
import type { StackContext } from '../../src/flows/stack-context.ts';
import { Failure } from '../../src/platform/failure.ts';
import { ownIdentity } from '../../src/platform/processes.ts';
import type { Claim } from '../../src/protocol/claim.ts';
import { makeTempDir } from '../support/temp-home.ts';

const LEASE_ID = '11111111-1111-4111-8111-111111111111';

/** Whether the owner of the refused slot counts as dead: its one claim, and the lease as the coordinator has it. */
async function ownerDead(changes: Partial<Claim>, lease: Record<string, unknown> = {}): Promise<boolean> {
  using home = makeTempDir();
  mkdirSync(join(home.path, 'ports'), { mode: 0o700 });
  const claim: Claim = {
    schema: 1,
    project_id: 'bb-local-a',
    host: 'host',
    invocation_token: 'owner',
    slot: 'a',
    stack_dir: '/stack',
    port_base: 20_000,
    size: 20,
    lease_id: LEASE_ID,
    created_at: 1,
    retain_until: 2,
    owner_pid: ownIdentity().pid,
    owner_started_at: 'long ago',
    owner_boot_id: ownIdentity().boot_id,
    child: null,
    idle: null,
    ...changes,
  };
  writeFileSync(join(home.path, 'ports', '20000.json'), JSON.stringify(claim), { mode: 0o600 });
  const view = { mode: 'attached', state: 'active', claim_token: 'owner', ...lease };
  const client = { call: async () => ({ lease: view }) } as unknown as CoordinatorClient;
  const refusal = new Failure('STACK_CONTEXT_ALREADY_BOUND', 'held', { fields: { lease_id: LEASE_ID, own: true } });
  const event = await refusalOf({ home: home.path } as StackContext, client, refusal);
  return event.type === 'refused' && event.refusal.owner_dead;
}

describe('an own predecessor is replaced', () => {
  test('when its attached lease is claimed by a dead process of its own invocation', async () => {
    expect(await ownerDead({})).toBe(true);
  });

  test.each<[string, Partial<Claim>, Record<string, unknown>]>([
    ['while its owner lives', { owner_started_at: ownIdentity().started_at }, {}],
    ['never when it is detached: it needs no living owner', {}, { mode: 'detached' }],
    ['never when a later run has re-adopted the lease and not bound its claim yet', {}, { claim_token: 'later' }],
    ['never while the claim is idle', { idle: { since_at: 1 } }, {}],
    ['never when the lease is idle', {}, { state: 'idle' }],
  ])('not %s', async (_, claim, lease) => {
    expect(await ownerDead(claim, lease)).toBe(false);
  });
});

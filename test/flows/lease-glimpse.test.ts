import { expect, test } from 'bun:test';
import { ownGlimpseOf } from '../../src/flows/lease-glimpse.ts';
import type { LeaseView } from '../../src/protocol/records.ts';

const view = {
  lease_id: 'lease',
  state: 'active',
  connection: {},
  claim_token: 'mine',
  error: null,
} as unknown as LeaseView;

test('a lease of this invocation is seen as it is', () => {
  expect(ownGlimpseOf(view, 'mine')).toMatchObject({ state: 'active', has_connection: true, error: null });
});

test('a lease that a later command took over is lost, however active it is', () => {
  expect(ownGlimpseOf(view, 'another')).toMatchObject({ state: 'reaping', has_connection: false });
});

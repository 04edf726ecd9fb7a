import { describe, expect, test } from 'bun:test';
import { type Claim, claimSchema, type Marker, markerSchema, ownerOf } from '../../src/protocol/claim.ts';

const claim: Claim = {
  schema: 1,
  project_id: 'bb-local-abc',
  host: 'host',
  invocation_token: 'token',
  slot: 'slot',
  stack_dir: '/w',
  port_base: 20_000,
  size: 20,
  lease_id: null,
  created_at: 1,
  retain_until: 2,
  owner_pid: 7,
  owner_started_at: '1',
  owner_boot_id: 'boot',
  child: null,
  idle: null,
};
const marker: Marker = {
  schema: 1,
  invocation_token: 'token',
  lease_id: 'L',
  project_id: 'bb-local-abc',
  stack_dir: '/w',
  released_at: null,
};
const without = (key: string) => Object.fromEntries(Object.entries(claim).filter(([name]) => name !== key));

describe('a claim file', () => {
  test('is taken as it is written', () => {
    const bound = {
      ...claim,
      lease_id: 'L',
      child: { pid: 8, started_at: '2', boot_id: 'boot' },
      idle: { since_at: 5 },
    };
    for (const file of [claim, bound]) expect(claimSchema.parse(JSON.parse(JSON.stringify(file)))).toEqual(file);
    expect(ownerOf(claim)).toEqual({ pid: 7, started_at: '1', boot_id: 'boot' });
  });

  test.each(Object.keys(claim))('without %s is none', (key) =>
    expect(claimSchema.safeParse(without(key)).success).toBe(false),
  );

  test.each([
    ['another schema', { schema: 2 }],
    ['a key that nobody knows', { extra: 1 }],
    ['a project with a path in it', { project_id: '../x' }],
    ['an empty token', { invocation_token: '' }],
    ['an empty lease', { lease_id: '' }],
    ['a base that is no port', { port_base: 0 }],
    ['a base with a fraction', { port_base: 20_000.5 }],
    ['a block of one port, which has no room beside the guard', { size: 1 }],
    ['a block that ends beyond the last port', { port_base: 65_530, size: 20 }],
    ['a bare pid', { child: 7 }],
    ['a bare flag for idle', { idle: true }],
  ])('with %s is none', (_what, change) => expect(claimSchema.safeParse({ ...claim, ...change }).success).toBe(false));
});

describe('a marker', () => {
  test('is taken as it is written', () => expect(markerSchema.parse(marker)).toEqual(marker));
  test.each([{ schema: 2 }, { project_id: 'a/b' }, { released_at: true }, { extra: 1 }])(
    'with %p is none',
    (change) => {
      expect(markerSchema.safeParse({ ...marker, ...change }).success).toBe(false);
    },
  );
});

import { describe, expect, test } from 'bun:test';
import { createPublicKey, verify } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { attest, type LookedForEntry, StatementStore } from '../../src/helper/attest.ts';
import { keyIdOf, openHelperKey, openHostIdentity } from '../../src/helper/host-identity.ts';
import type { StatementBody } from '../../src/protocol/tool-calls.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { leaseForHelper } from './_leases.ts';

const absent: LookedForEntry = { kind: 'port', id: '21000', before: 'present', after: 'absent' };
const sighting = (lookedFor: LookedForEntry[] = [absent]) => ({
  kind: 'reap' as const,
  lease: leaseForHelper(),
  disposition: 'destroy' as const,
  lookedFor,
  lookedAtMs: 1_750_000_000_000,
});

describe("the Helper's key", () => {
  test('is made once, kept private, and named by its public half', () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'helper-key.json');
    const first = openHelperKey(path);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(openHelperKey(path).public_key).toBe(first.public_key);
    expect(first.key_id).toBe(keyIdOf(first.public_key));
  });

  test('that cannot be read is never replaced', () => {
    using dir = makeTempDir();
    const path = join(dir.path, 'helper-key.json');
    writeFileSync(path, '{"private_key": "AAAA"}');
    expect(() => openHelperKey(path)).toThrow('holds no key');
    expect(readFileSync(path, 'utf8')).toBe('{"private_key": "AAAA"}');
  });

  test('belongs to a host that is the same for this home and another for each life', () => {
    using dir = makeTempDir();
    const [one, two] = [openHostIdentity(dir.path), openHostIdentity(dir.path)];
    expect(two.host_id).toBe(one.host_id);
    expect(two.incarnation).not.toBe(one.incarnation);
  });
});

describe('a statement', () => {
  test('is signed as the very bytes that are shipped', () => {
    using dir = makeTempDir();
    const identity = openHostIdentity(dir.path);
    const { signed } = attest(identity, sighting());
    const key = createPublicKey({
      key: Buffer.from(identity.key.public_key, 'base64'),
      format: 'der',
      type: 'spki',
    });
    const valid = (text: string) => verify(null, Buffer.from(text), key, Buffer.from(signed.signature, 'base64'));
    expect(valid(signed.statement)).toBe(true);
    expect(valid(signed.statement.replace('absent', 'present'))).toBe(false);
    const body = JSON.parse(signed.statement) as StatementBody;
    expect(body).toMatchObject({
      schema_version: 1,
      kind: 'reap',
      slot: 'abcdefghijkl',
      fencing_token: 7,
      plan_digest: 'digest',
      disposition: 'destroy',
      host_id: identity.host_id,
      looked_for: [absent],
      looked_at: '2025-06-15T15:06:40.000Z',
    });
  });

  test('is kept privately until it was accepted, byte for byte', () => {
    using dir = makeTempDir();
    const store = new StatementStore(dir.path);
    const statement = attest(openHostIdentity(dir.path), sighting());
    store.keep(statement);
    const [name = ''] = readdirSync(join(dir.path, 'statements'));
    expect(statSync(join(dir.path, 'statements', name)).mode & 0o777).toBe(0o600);
    expect(new StatementStore(dir.path).all()).toEqual([statement]);
  });

  test('is offered again only for exactly its grant, and only while it proves something', () => {
    using dir = makeTempDir();
    const store = new StatementStore(dir.path);
    const identity = openHostIdentity(dir.path);
    store.keep(attest(identity, sighting([{ ...absent, after: 'unknown' }])));
    expect(store.usableFor(leaseForHelper(), ['reap'])).toBeNull();
    const proof = attest(identity, sighting());
    store.keep(proof);
    expect(store.usableFor(leaseForHelper(), ['reap'])?.name).toBe(proof.name);
    expect(store.usableFor(leaseForHelper(), ['pre_driver'])).toBeNull();
    expect(store.usableFor(leaseForHelper({ fencing_token: 8 }), ['reap'])).toBeNull();
    expect(store.usableFor(leaseForHelper({ reap_disposition: 'stop' }), ['reap'])).toBeNull();
    expect(store.usableFor(leaseForHelper({ plan_digest: 'other' }), ['reap'])).toBeNull();
    store.voidPending(proof.lease.lease_id);
    expect(store.usableFor(leaseForHelper(), ['reap'])).toBeNull();
  });

  test('leaves the directory for the archive when nobody needs it any more', () => {
    using dir = makeTempDir();
    const store = new StatementStore(dir.path);
    const statement = attest(openHostIdentity(dir.path), sighting());
    store.keep(statement);
    const accepted = store.accept(statement, null);
    expect(store.all()).toEqual([accepted]);
    store.archive(accepted);
    expect(store.all()).toEqual([]);
    expect(readdirSync(join(dir.path, 'statements', 'archive'))).toHaveLength(1);
  });

  test('whose bytes were changed on the disk is not taken for one', () => {
    using dir = makeTempDir();
    const store = new StatementStore(dir.path);
    const statement = attest(openHostIdentity(dir.path), sighting());
    const forged = { ...statement.signed, statement: statement.signed.statement.replace('"slot":"a', '"slot":"b') };
    store.keep({ ...statement, signed: forged });
    expect(store.all()).toEqual([]);
  });
});

import { expect, test } from 'bun:test';
import { isToken, jitter, newId, randomToken, sha256Hex, shortHash, TOKEN_PATTERN } from '../../src/platform/random.ts';

test('ids are UUIDs of version 4 and differ', () => {
  expect(newId()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(new Set(Array.from({ length: 1_000 }, newId)).size).toBe(1_000);
});

test('a token is its prefix, 43 characters and a checksum of 6', () => {
  expect(randomToken('bbo')).toMatch(/^bbo_[0-9A-Za-z]{49}$/);
  expect(randomToken('bbo_')).toMatch(/^bbo_[0-9A-Za-z]{49}$/);
  expect(new Set(Array.from({ length: 1_000 }, () => randomToken('bbo'))).size).toBe(1_000);
});

test('one changed character, another prefix or another length is no token', () => {
  const token = randomToken('bbo');
  expect(isToken('bbo', token)).toBeTrue();
  for (let index = 4; index < token.length; index += 1) {
    const other = token[index] === 'a' ? 'b' : 'a';
    expect(isToken('bbo', token.slice(0, index) + other + token.slice(index + 1))).toBeFalse();
  }
  expect(isToken('bbs', token)).toBeFalse();
  expect(isToken('bbo', token.slice(0, -1))).toBeFalse();
  expect(isToken('bbo', `${token}a`)).toBeFalse();
});

test('the pattern finds a token inside of other text', () => {
  const token = randomToken('bbo');
  expect(`Bearer ${token}, next`.match(TOKEN_PATTERN)).toEqual([token]);
});

test('jitter stays below its bound', () => {
  for (let index = 0; index < 1_000; index += 1) {
    const value = jitter(5);
    expect(value).toBeGreaterThanOrEqual(0);
    expect(value).toBeLessThan(5);
  }
});

test('the digest of text is that of its bytes', () => {
  expect(sha256Hex('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  expect(sha256Hex(new TextEncoder().encode('abc'))).toBe(sha256Hex('abc'));
});

test('a short hash is lower-case base32 of the digest', () => {
  expect(shortHash('abc', 10)).toBe('xj4bnp4pah');
  expect(shortHash('abc')).toHaveLength(12);
  expect(shortHash('abc', 52)).toMatch(/^[a-z2-7]{51,52}$/);
  expect(shortHash('abd')).not.toBe(shortHash('abc'));
});

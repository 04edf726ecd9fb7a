/* The runtime's own primitives: node:crypto would cost each command 3 ms. */

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
const TOKEN_BYTES = 32;
/** 62^43 is the first power of 62 above 2^256. */
const TOKEN_CHARS = 43;
const CHECKSUM_CHARS = 6;

/** What a secret of ours looks like, for whoever must keep one out of a log. */
export const TOKEN_PATTERN = /\bbb[a-z]*_[0-9A-Za-z]{49}\b/g;

export function newId(): string {
  return crypto.randomUUID();
}

/** A secret of 256 bits: prefix, 43 characters, and a checksum of 6 that tells a typing error from a wrong token. */
export function randomToken(prefix: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(TOKEN_BYTES));
  const number = BigInt(`0x${Buffer.from(bytes).toString('hex')}`);
  const head = `${prefix.replace(/_+$/, '')}_`;
  const body = base62(number, TOKEN_CHARS);
  return head + body + checksum(head + body);
}

/** True when the text has the shape and the checksum of a token with this prefix; says nothing about whether it is known. */
export function isToken(prefix: string, text: string): boolean {
  const head = `${prefix.replace(/_+$/, '')}_`;
  if (!text.startsWith(head) || text.length !== head.length + TOKEN_CHARS + CHECKSUM_CHARS) return false;
  const signed = text.slice(0, -CHECKSUM_CHARS);
  return /^[0-9A-Za-z]+$/.test(text.slice(head.length)) && checksum(signed) === text.slice(-CHECKSUM_CHARS);
}

/** Evenly spread in [0, maxMs). */
export function jitter(maxMs: number): number {
  return Math.random() * maxMs;
}

export function sha256Hex(data: string | Uint8Array): string {
  return new Bun.CryptoHasher('sha256').update(data).digest('hex');
}

/** Lower-case base32 of the SHA-256: safe in file names, project names and socket names. */
export function shortHash(text: string, length = 12): string {
  const digest = new Bun.CryptoHasher('sha256').update(text).digest();
  let out = '';
  let bits = 0;
  let held = 0;
  for (const byte of digest) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      out += BASE32.charAt((held >> bits) & 31);
      held &= (1 << bits) - 1;
    }
  }
  return out.slice(0, length);
}

function checksum(text: string): string {
  return base62(BigInt(Bun.hash.crc32(text)), CHECKSUM_CHARS);
}

function base62(value: bigint, length: number): string {
  let rest = value;
  let out = '';
  for (let index = 0; index < length; index += 1) {
    out = BASE62.charAt(Number(rest % 62n)) + out;
    rest /= 62n;
  }
  return out;
}

/**
 * The owner's credential of the embedded coordinator: a random token in a 0600 file of the home, of which the log
 * knows only the SHA-256. Whoever can read the file is the owner. Comparisons take the same time for every wrong token.
 */
import { timingSafeEqual } from 'node:crypto';
import type { Principal } from '../core/inputs.ts';
import type { EventLog } from '../log/event-log.ts';
import type { Clock } from '../platform/clock.ts';
import { readTextIfPresent, writeFileDurable } from '../platform/durable-files.ts';
import { isToken, randomToken, sha256Hex } from '../platform/random.ts';
import { EMBEDDED_SERVER, LOCAL_TENANT, OWNER_PRINCIPAL, OWNER_TOKEN_PREFIX } from '../protocol/local-identity.ts';
import { ownerFileSchema } from '../protocol/owner-file.ts';

const META_NAME = 'owner_token_sha256';

export interface Authenticator {
  /** Who sent this Authorization header; null when nobody we know. */
  authenticate(authorization: string | null): Principal | null;
}

/** Reads the credential, or makes one; the file decides, the log follows. */
export async function ensureOwnerCredential(log: EventLog, path: string, clock: Clock): Promise<Authenticator> {
  const token = readToken(path) ?? writeToken(path, clock);
  const hash = sha256Hex(token);
  if ((await log.readMeta(META_NAME)) !== hash) await log.writeMeta(META_NAME, hash);
  return ownerAuthenticator(hash);
}

export function ownerAuthenticator(tokenSha256: string): Authenticator {
  const known = Buffer.from(tokenSha256, 'hex');
  return {
    authenticate: (authorization) => {
      const token = /^Bearer ([0-9A-Za-z_]+)$/.exec(authorization ?? '')?.[1];
      if (token === undefined) return null;
      if (!timingSafeEqual(Buffer.from(sha256Hex(token), 'hex'), known)) return null;
      return { principal: OWNER_PRINCIPAL, tenant: LOCAL_TENANT };
    },
  };
}

/** The token of our own credential; any other content is set aside, never lost. */
function readToken(path: string): string | null {
  const text = readTextIfPresent(path);
  if (text === null) return null;
  const parsed = ownerFileSchema.safeParse(parseJson(text));
  if (parsed.success && isToken(OWNER_TOKEN_PREFIX, parsed.data.token)) return parsed.data.token;
  writeFileDurable(`${path}.replaced`, text);
  return null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function writeToken(path: string, clock: Clock): string {
  const token = randomToken(OWNER_TOKEN_PREFIX);
  const created_at = new Date(clock.wallMs()).toISOString();
  writeFileDurable(path, `${JSON.stringify({ schema_version: 1, token, server: EMBEDDED_SERVER, created_at })}\n`);
  return token;
}

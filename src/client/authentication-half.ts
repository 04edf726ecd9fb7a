/**
 * The authentication half of calls and parks: which credential a call bears, and what is done about a rejected one.
 * Here with the owner's credential of the embedded coordinator, which its file decides, and with a given one, which
 * stays as it is.
 */
import { readTextIfPresent } from '../platform/durable-files.ts';
import { EMBEDDED_SERVER } from '../protocol/local-identity.ts';
import type { CredentialVerdict } from './park-model.ts';

export interface AuthenticationHalf {
  /** What the next call bears; null where there is none. */
  token(): string | null;
  /** After a rejection: looks for a newer credential, or makes one. Later calls bear it. */
  refresh(signal: AbortSignal): Promise<CredentialVerdict>;
}

/** The file is read at the first call, and once more after each rejection. */
export function ownerAuthentication(path: string): AuthenticationHalf {
  let token: string | null = null;
  return {
    token: () => {
      token ??= readOwnerToken(path);
      return token;
    },
    refresh: async () => {
      token = readOwnerToken(path) ?? token;
      return { type: 'ready' };
    },
  };
}

/** One from flag or environment is never replaced: its rejection runs into the budget. */
export function givenAuthentication(given: string | null): AuthenticationHalf {
  return { token: () => given, refresh: async () => ({ type: 'ready' }) };
}

/** Only a credential that was made for the embedded coordinator is sent to it. */
function readOwnerToken(path: string): string | null {
  const text = readTextIfPresent(path);
  if (text === null) return null;
  try {
    const file: unknown = JSON.parse(text);
    if (typeof file !== 'object' || file === null || !('token' in file) || !('server' in file)) return null;
    return file.server === EMBEDDED_SERVER && typeof file.token === 'string' ? file.token : null;
  } catch {
    return null;
  }
}

/** Platform trouble: what kind a failed attempt was, and the incident that parks and heartbeats keep of it. Pure. */

import { isoOf, type PlatformIncidentReceipt } from '../protocol/stack-receipt.ts';

export type IncidentReason = 'platform_auth_unavailable' | 'platform_unreachable';

/** A failed attempt; `status` is null when there was no answer of a coordinator at all. */
export interface Trouble {
  status: number | null;
  code: string | null;
  message: string;
}

/** As it stands on every receipt; `reason` and the last error are those of the latest failure. */
export interface PlatformIncident extends PlatformIncidentReceipt {
  reason: IncidentReason;
}

const LAST_ERROR_CHARS_MAX = 300;

/** `auth` and `unreachable` pass by themselves; `refused` is an answer. */
export type TroubleKind = 'auth' | 'unreachable' | 'refused';

export function troubleKind({ status }: Trouble): TroubleKind {
  if (status === 401 || status === 403) return 'auth';
  if (status === null || status === 408 || status === 429 || status >= 500 || status < 400) return 'unreachable';
  return 'refused';
}

export function isOpen(incident: PlatformIncident | null): boolean {
  return incident !== null && !incident.recovered;
}

/** Opens an incident, or goes on with the one there is. */
export function withFailure(
  incident: PlatformIncident | null,
  kind: Exclude<TroubleKind, 'refused'>,
  trouble: Trouble,
  wallMs: number,
): PlatformIncident {
  const at = isoOf(wallMs) ?? '';
  return {
    reason: kind === 'auth' ? 'platform_auth_unavailable' : 'platform_unreachable',
    first_at: incident?.first_at ?? at,
    last_at: at,
    attempts: (incident?.attempts ?? 0) + 1,
    recovered: false,
    last_error: trouble.message.slice(0, LAST_ERROR_CHARS_MAX),
    last_error_code: trouble.code,
  };
}

/** After any attempt that ended without a failure of this kind. */
export function withRecovery(incident: PlatformIncident | null): PlatformIncident | null {
  return incident === null || incident.recovered ? incident : { ...incident, recovered: true };
}

/** The one incident of a command that had several parks and a heartbeat; the latest failure tells how it stands. */
export function mergedIncident(a: PlatformIncident | null, b: PlatformIncident | null): PlatformIncident | null {
  if (a === null || b === null) return a ?? b;
  const earliest = a.first_at <= b.first_at ? a : b;
  const latest = b.last_at >= a.last_at ? b : a;
  return {
    ...latest,
    first_at: earliest.first_at,
    attempts: a.attempts + b.attempts,
  };
}

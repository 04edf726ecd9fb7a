/** `wait`: parks on conditions and ends with one receipt. The wait itself lives at the coordinator. */
import type { CoordinatorClient } from '../client/calls.ts';
import { type ParkEnd, park } from '../client/park.ts';
import { systemClock } from '../platform/clock.ts';
import { newId } from '../platform/random.ts';
import { onTerminationSignals } from '../platform/signals.ts';
import { exitCodeOf, SIGNAL_EXIT } from '../protocol/outcomes.ts';
import type { PlatformIncidentReceipt } from '../protocol/stack-receipt.ts';

export interface WaitRequest {
  readonly conditions: readonly string[];
  readonly mode: 'all' | 'any';
  readonly timeoutMs: number;
  readonly agent: string;
}

export interface WaitReceipt {
  schema_version: 1;
  command: 'wait';
  outcome: 'matched' | 'timeout' | 'error' | 'lease_lost' | 'abandoned' | 'interrupted';
  code: string | null;
  matched: { condition: string | number; seq: number; subject: string }[];
  state: Record<string, unknown>;
  next_cursor: string | null;
  wait_session_id: string;
  platform_incident?: PlatformIncidentReceipt;
  exit_code: number;
  error: string | null;
}

export async function waitForConditions(client: CoordinatorClient, request: WaitRequest): Promise<WaitReceipt> {
  const waitId = newId();
  const abort = new AbortController();
  let signalName: string | null = null;
  const unlisten = onTerminationSignals((signal) => {
    signalName ??= signal;
    abort.abort();
  });
  try {
    const end = await park(client, {
      waitId,
      conditions: [...request.conditions],
      mode: request.mode,
      deadlineMs: systemClock.monotonicMs() + request.timeoutMs,
      agent: request.agent,
      endsWhenDeferred: false,
      signal: abort.signal,
    });
    return receiptOf(end, request, signalName);
  } finally {
    unlisten();
  }
}

const OUTCOME: Record<ParkEnd['outcome'], WaitReceipt['outcome']> = {
  matched: 'matched',
  deferred: 'error',
  lease_lost: 'lease_lost',
  lease_cleanup_failed: 'error',
  timeout: 'timeout',
  interrupted: 'interrupted',
  abandoned: 'abandoned',
  error: 'error',
};

function receiptOf(end: ParkEnd, request: WaitRequest, signalName: string | null): WaitReceipt {
  return {
    schema_version: 1,
    command: 'wait',
    outcome: OUTCOME[end.outcome],
    code: end.code,
    matched: end.matched.map((match) => ({
      ...match,
      condition: request.conditions[match.condition] ?? match.condition,
    })),
    state: end.state,
    next_cursor: end.cursor,
    wait_session_id: end.waitId,
    ...(end.incident === null ? {} : { platform_incident: end.incident }),
    exit_code: exitOf(end, signalName),
    error: end.error,
  };
}

function exitOf(end: ParkEnd, signalName: string | null): number {
  switch (end.outcome) {
    case 'matched':
      return 0;
    case 'interrupted':
      return SIGNAL_EXIT[signalName ?? 'SIGTERM'] ?? 143;
    case 'timeout':
      return 2;
    case 'lease_lost':
      return exitCodeOf('LEASE_LOST', 'wait');
    case 'lease_cleanup_failed':
      return exitCodeOf('lease_cleanup_failed', 'wait');
    case 'abandoned':
      return exitCodeOf('wait_abandoned', 'wait');
    default:
      return exitCodeOf(end.code ?? 'internal', 'wait');
  }
}

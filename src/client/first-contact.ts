/**
 * A coordinator that runs but does not answer would let every command hang without a word: at the first contact a call
 * that stays without an answer is checked against the cheapest request there is. A stopped process is not waited for;
 * a busy one is, and the user is told which one it is.
 */
import { systemClock } from '../platform/clock.ts';
import { readProcess } from '../platform/process-table.ts';
import { sleepMs, withTimeout } from '../platform/timers.ts';
import type { DiscoveryFile } from '../protocol/discovery.ts';
import type { Found } from './coordinator-finder.ts';
import { exchange } from './http-exchange.ts';

const SILENT_MS = 1_000;
const PROBE_MS = 700;

/** Settles with the exchange itself, or with `stopped` when waiting for it is no use. */
export async function withFirstContactCheck<T>(
  found: Found,
  pending: Promise<T>,
  tell: (notice: string) => void,
): Promise<T | 'stopped'> {
  const first = await withTimeout(pending, SILENT_MS);
  if (first !== 'timed_out') return first;
  const probe = new AbortController();
  const alive = exchange(found, { method: 'GET', path: '/healthz', headers: {}, signal: probe.signal }).then(
    () => 'answered' as const,
    () => 'answered' as const,
  );
  const answer = await Promise.race([pending.then(() => 'answered' as const), alive, sleepMs(PROBE_MS)]);
  probe.abort();
  if (answer === 'answered') return pending;
  if (found.discovery !== null && isStopped(found.discovery)) return 'stopped';
  tell(silentWords(found));
  return pending;
}

const isStopped = ({ identity }: DiscoveryFile): boolean => readProcess(identity.pid)?.state.toUpperCase() === 'T';

/** The path, the owner, its age, the repair. */
export function silentWords({ url, discovery }: Found): string {
  if (discovery === null) return `the coordinator at ${url} does not answer`;
  const { socket, identity, started_at } = discovery;
  const ageSecs = Math.max(0, Math.round((systemClock.wallMs() - Date.parse(started_at)) / 1_000));
  const verb = isStopped(discovery) ? 'is stopped' : 'does not answer';
  const repair = `end it with 'kill -9 ${identity.pid}', and the next command starts another one`;
  return `the coordinator at ${socket} (pid ${identity.pid}, started ${ageSecs} s ago) ${verb}; ${repair}`;
}

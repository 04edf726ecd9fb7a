/**
 * A coordinator that runs but does not answer would let every command hang: at the first contact a call that stays
 * without an answer is checked against the cheapest request there is, and the process is named.
 */
import { systemClock } from '../platform/clock.ts';
import { sleepMs, withTimeout } from '../platform/timers.ts';
import type { DiscoveryFile } from '../protocol/discovery.ts';
import { type Address, exchange } from './http-exchange.ts';

const SILENT_MS = 1_000;
const PROBE_MS = 700;

/** Settles with the exchange itself, or with `hung` when the coordinator answers nothing at all. */
export async function withFirstContactCheck<T>(address: Address, pending: Promise<T>): Promise<T | 'hung'> {
  const first = await withTimeout(pending, SILENT_MS);
  if (first !== 'timed_out') return first;
  const probe = new AbortController();
  const alive = exchange(address, { method: 'GET', path: '/healthz', headers: {}, signal: probe.signal }).then(
    () => true,
    () => false,
  );
  const answer = await Promise.race([pending.then(() => 'answered' as const), alive, sleepMs(PROBE_MS)]);
  probe.abort();
  return answer === 'elapsed' ? 'hung' : pending;
}

/** The path, the owner, its age, the repair. */
export function hungMessage({ socket, identity, started_at }: DiscoveryFile): string {
  const ageSecs = Math.max(0, Math.round((systemClock.wallMs() - Date.parse(started_at)) / 1_000));
  const repair = `end it with 'kill -9 ${identity.pid}', and the next command starts another one`;
  return `the coordinator at ${socket} (pid ${identity.pid}, started ${ageSecs} s ago) does not answer; ${repair}`;
}

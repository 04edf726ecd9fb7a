/** What a run was asked for, and what each of its parks waits for. */
import { BACKOFF } from '../client/park-rules.ts';
import type { RunFacts } from './stack-run-facts.ts';
import type { ParkedPhase } from './stack-run-model.ts';

/** Where a run is; `child` means that the terminal belongs to the command from now on. */
export interface RunProgress {
  readonly phase: ParkedPhase | 'child';
  readonly lease: RunFacts['lease'];
  readonly facts: RunFacts;
}

export interface RunRequest {
  readonly command: 'stack run' | 'stack up';
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly mode: 'attached' | 'detached';
  readonly priority: number;
  readonly timeoutMs: number;
  readonly provisionTimeoutMs: number;
  readonly reapTimeoutMs: number;
  readonly hardTtlMs: number | null;
  readonly connectionFile: string | null;
  readonly labels: Record<string, string>;
  readonly onProgress: (progress: RunProgress) => void;
}

export function conditionOf(phase: ParkedPhase, leaseId: string): string {
  switch (phase) {
    case 'queue':
      return `lease:id=${leaseId}`;
    case 'provision':
      return `lease:id=${leaseId},state=active`;
    case 'slot':
    case 'proof':
      return `lease:id=${leaseId},state=reaped`;
  }
}

/** Pauses after blips that leave a queued lease its place: the stream is back within the lease's TTL. */
export function backoffWithin(ttlMs: number): { firstMs: number; maxMs: number } {
  return { firstMs: Math.min(BACKOFF.firstMs, ttlMs / 4), maxMs: Math.min(BACKOFF.maxMs, ttlMs / 2) };
}

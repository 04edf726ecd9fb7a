/** How a run's end and its cleanup become outcome, exit code and outcome record. Pure; the table of exit codes of `stack`. */
import { exitCodeOf, SIGNAL_EXIT } from '../protocol/outcomes.ts';
import type { CleanupState, RunEnd } from './stack-run-model.ts';

export const EXIT_CLEANUP_UNPROVEN = 8;
const EXIT_QUEUED = 1;
const SIGNAL_BASE = 128;
const SIGNAL_NUMBERS: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
};

export type StackOutcome =
  | 'completed'
  | 'failed'
  | 'queued'
  | 'idle'
  | 'released'
  | 'timeout'
  | 'error'
  | 'interrupted';

export interface EndVerdict {
  outcome: StackOutcome;
  code: string | null;
  exitCode: number;
  error: string | null;
  childExitCode: number | null;
}

export function childExitCode(exitCode: number | null, signal: string | null): number {
  if (exitCode !== null) return exitCode;
  return SIGNAL_BASE + (SIGNAL_NUMBERS[signal ?? ''] ?? 0);
}

const PARK_EXIT = { timeout: 2, lost: 6, error: 6, auth: 3 } as const;

function verdict(outcome: StackOutcome, code: string | null, exitCode: number, error: string | null): EndVerdict {
  return { outcome, code, exitCode, error, childExitCode: null };
}

function primaryVerdict(end: RunEnd, command: 'run' | 'up'): EndVerdict {
  switch (end.by) {
    case 'child': {
      const exitCode = childExitCode(end.exit_code, end.signal);
      const failure =
        end.signal === null ? `the command ended with ${exitCode}` : `the command was ended by ${end.signal}`;
      return {
        ...verdict(exitCode === 0 ? 'completed' : 'failed', null, exitCode, exitCode === 0 ? null : failure),
        childExitCode: exitCode,
      };
    }
    case 'fence':
      return verdict('error', 'LEASE_LOST', 6, end.message);
    case 'hard_ttl':
      return verdict('timeout', 'HARD_TTL', 2, 'the hard TTL of this run has passed');
    case 'signal':
      return verdict(
        'interrupted',
        'interrupted',
        SIGNAL_EXIT[end.signal] ?? SIGNAL_BASE,
        `interrupted by ${end.signal}`,
      );
    case 'park': {
      const exitCode = end.kind === 'error' && command === 'up' ? 5 : PARK_EXIT[end.kind];
      return verdict(end.kind === 'timeout' ? 'timeout' : 'error', end.code, exitCode, end.message);
    }
    case 'refusal':
      return verdict('error', end.refusal.code, exitCodeOf(end.refusal.code, 'stack'), end.refusal.message);
    case 'admission_unknown':
      return verdict('error', end.code, exitCodeOf(end.code, 'stack'), `admission is unknown: ${end.message}`);
    case 'failure':
      return verdict('error', end.code, exitCodeOf(end.code, 'stack'), end.message);
    case 'ready':
      return verdict('completed', null, 0, null);
    case 'queued':
      return verdict('queued', null, EXIT_QUEUED, null);
  }
}

/** Ends that an unproven cleanup overrules with exit 8. Signals, the queue, and the child's own end keep their code. */
function isOverruled(end: RunEnd, exitCode: number): boolean {
  switch (end.by) {
    case 'child':
      return exitCode === 0;
    case 'park':
      return end.kind === 'auth' || end.phase === 'provision';
    default:
      return false;
  }
}

export function judgeEnd(end: RunEnd, cleanup: CleanupState, command: 'run' | 'up'): EndVerdict {
  const primary = primaryVerdict(end, command);
  if (cleanup.kind !== 'unproven' || !isOverruled(end, primary.exitCode)) return primary;
  const isTimeout = end.by === 'park' && end.kind === 'timeout';
  return {
    ...primary,
    exitCode: EXIT_CLEANUP_UNPROVEN,
    code: primary.code ?? 'cleanup_unproven',
    error: isTimeout || primary.error === null ? cleanup.message : primary.error,
  };
}

export interface OutcomeRecord {
  category: 'interrupted' | 'platform' | 'script' | 'capacity' | 'usage' | 'internal';
  code: string;
}

/** Who decided: the first match wins. `hadIncident` means that a platform incident was open at the end. */
export function outcomeRecord(
  end: RunEnd,
  result: EndVerdict,
  facts: { admitted: boolean; hadIncident: boolean },
): OutcomeRecord {
  const code = result.code ?? (result.childExitCode === null ? result.outcome : `exit_${result.childExitCode}`);
  if (end.by === 'signal') return { category: 'interrupted', code };
  if (code.startsWith('platform_')) return { category: 'platform', code };
  if (end.by === 'fence') return { category: 'platform', code: 'LEASE_LOST' };
  if (end.by === 'child' && result.exitCode === EXIT_CLEANUP_UNPROVEN && result.childExitCode === 0) {
    return { category: 'platform', code: 'cleanup_unproven' };
  }
  if (end.by === 'child') return { category: 'script', code };
  if (end.by === 'hard_ttl') return { category: 'script', code };
  if (result.outcome === 'timeout')
    return { category: facts.admitted || facts.hadIncident ? 'platform' : 'capacity', code };
  if (result.exitCode === 4) return { category: 'usage', code };
  return { category: 'internal', code };
}

/** What a person sees while a command is parked: one line that is rewritten on a terminal, a few plain lines elsewhere. */
import type { RunProgress } from '../flows/stack-run-request.ts';
import { systemClock } from '../platform/clock.ts';
import { canAnimate, terminalWidth, writeStderr } from '../platform/terminal.ts';
import { every } from '../platform/timers.ts';
import type { HostLedger, LeaseView } from '../protocol/records.ts';
import { ageText } from './output.ts';

const CLEAR_LINE = '\r\u001b[K';
const REDRAW_MS = 1_000;

export interface ProgressReporter {
  show(progress: RunProgress): void;
  /** Takes the line off the terminal and draws no more. */
  clear(): void;
}

export function progressReporter(): ProgressReporter {
  return canAnimate() ? new LiveLine() : new PlainLines();
}

/** One line that is rewritten each second, from the second second on: what is quick shows nothing. */
class LiveLine implements ProgressReporter {
  #latest: RunProgress | null = null;
  #drawn = false;
  readonly #stop = every(REDRAW_MS, () => this.#draw());

  show(progress: RunProgress): void {
    if (progress.phase === 'child') this.#erase();
    this.#latest = progress.phase === 'child' ? null : progress;
  }

  clear(): void {
    this.#stop();
    this.#erase();
  }

  #draw(): void {
    if (this.#latest === null) return;
    const { phase, lease, facts } = this.#latest;
    writeStderr(`${CLEAR_LINE}${progressLine(phase, lease, facts.ledger).slice(0, terminalWidth() - 1)}`);
    this.#drawn = true;
  }

  #erase(): void {
    if (this.#drawn) writeStderr(CLEAR_LINE);
    this.#drawn = false;
  }
}

/** Once, when a run has to wait for its turn: what a log keeps of it. A host that is only starting is not worth a line. */
class PlainLines implements ProgressReporter {
  #said = false;

  show({ phase, lease, facts }: RunProgress): void {
    if (this.#said || phase !== 'queue' || lease?.state !== 'queued' || lease.queue_reason === 'host_starting') return;
    this.#said = true;
    for (const line of ledgerLines(lease, facts.ledger, facts.considered)) writeStderr(`${line}\n`);
  }

  clear(): void {}
}

function progressLine(phase: string, lease: LeaseView | null, ledger: HostLedger | null): string {
  switch (phase) {
    case 'queue': {
      const holder = ledger?.leases[0];
      const held =
        holder === undefined ? '' : `, held by ${holder.project ?? holder.tenant_id} for ${ageOf(holder.since)}`;
      return `waiting for a turn: position ${lease?.queue_position ?? '?'} (${lease?.queue_reason ?? 'capacity'})${held}`;
    }
    case 'provision':
      return 'starting the stack';
    case 'proof':
      return 'waiting for the proof of the cleanup';
    default:
      return 'waiting for the last stack of this worktree to end';
  }
}

const ageOf = (since: number): string => ageText(systemClock.wallMs() - since);

/** Position, ledger, and each considered host with its verdict: what a log keeps of a park. */
function ledgerLines(
  lease: LeaseView | null,
  ledger: HostLedger | null,
  considered: readonly { host_key: string; verdict_code: string }[] | null,
): string[] {
  const lines = [`queued: position ${lease?.queue_position ?? '?'}, ${lease?.queue_reason ?? 'capacity'}`];
  if (ledger !== null) {
    const { free_slots, budget_free_slots, observed_unmanaged_projects } = ledger.capacity;
    lines.push(
      `host ${ledger.host_key}: ${ledger.capacity_units} units, ${ledger.verdict}, free ${free_slots}, ` +
        `budget free ${budget_free_slots}, unmanaged ${observed_unmanaged_projects}`,
    );
    for (const holder of ledger.leases) {
      lines.push(
        `  ${holder.state} for ${ageOf(holder.since)}: ${holder.project ?? holder.tenant_id}, ${holder.units} units`,
      );
    }
  }
  for (const { host_key, verdict_code } of considered ?? []) lines.push(`considered ${host_key}: ${verdict_code}`);
  return lines;
}

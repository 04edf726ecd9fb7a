/** What a person sees while a command is parked: one line that is rewritten on a terminal, a few plain lines elsewhere. */
import type { RunRequest } from '../flows/stack-run-request.ts';
import { systemClock } from '../platform/clock.ts';
import { canAnimate, terminalWidth, writeStderr } from '../platform/terminal.ts';
import type { HostLedger, LeaseView } from '../protocol/records.ts';
import { ageText } from './output.ts';

type Show = RunRequest['onProgress'];

const CLEAR_LINE = '\r\u001b[K';

export function progressReporter(): { show: Show; clear: () => void } {
  const animated = canAnimate();
  let shown = false;
  const saidOnce = new Set<string>();
  return {
    show: ({ phase, lease, facts }) => {
      if (phase === 'queue' && !saidOnce.has('ledger')) {
        saidOnce.add('ledger');
        if (!animated) for (const line of ledgerLines(lease, facts.ledger, facts.considered)) writeStderr(`${line}\n`);
      }
      if (!animated) return;
      const text = progressLine(phase, lease, facts.ledger);
      writeStderr(`${CLEAR_LINE}${text.slice(0, terminalWidth() - 1)}`);
      shown = true;
    },
    clear: () => {
      if (shown) writeStderr(CLEAR_LINE);
    },
  };
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

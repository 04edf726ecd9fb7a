/** What a run learns on its way and its receipt tells. */
import { mergedIncident } from '../client/incident-rules.ts';
import type { HostLedger, LeaseView } from '../protocol/records.ts';
import type { StackPlan } from '../protocol/stack-plan.ts';
import type { PlatformIncidentReceipt, PortBlockOutcome } from '../protocol/stack-receipt.ts';
import type { ConsideredHost } from '../protocol/tool-calls.ts';

export class RunFacts {
  lease: LeaseView | null = null;
  plan: StackPlan | null = null;
  considered: ConsideredHost[] | null = null;
  ledger: HostLedger | null = null;
  incident: PlatformIncidentReceipt | null = null;
  parkReason: string | null = null;
  portBlock: PortBlockOutcome | null = null;
  wantedBase: number | null = null;
  gotBase: number | null = null;
  envNames: string[] = [];
  survivorsEnded = 0;
  survivorsLeft = 0;
  readonly warnings: string[] = [];

  /** All trouble with the coordinator, of every park and of the heartbeats, stays on the receipt. */
  meet(incident: PlatformIncidentReceipt | null): void {
    this.incident = mergedIncident(this.incident, incident);
  }

  /** The latest view wins; a view of another lease never replaces ours. */
  see(lease: LeaseView): void {
    if (this.lease === null || this.lease.lease_id === lease.lease_id) this.lease = lease;
  }
}

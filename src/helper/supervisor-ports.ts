/** The supervisors of this home, as the Helper sees and treats them. */
import type { LeaseForHelper } from '../protocol/tool-calls.ts';
import type { SupervisorFacts } from './host-rules.ts';

export interface SeenSupervisor extends SupervisorFacts {
  readonly slot_dir: string;
}

export interface SupervisorPorts {
  /** Every supervisor that lives in this home now. */
  scan(): Promise<SeenSupervisor[]>;
  renew(seen: SeenSupervisor, lease: LeaseForHelper): Promise<void>;
  /** Stops one whose lease nobody knows: its services end, nothing on the disk is removed. */
  end(seen: SeenSupervisor): Promise<void>;
  /** Calls `gone` once when the supervisor's socket closes. The returned function stops watching. */
  watch(seen: SeenSupervisor, gone: (why: string) => void): () => void;
  /** Ends what a supervisor that is gone left running for this lease. */
  endGroups(lease: LeaseForHelper): Promise<void>;
}

/** The records of the machines as they cross the wire. Types only. */
export type { LeaseRequest, StatementFacts } from '../core/inputs.ts';
export type {
  CleanupProof,
  Connection,
  Disposition,
  EndedWait,
  Job,
  JobKind,
  Lease,
  LeaseMode,
  LeaseState,
  PortBlock,
  ReapReason,
  WaitOutcome,
} from '../core/model.ts';
export type { HostLedger, LeaseView } from '../core/views.ts';

import type { StatementFacts } from '../core/inputs.ts';
export type StatementKind = StatementFacts['kind'];

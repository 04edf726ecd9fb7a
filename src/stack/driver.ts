/**
 * The one contract of all drivers. Intent is written before the first side effect, every step may be repeated, and
 * absence is looked for afresh: it never follows from a step that said it was done.
 */
import type { Connection } from '../protocol/connection.ts';
import type { StackPlan } from '../protocol/stack-plan.ts';

export type Disposition = 'destroy' | 'stop';

export interface DriverContext {
  readonly home: string;
  readonly slotDir: string;
  /** Null where it is not there any more: ending and proving need only what was recorded at creation. */
  readonly plan: StackPlan | null;
  readonly planDigest: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly ttlMs: number;
}

export interface StackFailure {
  readonly code: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export type UpResult =
  | { readonly outcome: 'ready'; readonly connection: Connection }
  | ({ readonly outcome: 'failed' } & StackFailure);

export type NotWhole =
  | 'never_created'
  | 'other_lease'
  | 'plan_changed'
  | 'supervisor_gone'
  | 'not_ready'
  | 'service_ended'
  | 'guard_lost'
  | 'port_not_bound'
  | 'port_not_ours'
  | 'worktree_recreated';

export interface ServiceEnded {
  readonly service: string;
  readonly exit_code: number | null;
  readonly signal: string | null;
  readonly ended_at: number;
}

export type Inspection =
  | { readonly whole: true; readonly connection: Connection }
  | { readonly whole: false; readonly reason: NotWhole; readonly detail: string };

export interface LookedFor {
  readonly kind: 'group' | 'marked' | 'port' | 'directory' | 'child' | 'supervisor';
  readonly id: string;
  readonly before: 'present' | 'absent' | 'unknown';
  readonly after: 'absent' | 'present' | 'unknown';
}

export type Renewal =
  | { readonly renewed: true; readonly service_ended: readonly ServiceEnded[] }
  | { readonly renewed: false };

export interface StackDriver {
  /** Writes down what will have to be proven absent; starts nothing. */
  prepare(ctx: DriverContext): Promise<void>;
  /** Starts the stack and answers when it is ready or has failed; joins a start that is under way. */
  up(ctx: DriverContext): Promise<UpResult>;
  /** Whether it is still the same stack, and all of it. */
  inspect(ctx: DriverContext): Promise<Inspection>;
  /** Tells the stack's own net that the lease is alive. */
  renew(ctx: DriverContext): Promise<Renewal>;
  /** Ends all that belongs to the lease, its child too; refuses with OLD_GENERATION for an older grant. */
  down(ctx: DriverContext, disposition: Disposition): Promise<void>;
  /** Looks for everything that was recorded at creation. */
  absence(ctx: DriverContext, disposition?: Disposition): Promise<LookedFor[]>;
}

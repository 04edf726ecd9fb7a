/** What a tool is: a strict schema at the door, and a handler that turns arguments into an input and its answer. */
import type { Principal, Refusal } from '../core/inputs.ts';
import type { EventLog } from '../log/event-log.ts';
import { sha256Hex } from '../platform/random.ts';
import type { ToolCalls, ToolName } from '../protocol/tool-calls.ts';
import type { ArgsSchema } from '../protocol/tool-schemas.ts';
import type { CoordinatorClock } from './coordinator-clock.ts';
import type { Answer, Engine } from './engine.ts';
import type { LivenessTable } from './liveness-table.ts';

/** The machine and home that this coordinator runs on. */
export interface OwnHost {
  host_id: string;
  host_key: string;
  machine_id: string | null;
}

export interface Coordinator {
  readonly engine: Engine;
  readonly log: EventLog;
  readonly clock: CoordinatorClock;
  readonly liveness: LivenessTable;
  readonly ownHost: OwnHost;
  readonly version: string;
  readonly startedAt: number;
}

export interface ToolContext extends Coordinator {
  readonly caller: Principal;
  /** The highest event that the caller saw; an answer may not be older. */
  readonly seenSeq: number;
}

export interface Tool<N extends ToolName> {
  readonly schema: ArgsSchema<N>;
  /** A Helper's own traffic does not keep an embedded coordinator from ending by itself. */
  readonly fromHelper?: true;
  readonly handle: (args: ToolCalls[N]['args'], context: ToolContext) => Promise<Answer<ToolCalls[N]['result']>>;
}

export type ToolTable = { readonly [N in ToolName]: Tool<N> };

/** The key of a mutating call, with a hash of everything else in it. */
export function idempotencyOf(
  tool: ToolName,
  { idempotency_key, ...args }: { idempotency_key: string },
): { key: string; args_hash: string } {
  return { key: idempotency_key, args_hash: sha256Hex(`${tool}\n${stableJson(args)}`) };
}

function stableJson(value: unknown): string {
  return JSON.stringify(value, (_name, inner: unknown) => {
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

export function refusal(
  code: string,
  message: string,
  fields: Refusal['fields'] = {},
): { ok: false; refusal: Refusal } {
  return { ok: false, refusal: { code, message, fields } };
}

export const isOwn = (record: { tenant: string; principal: string }, caller: Principal): boolean =>
  record.tenant === caller.tenant && record.principal === caller.principal;

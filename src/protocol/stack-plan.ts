/**
 * The resolved stack: all that a Helper needs to start, stop and prove it, without the worktree at hand.
 * Its digest travels with the lease; the bytes stay on the host. Texts are templates until the lease is known.
 */
import * as z from 'zod/mini';
import { portBlockSchema, portNumber, projectId } from './claim.ts';
import { STOP_SIGNALS } from './stack-config.ts';

const argv = z.array(z.string()).check(z.minLength(1));
const positiveMs = z.int().check(z.minimum(1));

export const plannedReadySchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('tcp'), port: portNumber, timeout_ms: positiveMs }),
  z.strictObject({ kind: z.literal('http'), url: z.string(), timeout_ms: positiveMs }),
  z.strictObject({ kind: z.literal('exec'), command: argv, timeout_ms: positiveMs }),
]);
export type PlannedReady = z.infer<typeof plannedReadySchema>;

export const plannedServiceSchema = z.strictObject({
  name: z.string(),
  prepare: z.array(argv),
  command: argv,
  ready: z.nullable(plannedReadySchema),
  stop: z.strictObject({ signal: z.enum(STOP_SIGNALS), grace_ms: positiveMs }),
  cwd: z.string(),
});
export type PlannedService = z.infer<typeof plannedServiceSchema>;

export const stackPlanSchema = z.strictObject({
  schema_version: z.literal(1),
  driver: z.literal('process'),
  slot: z.string(),
  project: projectId,
  host: z.string(),
  worktree_root: z.string(),
  stack_dir: z.string(),
  slot_dir: z.string(),
  data_dir: z.string(),
  blocks: z.array(portBlockSchema).check(z.minLength(1)),
  ports: z.record(z.string(), portNumber),
  guard_ports: z.array(portNumber).check(z.minLength(1)),
  services: z.array(plannedServiceSchema),
  setup: z.array(argv),
  env: z.record(z.string(), z.string()),
});
export type StackPlan = z.infer<typeof stackPlanSchema>;

/**
 * What a stack leaves on the disk of its host: intent at creation, what was seen before a teardown, the supervisor's
 * state, the data directory's stamp. Another version of the program may read it, so its shape is fixed here.
 */
import * as z from 'zod/mini';
import { processIdentitySchema } from './claim.ts';
import { STOP_SIGNALS } from './stack-config.ts';

const lookSchema = z.strictObject({
  kind: z.enum(['group', 'marked', 'port', 'directory', 'child', 'supervisor']),
  id: z.string(),
  seen: z.enum(['present', 'absent', 'unknown']),
});
export type Look = z.infer<typeof lookSchema>;

/** Written before anything of the stack exists. */
export const creationSchema = z.strictObject({
  schema_version: z.literal(1),
  lease_id: z.string(),
  /** The newest grant that acted on the stack. */
  fencing_token: z.number(),
  slot: z.string(),
  project: z.string(),
  plan_digest: z.string(),
  ports: z.array(z.number()),
  limit_ms: z.number(),
  created_at: z.number(),
});
export type Creation = z.infer<typeof creationSchema>;

/** What was seen before the first teardown of a grant. */
export const beforeSchema = z.strictObject({
  schema_version: z.literal(1),
  lease_id: z.string(),
  fencing_token: z.number(),
  disposition: z.enum(['destroy', 'stop']),
  looked_for: z.array(lookSchema),
});
export type Before = z.infer<typeof beforeSchema>;

export const startedGroupSchema = z.strictObject({
  name: z.string(),
  kind: z.enum(['service', 'step']),
  identity: processIdentitySchema,
  stop: z.strictObject({ signal: z.enum(STOP_SIGNALS), grace_ms: z.number() }),
});
export type StartedGroup = z.infer<typeof startedGroupSchema>;

export const serviceEndedSchema = z.strictObject({
  service: z.string(),
  exit_code: z.nullable(z.number()),
  signal: z.nullable(z.string()),
  ended_at: z.number(),
});

export const supervisorStateSchema = z.strictObject({
  schema_version: z.literal(1),
  identity: processIdentitySchema,
  lease_id: z.string(),
  /** The highest that any request bore. */
  fencing_token: z.number(),
  plan_digest: z.string(),
  phase: z.enum(['waiting', 'starting', 'ready', 'failed', 'stopping', 'stopped']),
  failure: z.nullable(
    z.strictObject({ code: z.string(), message: z.string(), fields: z.record(z.string(), z.unknown()) }),
  ),
  /** In the order in which they were started. */
  groups: z.array(startedGroupSchema),
  service_ended: z.array(serviceEndedSchema),
  stopped_because: z.nullable(z.enum(['asked', 'limit', 'signal'])),
});
export type SupervisorState = z.infer<typeof supervisorStateSchema>;

/** What was done to the data directory; `begun` without `done` means that it is in no known state. */
export const stampSchema = z.strictObject({
  schema_version: z.literal(1),
  steps: z.record(z.string(), z.enum(['begun', 'done'])),
});
export type Stamp = z.infer<typeof stampSchema>;

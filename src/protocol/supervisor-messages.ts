/** What a driver asks the supervisor of a stack, and what it answers; one JSON line each. */
import * as z from 'zod/mini';
import { serviceEndedSchema, startedGroupSchema } from './stack-records.ts';

export const requestSchema = z.strictObject({
  id: z.number(),
  op: z.enum(['up', 'inspect', 'renew', 'stop']),
  lease_id: z.string(),
  fencing_token: z.number(),
  limit_ms: z.number().check(z.minimum(1)),
});
export type SupervisorRequest = z.infer<typeof requestSchema>;

export const inspectionSchema = z.strictObject({
  phase: z.enum(['waiting', 'starting', 'ready', 'failed', 'stopping', 'stopped']),
  plan_digest: z.string(),
  groups: z.array(startedGroupSchema),
  service_ended: z.array(serviceEndedSchema),
  guards_held: z.boolean(),
});

export const replySchema = z.discriminatedUnion('outcome', [
  z.strictObject({ id: z.number(), outcome: z.literal('done'), inspection: inspectionSchema }),
  z.strictObject({
    id: z.number(),
    outcome: z.literal('failed'),
    code: z.string(),
    message: z.string(),
    fields: z.record(z.string(), z.unknown()),
  }),
]);
export type SupervisorReply = z.infer<typeof replySchema>;

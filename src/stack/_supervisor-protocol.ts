/** What a driver asks a supervisor, and what it answers; one JSON line each. */

import { basename } from 'node:path';
import * as z from 'zod/mini';
import { Failure } from '../platform/failure.ts';
import { socketPath } from '../platform/paths.ts';
import { serviceEndedSchema, startedGroupSchema } from './_records.ts';

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

/** Refuses whoever speaks for another lease, or with an older grant than was seen. */
export function requireCurrent(
  request: Pick<SupervisorRequest, 'lease_id' | 'fencing_token'>,
  seen: { readonly lease_id: string; readonly fencing_token: number },
): void {
  const { lease_id, fencing_token } = request;
  if (lease_id === seen.lease_id && fencing_token >= seen.fencing_token) return;
  const what = `grant ${fencing_token} of lease ${lease_id}`;
  throw new Failure('OLD_GENERATION', `${what}: this stack is of grant ${seen.fencing_token}, lease ${seen.lease_id}`, {
    fields: { lease_id: seen.lease_id, fencing_token: seen.fencing_token },
  });
}

export function supervisorSocket(home: string, slotDir: string): string {
  return socketPath(home, `sup-${basename(slotDir)}`);
}

/** Fields that many tools share, each with its bound. */
import * as z from 'zod';
import { BOUNDS } from '../../core/bounds.ts';
import { canonicalUuid } from '../../protocol/conditions.ts';

const DURATION_MS_MAX = 400 * 24 * 3_600_000;

export const id = z.string().min(1).max(200);
export const text = z.string().max(4_096);
export const path = z.string().max(4_096);
/** Every spelling of a UUID is one id. */
export const leaseId = id.transform((given) => canonicalUuid(given) ?? given);
export const durationMs = z.number().min(0).max(DURATION_MS_MAX);
export const fencingToken = z.int().min(0);
export const idempotencyKey = z.string().min(1).max(200);
export const disposition = z.enum(['destroy', 'stop']);
export const leaseMode = z.enum(['attached', 'detached']);

export const portBlock = z.strictObject({
  port_base: z.int().min(1).max(65_535),
  size: z.int().min(1).max(65_535),
});

export const labels = z
  .record(z.string().min(1).max(BOUNDS.labelLengthMax), z.string().max(BOUNDS.labelLengthMax))
  .refine((given) => Object.keys(given).length <= BOUNDS.labelsMax, `at most ${BOUNDS.labelsMax} labels`);

export const signedStatement = z.strictObject({
  statement: z.string().max(512 * 1024),
  key_id: id,
  signature: z.string().max(1_024),
});

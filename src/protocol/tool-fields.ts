/** Fields that many tools share, each with its bound. Full zod: for the coordinator's door, never for a small command. */
import * as z from 'zod';
import { canonicalUuid } from './conditions.ts';

const DURATION_MS_MAX = 400 * 24 * 3_600_000;
export const WIRE_BOUNDS = { labelsMax: 16, labelLengthMax: 256 } as const;

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
  .record(z.string().min(1).max(WIRE_BOUNDS.labelLengthMax), z.string().max(WIRE_BOUNDS.labelLengthMax))
  .refine((given) => Object.keys(given).length <= WIRE_BOUNDS.labelsMax, `at most ${WIRE_BOUNDS.labelsMax} labels`);

export const signedStatement = z.strictObject({
  statement: z.string().max(512 * 1024),
  key_id: id,
  signature: z.string().max(1_024),
});

export const capacityUnits = z.int().min(0).max(1_000_000);
export const jobToken = fencingToken;

export const connection = z.strictObject({
  host: z.string().min(1).max(255),
  ports: z.record(z.string().max(255), z.int().min(1).max(65_535)),
  urls: z.record(z.string().max(255), text),
});

/** How a child reaches its stack. Carries no credentials: it enters the log and receipts. */
import * as z from 'zod/mini';

export const LOOPBACK_HOST = '127.0.0.1';

export const connectionSchema = z.strictObject({
  host: z.string().check(z.minLength(1)),
  ports: z.record(z.string(), z.int().check(z.minimum(1), z.maximum(65_535))),
  urls: z.record(z.string(), z.string()),
});
export type Connection = z.infer<typeof connectionSchema>;

/** The slot's `connection.json`: the connection, and the lease for which it holds. */
export const connectionFileSchema = z.strictObject({
  schema_version: z.literal(1),
  lease_id: z.string(),
  project: z.string(),
  ...connectionSchema.shape,
});
export type ConnectionFile = z.infer<typeof connectionFileSchema>;

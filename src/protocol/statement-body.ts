/** What a Helper's signed statement must say. Unknown fields are left alone: the bytes are what was signed. */
import * as z from 'zod';
import type { StatementBody } from './tool-calls.ts';

const presence = z.enum(['absent', 'present', 'unknown']);

export const statementBodySchema = z.object({
  schema_version: z.literal(1),
  kind: z.enum(['reap', 'rollback', 'pre_driver']),
  lease_id: z.string(),
  slot: z.string(),
  tenant: z.string(),
  host_id: z.string(),
  fencing_token: z.int(),
  plan_digest: z.string(),
  disposition: z.enum(['destroy', 'stop']),
  looked_for: z.array(z.object({ kind: z.string(), id: z.string(), before: z.string(), after: presence })),
  looked_at: z.string(),
  helper_version: z.string(),
  nonce: z.string(),
}) satisfies z.ZodType<StatementBody>;

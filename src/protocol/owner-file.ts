/** `owner.json` in the home: the owner's credential, and the one server that it is sent to. */
import * as z from 'zod';
import { EMBEDDED_SERVER } from './local-identity.ts';

export const ownerFileSchema = z.object({
  schema_version: z.literal(1),
  token: z.string(),
  server: z.literal(EMBEDDED_SERVER),
  created_at: z.string(),
});

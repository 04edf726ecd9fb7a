/**
 * The claim of a port block (one file a block in the registry) and the marker in the stack directory.
 * What may be done with them is decided in the stack room's claim rules, never here.
 */
import * as z from 'zod/mini';

export const CLAIM_SCHEMA = 1;

export const portNumber = z.int().check(z.minimum(1), z.maximum(65_535));
const timeMs = z.number().check(z.minimum(0));
export const projectId = z.string().check(z.regex(/^[A-Za-z0-9_-]{1,64}$/));

export const processIdentitySchema = z.strictObject({
  pid: z.int().check(z.minimum(1)),
  started_at: z.string().check(z.minLength(1)),
  boot_id: z.string().check(z.minLength(1)),
});
export type ProcessIdentityRecord = z.infer<typeof processIdentitySchema>;

export const portBlockSchema = z.strictObject({ port_base: portNumber, size: z.int().check(z.minimum(2)) });
export type PortBlock = z.infer<typeof portBlockSchema>;

export const claimSchema = z
  .strictObject({
    schema: z.literal(CLAIM_SCHEMA),
    project_id: projectId,
    host: z.string().check(z.minLength(1)),
    invocation_token: z.string().check(z.minLength(1)),
    slot: z.string().check(z.minLength(1)),
    stack_dir: z.string().check(z.minLength(1)),
    ...portBlockSchema.shape,
    lease_id: z.nullable(z.string().check(z.minLength(1))),
    created_at: timeMs,
    retain_until: timeMs,
    owner_pid: processIdentitySchema.shape.pid,
    owner_started_at: processIdentitySchema.shape.started_at,
    owner_boot_id: processIdentitySchema.shape.boot_id,
    /** The group that `stack run` started for its command. */
    child: z.nullable(processIdentitySchema),
    /** Set while the lease is kept without an owner, for the next command of the slot. */
    idle: z.nullable(z.strictObject({ since_at: timeMs })),
  })
  .check(z.refine(({ port_base, size }) => port_base + size <= 65_536, 'the block ends beyond port 65535'));
export type Claim = z.infer<typeof claimSchema>;

export const markerSchema = z.strictObject({
  schema: z.literal(CLAIM_SCHEMA),
  invocation_token: z.string().check(z.minLength(1)),
  lease_id: z.nullable(z.string().check(z.minLength(1))),
  project_id: projectId,
  stack_dir: z.string().check(z.minLength(1)),
  /** When the claim was released; from then on the marker binds nobody. */
  released_at: z.nullable(timeMs),
});
export type Marker = z.infer<typeof markerSchema>;

/** What the coordinator knows of the lease that a claim's token or id names. */
export interface LeaseFacts {
  /** A lease that is not terminally reaped; one whose reap failed is alive too. */
  live: boolean;
  lease_id: string | null;
  state: string | null;
}

/** What a caller knows of a lease's end; judged again by the claim rules. */
export interface ReleaseProof {
  lease_id: string;
  state: string;
  cleanup_verified: boolean | null;
  cleanup_proof: string | null;
  cleanup_receipt_id: string | null;
}

/** Why a port block was not released: the `reason` of a receipt's `port_block`. */
export const KEPT_REASONS = [
  'idle',
  'another_lease_on_slot',
  'cleanup_unproven',
  'removal_failed',
  'owner_alive',
  'claim_replaced',
  'marker_unreadable',
  'not_this_worktree',
] as const;
export type KeptReason = (typeof KEPT_REASONS)[number];

export function ownerOf(claim: Claim): ProcessIdentityRecord {
  return { pid: claim.owner_pid, started_at: claim.owner_started_at, boot_id: claim.owner_boot_id };
}

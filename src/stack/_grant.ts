/** The record of a creation as a fence: whose stack is in the slot, and by which grant. */
import { Failure } from '../platform/failure.ts';
import { type Creation, creationSchema } from '../protocol/stack-records.ts';
import { readRecord, writeRecord } from './_records.ts';
import type { DriverContext } from './driver.ts';
import { slotPaths } from './slot.ts';

type Grant = Pick<DriverContext, 'slotDir' | 'leaseId' | 'fencingToken'>;

/**
 * The creation of exactly this lease, null when there is none. Refuses an older grant, and remembers a newer one, so
 * that the older is refused from then on.
 */
export function requireGrant(ctx: Grant): Creation | null {
  const creation = readCreation(ctx.slotDir);
  if (creation === null) return null;
  if (creation.fencing_token > ctx.fencingToken) {
    const words = `grant ${ctx.fencingToken} of lease ${ctx.leaseId}`;
    throw new Failure('OLD_GENERATION', `${words}: the slot belongs to grant ${creation.fencing_token} by now`, {
      fields: { lease_id: creation.lease_id, fencing_token: creation.fencing_token },
    });
  }
  if (creation.lease_id !== ctx.leaseId) return null;
  if (creation.fencing_token === ctx.fencingToken) return creation;
  const renewed = { ...creation, fencing_token: ctx.fencingToken };
  writeRecord(slotPaths(ctx.slotDir).creation, renewed);
  return renewed;
}

/** One that cannot be read is a stack of which nobody knows anything: nothing may be started over it. */
export function readCreation(slotDir: string): Creation | null {
  const path = slotPaths(slotDir).creation;
  const creation = readRecord(path, creationSchema);
  if (creation !== 'unreadable') return creation;
  throw new Failure('stack_leftover', `${path} cannot be read: what was created there is not known`, {
    fields: { file: path },
  });
}

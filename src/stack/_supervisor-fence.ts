/** Where a supervisor listens, and whom it obeys. */
import { basename } from 'node:path';
import { Failure } from '../platform/failure.ts';
import { socketPath } from '../platform/paths.ts';
import type { SupervisorRequest } from '../protocol/supervisor-messages.ts';

/** Exit code of a supervisor that found another one on its slot: that one may still be on its way to its socket. */
export const EXIT_SLOT_TAKEN = 75;

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

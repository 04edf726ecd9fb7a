/** A direct look at a lease: what stands before every decision that a park alone must not make. */
import type { CoordinatorClient } from '../client/calls.ts';
import { systemClock } from '../platform/clock.ts';
import type { LeaseView } from '../protocol/records.ts';

/**
 * The lease as the coordinator has it now; null when it does not say, or when its answer is older than `freshMs`: one
 * that lay through a stop or a suspend says nothing about now.
 */
export async function leaseNow(
  client: CoordinatorClient,
  leaseId: string,
  freshMs = Infinity,
): Promise<LeaseView | null> {
  const askedAt = systemClock.uptimeMs();
  try {
    const { lease } = await client.call('get_stack_lease', { lease_id: leaseId });
    return systemClock.uptimeMs() - askedAt <= freshMs ? lease : null;
  } catch {
    return null;
  }
}

/** The variables of a stack that runs, rendered here from its plan: they are in no log and in no receipt. */
import type { CoordinatorClient } from '../client/calls.ts';
import { Failure } from '../platform/failure.ts';
import { stackVariables, type Variables } from '../stack/connection.ts';
import { loadPlan } from '../stack/plan.ts';
import { slotDirNameOf, slotDirOf, slotPaths } from '../stack/slot.ts';

export async function stackEnvironmentOf(client: CoordinatorClient, home: string, leaseId: string): Promise<Variables> {
  const { lease } = await client.call('get_stack_lease', { lease_id: leaseId });
  if (lease.state !== 'active') {
    throw new Failure('LEASE_LOST', `lease ${leaseId} is ${lease.state}: only an active stack has an environment`, {
      fields: { lease_id: leaseId, state: lease.state },
    });
  }
  const slotDir = slotDirOf(home, slotDirNameOf(lease.slot));
  const { plan } = loadPlan(slotDir, lease.plan_digest);
  return stackVariables(plan, leaseId, slotPaths(slotDir).connection);
}

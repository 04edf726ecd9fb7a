import { leaseMeant } from '../../flows/end-lease.ts';
import { leaseReceipt } from '../../flows/lease-receipt.ts';
import type { CommandModule } from '../command.ts';
import { LEASE_ARG, leaseArgument, withReceipt, worktreeRoot } from '../lease-command.ts';
import { OUTPUT_ARGS } from '../stack-options.ts';

export const command: CommandModule = {
  description: "Tells a lease's state; of a queued one also its place, of a reaped one its proof.",
  args: { ...LEASE_ARG, ...OUTPUT_ARGS },
  run: (argv, around) =>
    withReceipt('stack status', argv, around, async (client) => {
      const leaseId = await leaseMeant(client, leaseArgument(argv), () => worktreeRoot(around));
      const { lease, ledger } = await client.call('get_stack_lease', { lease_id: leaseId });
      const proof = {
        released: lease.state === 'reaped',
        reason: null,
        cleanup_proof: lease.cleanup_proof,
        cleanup_receipt_id: lease.cleanup_receipt_id,
      };
      return {
        ...leaseReceipt('stack status', lease),
        ...(lease.state === 'queued' ? { unit_ledger: ledger } : {}),
        ...(lease.cleanup_proof === null ? {} : { port_block: proof }),
      };
    }),
};

import { endLease } from '../../flows/end-lease.ts';
import { EXIT_CLEANUP_UNPROVEN } from '../../flows/stack-run-ends.ts';
import type { CommandModule } from '../command.ts';
import { releasingContext, withReceipt, worktreeRoot } from '../lease-command.ts';
import { duration, OUTPUT_ARGS } from '../stack-options.ts';

const REAP_TIMEOUT_MS = 300_000;
const LOCK_WAIT_MS = 5_000;

export const command: CommandModule = {
  description: 'Ends all stacks of this worktree and waits for the proof of each.',
  args: {
    'reap-timeout': { type: 'string', description: 'how long the proofs are waited for (5m)', valueHint: 'DUR' },
    ...OUTPUT_ARGS,
  },
  run: (argv, around) =>
    withReceipt('down', argv, around, async (client) => {
      const root = worktreeRoot(around);
      const { leases } = await client.call('list_stack_leases', { worktree_root: root });
      const ended = await Promise.all(
        leases.map(({ lease_id }) =>
          endLease(releasingContext(around), client, {
            leaseId: lease_id,
            disposition: 'destroy',
            reapTimeoutMs: duration(argv, 'reap-timeout') ?? REAP_TIMEOUT_MS,
            lockWaitMs: LOCK_WAIT_MS,
            releaseClaim: true,
          }),
        ),
      );
      const failed = ended.find(({ portBlock }) => portBlock?.released !== true);
      const failedError =
        failed === undefined ? null : (failed.cleanupError ?? `the port claim is kept: ${failed.portBlock?.reason}`);
      return {
        schema_version: 1,
        command: 'down',
        outcome: failed === undefined ? 'released' : 'error',
        code: failed === undefined ? null : (failed.cleanupCode ?? 'cleanup_unproven'),
        lease_id: ended.length === 1 ? (ended[0]?.lease.lease_id ?? null) : null,
        state: ended.length === 1 ? (ended[0]?.lease.state ?? null) : null,
        leases: ended.map(({ lease, cleanup, portBlock }) => ({
          lease_id: lease.lease_id,
          cleanup,
          port_block: portBlock,
        })),
        cleanup: ended.length === 0 ? null : ended.every(({ cleanup }) => cleanup === true),
        cleanup_code: failed?.cleanupCode ?? null,
        cleanup_error: failed?.cleanup === false ? failedError : null,
        fenced: ended.some(({ cleanup }) => cleanup !== true),
        exit_code: failed === undefined ? 0 : EXIT_CLEANUP_UNPROVEN,
        error: failedError,
      };
    }),
};

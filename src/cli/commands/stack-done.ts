import { endLease, leaseMeant } from '../../flows/end-lease.ts';
import { endedReceipt, leaseReceipt } from '../../flows/lease-receipt.ts';
import { Failure } from '../../platform/failure.ts';
import { newId } from '../../platform/random.ts';
import { markIdle } from '../../stack/claim-binding.ts';
import { claimsOfLease, lifeOf } from '../../stack/claim-registry.ts';
import { type CommandModule, isSet } from '../command.ts';
import { LEASE_ARG, leaseArgument, releasingContext, withReceipt, worktreeRoot } from '../lease-command.ts';
import { duration, OUTPUT_ARGS } from '../stack-options.ts';

const REAP_TIMEOUT_MS = 300_000;

export const command: CommandModule = {
  description: 'Gives a lease back: to idle, or with --reap to a proven teardown.',
  args: {
    ...LEASE_ARG,
    reap: { type: 'boolean', description: 'tear the stack down, wait for the proof, release the ports' },
    stop: { type: 'boolean', description: 'like --reap, but keep the data' },
    destroy: { type: 'boolean', description: 'like --reap (its default)' },
    'release-port-claim': {
      type: 'boolean',
      description: 'with --reap: wait and release even without a claim found here',
    },
    'reap-timeout': { type: 'string', description: 'how long the proof is waited for (5m)', valueHint: 'DUR' },
    'idle-ttl': { type: 'string', description: 'how long the idle stack is kept', valueHint: 'DUR' },
    ...OUTPUT_ARGS,
  },
  run: async (argv, around) => {
    const reaps = isSet(argv, 'reap') || isSet(argv, 'stop') || isSet(argv, 'destroy');
    if (isSet(argv, 'release-port-claim') && !reaps) {
      throw new Failure('invalid_arguments', '--release-port-claim goes with --reap');
    }
    return withReceipt('stack done', argv, around, async (client) => {
      const leaseId = await leaseMeant(client, leaseArgument(argv), () => worktreeRoot(around));
      if (reaps) {
        const ended = await endLease(releasingContext(around), client, {
          leaseId,
          disposition: isSet(argv, 'stop') ? 'stop' : 'destroy',
          reapTimeoutMs: duration(argv, 'reap-timeout') ?? REAP_TIMEOUT_MS,
          lockWaitMs: 0,
          releaseClaim: isSet(argv, 'release-port-claim'),
        });
        return endedReceipt('stack done', ended);
      }
      refuseWhileCommandRuns(around.home, leaseId);
      const { lease, retried, budget_reset } = await client.call('release_stack_lease', {
        lease_id: leaseId,
        claim_token: null,
        how: 'idle',
        disposition: 'destroy',
        idle_ttl_ms: duration(argv, 'idle-ttl') ?? null,
        reason: 'done',
        idempotency_key: newId(),
      });
      if (lease.state === 'idle') await markIdle({ home: around.home, leaseId, idleTtlMs: lease.idle_ttl_ms });
      const receipt = leaseReceipt('stack done', lease);
      return lease.state === 'idle'
        ? receipt
        : { ...receipt, outcome: 'released', retried, budget_reset, teardown: lease.state !== 'reaped' };
    });
  },
};

/** An idle stack goes to whoever asks next: not while the command of its last run is still using it. */
function refuseWhileCommandRuns(home: string, leaseId: string): void {
  const running = claimsOfLease(home, leaseId).find(({ child }) => lifeOf(child) === 'alive');
  if (running === undefined) return;
  throw new Failure(
    'STACK_CONTEXT_ALREADY_BOUND',
    `the command of lease ${leaseId} still runs (pid ${running.child?.pid}): end it, or use --reap`,
    { fields: { lease_id: leaseId } },
  );
}

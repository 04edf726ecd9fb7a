/** What the commands about existing leases share: the client, this worktree if there is one, and failures as receipts. */
import type { CoordinatorClient } from '../client/calls.ts';
import { openClient } from '../client/open-client.ts';
import type { ReleasingContext } from '../flows/claim-phase.ts';
import { Failure } from '../platform/failure.ts';
import { worktreeOf } from '../platform/git.ts';
import { hostKey } from '../platform/machine.ts';
import { ownIdentity } from '../platform/processes.ts';
import { canonicalUuid } from '../protocol/conditions.ts';
import { exitCodeOf } from '../protocol/outcomes.ts';
import type { StackReceipt } from '../protocol/stack-receipt.ts';
import type { ParsedArgv } from './argv.ts';
import type { CommandContext } from './command.ts';
import { failureReceipt, printReceipt, receiptBytesMax } from './receipts.ts';
import { asFailure } from './stack-command.ts';

export const LEASE_ARG = {
  lease: { type: 'positional', description: "the lease; by default this worktree's only one", required: false },
} as const;

export async function withReceipt(
  command: string,
  argv: ParsedArgv,
  around: CommandContext,
  work: (client: CoordinatorClient) => Promise<StackReceipt>,
): Promise<number> {
  receiptBytesMax(argv);
  try {
    return printReceipt(await work(await openClient(around)), argv);
  } catch (error) {
    const failure = asFailure(error);
    if (failure === null) throw error;
    return printReceipt(failureReceipt(command, failure, exitCodeOf(failure.code, 'stack')), argv);
  }
}

/** The lease id as it was typed, in its canonical spelling. */
export function leaseArgument(argv: ParsedArgv): string | undefined {
  const typed = argv.positionals[0];
  if (typed === undefined) return undefined;
  const leaseId = canonicalUuid(typed);
  if (leaseId === null) throw new Failure('invalid_arguments', `'${typed}' is no lease id (a UUID)`);
  return leaseId;
}

export function worktreeRoot(around: CommandContext): string {
  const worktree = worktreeOf(around.cwd);
  if (worktree === null) throw new Failure('not_a_repository', `${around.cwd} is in no git worktree`);
  return worktree.worktree_root;
}

export function releasingContext(around: CommandContext): ReleasingContext {
  return {
    home: around.home,
    hostKey: hostKey(),
    owner: ownIdentity(),
    worktreeRoot: worktreeOf(around.cwd)?.worktree_root ?? around.cwd,
  };
}

import { Failure } from '../../platform/failure.ts';
import { type CommandModule, isSet } from '../command.ts';
import { runStackCommand } from '../stack-command.ts';
import { labelsOf, REQUEST_ARGS, timeouts, wholeNumber } from '../stack-options.ts';

const REAP_TIMEOUT_MS = 300_000;

export const command: CommandModule = {
  description: "Brings this worktree's stack up, leaves it running and prints its connection.",
  args: { ...REQUEST_ARGS, 'no-wait': { type: 'boolean', description: 'end with 1 instead of parking in the queue' } },
  notes: `
The stack lives until botbuddy stack done, botbuddy down, or its idle TTL after the last command in this worktree.

  botbuddy stack up
  eval "$(botbuddy stack env LEASE)"`,
  run: async (argv, context) => {
    if (argv.rest !== null)
      throw new Failure('invalid_arguments', 'botbuddy stack up takes no command; did you mean botbuddy stack run?');
    return runStackCommand(argv, context, {
      command: 'stack up',
      mode: 'detached',
      argv: [],
      options: {
        command: 'up',
        cleanup: 'destroy',
        waitForSlot: isSet(argv, 'wait-slot'),
        parkInQueue: !isSet(argv, 'no-wait'),
      },
      request: {
        ...timeouts(argv),
        priority: wholeNumber(argv, 'priority', -100) ?? 0,
        reapTimeoutMs: REAP_TIMEOUT_MS,
        hardTtlMs: null,
        connectionFile: null,
        labels: labelsOf(argv),
      },
    });
  },
};

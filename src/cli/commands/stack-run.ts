import { Failure } from '../../platform/failure.ts';
import { type CommandModule, isSet, textFlag } from '../command.ts';
import { runStackCommand } from '../stack-command.ts';
import { duration, labelsOf, REQUEST_ARGS, timeouts, wholeNumber } from '../stack-options.ts';

const REAP_TIMEOUT_MS = 300_000;

export const command: CommandModule = {
  description:
    'Runs a command against a stack of its own: waits for a turn, starts the services, runs the command, gives the stack back.',
  args: {
    ...REQUEST_ARGS,
    reap: { type: 'boolean', description: 'tear the stack down afterwards and prove it' },
    stop: { type: 'boolean', description: 'like --reap, but keep the data' },
    destroy: { type: 'boolean', description: 'like --reap (its default)' },
    'reap-timeout': {
      type: 'string',
      description: 'how long a proof of the teardown is waited for (5m)',
      valueHint: 'DUR',
    },
    'hard-ttl': { type: 'string', description: 'end the command after this time', valueHint: 'DUR' },
    'connection-file': {
      type: 'string',
      description: 'an empty file that gets the connection as JSON',
      valueHint: 'P',
    },
  },
  notes: `
Without --reap the stack stays idle afterwards: the next run in this worktree re-adopts it at once, and another
worktree that needs its units has it reaped first. The last line of stdout is one JSON receipt.

  botbuddy stack run -- npm test
  botbuddy stack run --reap --timeout 20m -- pytest -q

See also: botbuddy help exit-codes, botbuddy help receipts, botbuddy help config`,
  run: async (argv, context) => {
    const child = argv.rest ?? [];
    if (child.length === 0) throw new Failure('invalid_arguments', 'botbuddy stack run needs a command after --');
    if (isSet(argv, 'stop') && isSet(argv, 'destroy'))
      throw new Failure('invalid_arguments', '--stop and --destroy exclude each other');
    const reaps = isSet(argv, 'reap') || isSet(argv, 'destroy');
    return runStackCommand(argv, context, {
      command: 'stack run',
      mode: 'attached',
      argv: child,
      options: {
        command: 'run',
        cleanup: isSet(argv, 'stop') ? 'stop' : reaps ? 'destroy' : 'idle',
        waitForSlot: isSet(argv, 'wait-slot'),
        parkInQueue: true,
      },
      request: {
        ...timeouts(argv),
        priority: wholeNumber(argv, 'priority', -100) ?? 0,
        reapTimeoutMs: duration(argv, 'reap-timeout') ?? REAP_TIMEOUT_MS,
        hardTtlMs: duration(argv, 'hard-ttl') ?? null,
        connectionFile: textFlag(argv, 'connection-file') ?? null,
        labels: labelsOf(argv),
      },
    });
  },
};

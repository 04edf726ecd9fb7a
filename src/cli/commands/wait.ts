import { openClient } from '../../client/open-client.ts';
import { waitForConditions } from '../../flows/wait.ts';
import { systemClock } from '../../platform/clock.ts';
import { currentDirectory } from '../../platform/environment.ts';
import { Failure } from '../../platform/failure.ts';
import { worktreeOf } from '../../platform/git.ts';
import { CONDITION_TYPES, parseCondition } from '../../protocol/conditions.ts';
import { type CommandModule, isSet } from '../command.ts';
import { printError, printJson } from '../output.ts';
import { duration } from '../stack-options.ts';

const DEFAULT_TIMEOUT_MS = 1_800_000;

export const command: CommandModule = {
  description:
    'Parks on one stream until the conditions hold: all of them, or with --any the first. Costs nothing meanwhile.',
  args: {
    condition: { type: 'positional', description: 'what to wait for', valueHint: '...' },
    any: { type: 'boolean', description: 'the first condition that holds is enough' },
    timeout: { type: 'string', description: 'how long to park (30m)', valueHint: 'DUR' },
    json: { type: 'boolean', description: 'pretty-print the receipt' },
  },
  notes: `conditions:\n${Object.values(CONDITION_TYPES)
    .map(({ sentence }) => `  ${sentence}`)
    .join('\n')}`,
  run: async (argv, around) => {
    for (const text of argv.positionals) checkCondition(text);
    const client = await openClient(around);
    const receipt = await waitForConditions(client, {
      conditions: argv.positionals,
      mode: isSet(argv, 'any') ? 'any' : 'all',
      timeoutMs: duration(argv, 'timeout') ?? DEFAULT_TIMEOUT_MS,
      agent: worktreeOf(currentDirectory())?.worktree_root ?? currentDirectory(),
    });
    printJson(receipt, isSet(argv, 'json'));
    if (receipt.error !== null) printError(receipt.error);
    return receipt.exit_code;
  },
};

function checkCondition(text: string): void {
  const parsed = parseCondition(text, systemClock.wallMs());
  if (parsed.ok) return;
  const { message, position, nearest } = parsed.problem;
  const meant = nearest === null ? '' : `; did you mean '${nearest}'?`;
  throw new Failure('invalid_condition', `${text}: ${message} (at position ${position})${meant}`, {
    fields: { position, nearest },
  });
}

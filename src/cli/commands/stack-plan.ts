import { planPreview } from '../../flows/plan-preview.ts';
import { resolveStack } from '../../flows/stack-context.ts';
import { type CommandModule, isSet } from '../command.ts';
import { printJson } from '../output.ts';
import { PLACE_ARGS, wishesOf } from '../stack-options.ts';

export const command: CommandModule = {
  description: 'Shows what would be started, with every port and directory, and touches nothing.',
  args: { ...PLACE_ARGS, json: { type: 'boolean', description: 'pretty-print' } },
  run: async (argv, around) => {
    printJson(planPreview(resolveStack(around, wishesOf(argv))), isSet(argv, 'json'));
    return 0;
  },
};

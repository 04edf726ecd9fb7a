import { type CommandModule, isSet } from '../command.ts';

export const command: CommandModule = {
  description: "Runs this host's Helper in the foreground. There is one a home; a second one ends with 0.",
  args: { embedded: { type: 'boolean', description: 'started by the embedded coordinator' } },
  run: async (argv, { home, environment }) => {
    const { runHelper } = await import('../../helper/run-helper.ts');
    return runHelper({ embedded: isSet(argv, 'embedded'), home, environment });
  },
};

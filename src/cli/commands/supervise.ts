import { Failure } from '../../platform/failure.ts';
import { type CommandModule, textFlag } from '../command.ts';

export const command: CommandModule = {
  description: 'Keeps the services of one stack. Started by the Helper, not by hand.',
  args: { 'slot-dir': { type: 'string', description: 'the directory of the slot', required: true } },
  run: async (argv) => {
    const slotDir = textFlag(argv, 'slot-dir');
    if (slotDir === undefined) throw new Failure('invalid_arguments', 'supervise needs --slot-dir');
    const { runSupervisor } = await import('../../stack/supervisor.ts');
    return runSupervisor({ slotDir });
  },
};

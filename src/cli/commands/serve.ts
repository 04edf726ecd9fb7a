import { type CommandModule, isSet } from '../command.ts';
import { printJson } from '../output.ts';

const EXIT_STILL_RUNNING = 5;

export const command: CommandModule = {
  description: 'Runs the coordinator. Without a server named anywhere, one starts by itself when it is needed.',
  args: {
    embedded: { type: 'boolean', description: 'as started on demand: ends by itself when nothing is alive' },
    stop: { type: 'boolean', description: 'end the embedded coordinator and its Helper, and see that they are gone' },
  },
  run: async (argv, { home, environment }) => {
    if (isSet(argv, 'stop')) {
      const { stopServing } = await import('../../flows/stop-serving.ts');
      const report = await stopServing(home);
      printJson({ schema_version: 1, command: 'serve --stop', ...report }, false);
      return Object.values(report).includes('still_running') ? EXIT_STILL_RUNNING : 0;
    }
    const { serve } = await import('../../coordinator/serve.ts');
    return serve({ embedded: isSet(argv, 'embedded'), home, environment });
  },
};

import { Failure } from '../../platform/failure.ts';
import { writeStdout } from '../../platform/terminal.ts';
import { nearestOf } from '../../protocol/conditions.ts';
import type { CommandModule } from '../command.ts';
import { COMMANDS } from '../command-tree.ts';
import { commandHelp, overview } from '../help.ts';
import { TOPICS } from '../topics.ts';

export const command: CommandModule = {
  description: 'Explains a command or a topic.',
  args: {
    topic: {
      type: 'positional',
      description: 'a command, or exit-codes, receipts, config, conditions',
      required: false,
      valueHint: '...',
    },
  },
  run: async (argv) => {
    const topic = argv.positionals.join(' ');
    if (topic === '') return overview('stdout');
    const text = TOPICS[topic];
    if (text !== undefined) {
      writeStdout(`${text().trim()}\n`);
      return 0;
    }
    const entry = COMMANDS[topic];
    if (entry !== undefined) return commandHelp(topic, await entry.load());
    const nearest = nearestOf(topic, [...Object.keys(COMMANDS), ...Object.keys(TOPICS)]);
    throw new Failure(
      'invalid_arguments',
      `there is no help on '${topic}'${nearest === null ? '' : `; did you mean '${nearest}'?`}`,
    );
  },
};

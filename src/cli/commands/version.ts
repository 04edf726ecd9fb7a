import { writeStdout } from '../../platform/terminal.ts';
import { VERSION } from '../../protocol/version.ts';
import { type CommandModule, isSet } from '../command.ts';
import { printJson } from '../output.ts';

declare const BUILD_COMMIT: string | undefined;
declare const BUILD_TARGET: string | undefined;

export const command: CommandModule = {
  description: 'Prints the version; with --json also commit, target and Bun version.',
  args: { json: { type: 'boolean', description: 'print all that is known of this build' } },
  run: async (argv) => {
    const build = {
      version: VERSION,
      commit: typeof BUILD_COMMIT === 'string' ? BUILD_COMMIT : null,
      target: typeof BUILD_TARGET === 'string' ? BUILD_TARGET : null,
      bun: Bun.version,
    };
    if (isSet(argv, 'json')) printJson(build, true);
    else writeStdout(`${VERSION}\n`);
    return 0;
  },
};

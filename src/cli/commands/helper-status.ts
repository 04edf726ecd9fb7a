import { openClient } from '../../client/open-client.ts';
import { identityIn } from '../../flows/stop-serving.ts';
import { homePaths } from '../../platform/paths.ts';
import { isAlive } from '../../platform/processes.ts';
import { type CommandModule, isSet } from '../command.ts';
import { printHint, printJson } from '../output.ts';

const EXIT_NOT_RUNNING = 5;

export const command: CommandModule = {
  description: "Tells how this host's Helper is: its process, its host, the age of its last beacon.",
  args: { json: { type: 'boolean', description: 'pretty-print' } },
  run: async (argv, around) => {
    const client = await openClient(around);
    const { hosts } = await client.call('list_hosts', {});
    const identity = identityIn(homePaths(around.home).helperState);
    const alive = identity !== null && isAlive(identity);
    printJson({ schema_version: 1, process: { alive, pid: identity?.pid ?? null }, hosts }, isSet(argv, 'json'));
    if (alive) return 0;
    printHint('the coordinator starts its Helper again by itself; its words are in helper.log in the logs directory');
    return EXIT_NOT_RUNNING;
  },
};

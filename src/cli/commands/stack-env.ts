import { openClient } from '../../client/open-client.ts';
import { leaseMeant } from '../../flows/end-lease.ts';
import { stackEnvironmentOf } from '../../flows/stack-env.ts';
import { writeStdout } from '../../platform/terminal.ts';
import { exportLines } from '../../stack/connection.ts';
import { type CommandModule, isSet } from '../command.ts';
import { LEASE_ARG, leaseArgument, worktreeRoot } from '../lease-command.ts';
import { printJson } from '../output.ts';

export const command: CommandModule = {
  description: 'Prints the environment of a running stack as export lines, or as JSON.',
  args: { ...LEASE_ARG, json: { type: 'boolean', description: 'JSON instead of export lines' } },
  notes: 'eval "$(botbuddy stack env)"',
  run: async (argv, around) => {
    const client = await openClient(around);
    const leaseId = await leaseMeant(client, leaseArgument(argv), () => worktreeRoot(around));
    const variables = await stackEnvironmentOf(client, around.home, leaseId);
    if (isSet(argv, 'json')) printJson(variables, true);
    else writeStdout(exportLines(variables));
    return 0;
  },
};

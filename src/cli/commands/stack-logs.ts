import { openClient } from '../../client/open-client.ts';
import { leaseMeant } from '../../flows/end-lease.ts';
import { Failure } from '../../platform/failure.ts';
import { writeStdout } from '../../platform/terminal.ts';
import { nearestOf } from '../../protocol/conditions.ts';
import { lastLines, loggedNames } from '../../stack/service-log.ts';
import { slotDirNameOf, slotDirOf } from '../../stack/slot.ts';
import type { CommandModule } from '../command.ts';
import { LEASE_ARG, leaseArgument, worktreeRoot } from '../lease-command.ts';
import { wholeNumber } from '../stack-options.ts';

const LINES = 200;

export const command: CommandModule = {
  description: 'Prints what the services of a stack said last.',
  args: {
    ...LEASE_ARG,
    service: { type: 'positional', description: 'one service; by default all', required: false },
    lines: { type: 'string', description: `how many lines of each (${LINES})`, valueHint: 'N' },
  },
  run: async (argv, around) => {
    const client = await openClient(around);
    const leaseId = await leaseMeant(client, leaseArgument(argv), () => worktreeRoot(around));
    const { lease } = await client.call('get_stack_lease', { lease_id: leaseId });
    const slotDir = slotDirOf(around.home, slotDirNameOf(lease.slot));
    const names = loggedNames(slotDir);
    const wanted = argv.positionals[1];
    if (wanted !== undefined && !names.includes(wanted)) {
      const nearest = nearestOf(wanted, names);
      const meant = nearest === null ? `there are: ${names.join(', ') || 'none'}` : `did you mean ${nearest}?`;
      throw new Failure('invalid_arguments', `no service '${wanted}' has a log; ${meant}`);
    }
    const count = wholeNumber(argv, 'lines', 1) ?? LINES;
    for (const name of wanted === undefined ? names : [wanted]) {
      for (const line of lastLines(slotDir, name, count))
        writeStdout(wanted === undefined ? `${name} | ${line}\n` : `${line}\n`);
    }
    return 0;
  },
};

import { openClient } from '../../client/open-client.ts';
import { systemClock } from '../../platform/clock.ts';
import { writeStdout } from '../../platform/terminal.ts';
import { isoOf } from '../../protocol/stack-receipt.ts';
import { type CommandModule, isSet } from '../command.ts';
import { worktreeRoot } from '../lease-command.ts';
import { ageText, printJson, tableForPeople } from '../output.ts';

export const command: CommandModule = {
  description: 'Lists the live leases: what each holds, since when, for which worktree.',
  args: {
    here: { type: 'boolean', description: 'only those of this worktree' },
    json: { type: 'boolean', description: 'pretty-print' },
  },
  run: async (argv, around) => {
    const client = await openClient(around);
    const { leases } = await client.call(
      'list_stack_leases',
      isSet(argv, 'here') ? { worktree_root: worktreeRoot(around) } : {},
    );
    const now = systemClock.wallMs();
    const table = isSet(argv, 'json')
      ? null
      : tableForPeople(leases, [
          { title: 'LEASE', of: (lease) => lease.lease_id },
          { title: 'STATE', of: (lease) => lease.state },
          { title: 'FOR', of: (lease) => ageText(now - lease.since) },
          { title: 'UNITS', of: (lease) => String(lease.units) },
          {
            title: 'PORTS',
            of: (lease) => lease.blocks.map(({ port_base, size }) => `${port_base}-${port_base + size - 1}`).join(' '),
          },
          { title: 'WORKTREE', of: (lease) => lease.worktree_root },
        ]);
    if (table !== null) writeStdout(leases.length === 0 ? 'no live leases\n' : `${table}\n`);
    else {
      const rows = leases.map((lease) => ({
        lease_id: lease.lease_id,
        state: lease.state,
        since: isoOf(lease.since),
        units: lease.units,
        queue_position: lease.queue_position,
        blocks: lease.blocks,
        slot: lease.slot,
        worktree_root: lease.worktree_root,
      }));
      printJson({ schema_version: 1, leases: rows }, isSet(argv, 'json'));
    }
    return 0;
  },
};

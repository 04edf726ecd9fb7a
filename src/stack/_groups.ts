/** Looking at groups without touching them: what of a started group is alive, whoever of it is left. */
import { bootId } from '../platform/machine.ts';
import { type ProcessRow, readProcess, readProcessTable } from '../platform/process-table.ts';
import type { ProcessIdentity } from '../platform/processes.ts';

/** Living members of the group and session that `identity` leads or led; none where its number means another process. */
export function membersOf(identity: ProcessIdentity, rows: readonly ProcessRow[] = readProcessTable()): ProcessRow[] {
  if (identity.boot_id !== bootId()) return [];
  const leader = readProcess(identity.pid);
  if (leader !== null && leader.started_at !== identity.started_at) return [];
  return rows.filter((row) => !row.zombie && (row.pgid === identity.pid || row.sid === identity.pid));
}

export function hasMembers(identity: ProcessIdentity): boolean {
  return membersOf(identity).length > 0;
}

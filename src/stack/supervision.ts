/** What the Helper and the commands see of stacks that run on this host, beside the driver: which, since when, and their ends. */
import { join } from 'node:path';
import { homePaths } from '../platform/paths.ts';
import type { ProcessIdentity } from '../platform/processes.ts';
import { type Creation, creationSchema, supervisorStateSchema } from '../protocol/stack-records.ts';
import { readRecord, slotDirNames } from './_records.ts';
import { holdSupervisor, type SlotAddress } from './_supervisor-client.ts';
import { endOrphans } from './_teardown.ts';
import type { ServiceEnded } from './driver.ts';
import { slotPaths } from './slot.ts';

export interface CreatedStack {
  readonly slotDir: string;
  /** Null when the record is there and cannot be read. */
  readonly creation: Creation | null;
}

/** Every slot in which something was created at some time, gone or not: absence is for a driver to see. */
export function createdStacks(home: string): CreatedStack[] {
  const { stacks } = homePaths(home);
  return slotDirNames(stacks).flatMap((name) => {
    const slotDir = join(stacks, name);
    const creation = readRecord(slotPaths(slotDir).creation, creationSchema);
    return creation === null ? [] : [{ slotDir, creation: creation === 'unreadable' ? null : creation }];
  });
}

export interface SupervisorGone {
  /** `asked` is the orderly end by `down`; null means that it was killed. */
  readonly stopped_because: 'asked' | 'limit' | 'signal' | null;
}

/** Calls back once when the supervisor's end of the socket closes; null when no supervisor listens there now. */
export async function onSupervisorGone(
  at: SlotAddress,
  callback: (gone: SupervisorGone) => void,
): Promise<Disposable | null> {
  const channel = await holdSupervisor(at, () => callback({ stopped_because: stoppedBecause(at.slotDir) }));
  return channel === null ? null : { [Symbol.dispose]: () => channel.close() };
}

/** Ends what a supervisor left behind when it was killed; answers who would not go. */
export function endOrphanedGroups({
  slotDir,
  leaseId,
}: {
  slotDir: string;
  leaseId: string;
}): Promise<ProcessIdentity[]> {
  return endOrphans(slotDir, leaseId);
}

/** Services of the lease's stack that ended by themselves, in order. */
export function endedServices(slotDir: string, leaseId: string): ServiceEnded[] {
  const state = readRecord(slotPaths(slotDir).supervisor, supervisorStateSchema);
  return state === null || state === 'unreadable' || state.lease_id !== leaseId ? [] : state.service_ended;
}

function stoppedBecause(slotDir: string): SupervisorGone['stopped_because'] {
  const state = readRecord(slotPaths(slotDir).supervisor, supervisorStateSchema);
  return state === null || state === 'unreadable' ? null : state.stopped_because;
}

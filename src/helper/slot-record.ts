/** What a slot's directory tells of who was started in it; written again where somebody removed the directory. */
import { basename } from 'node:path';
import { ensurePrivateDir, writeFileDurable } from '../platform/durable-files.ts';
import type { Creation } from '../protocol/stack-records.ts';
import type { LeaseForHelper } from '../protocol/tool-calls.ts';
import { slotPaths } from '../stack/slot.ts';
import { createdStacks, onSupervisorGone } from '../stack/supervision.ts';

const RESTORED_LIMIT_MS = 90_000;

export function creationIn(home: string, slotDir: string): Creation | null | 'unreadable' {
  const created = createdStacks(home).find((stack) => basename(stack.slotDir) === basename(slotDir));
  return created === undefined ? null : (created.creation ?? 'unreadable');
}

export async function supervisorListens(home: string, slotDir: string): Promise<boolean> {
  using connection = await onSupervisorGone({ home, slotDir }, () => {});
  return connection !== null;
}

/**
 * A supervisor lives without a record: somebody removed the slot's directory. The lease tells what has to be looked
 * for, and whether the supervisor is of this lease it judges by itself. No plan has an empty digest, so that nothing
 * is ever adopted from such a record.
 */
export function restoreCreation(slotDir: string, lease: LeaseForHelper, now: number): void {
  const ports = lease.blocks.flatMap(({ port_base, size }) =>
    Array.from({ length: size }, (_, index) => port_base + index),
  );
  const creation: Creation = {
    schema_version: 1,
    lease_id: lease.lease_id,
    fencing_token: lease.created_fencing_token ?? lease.fencing_token ?? 0,
    slot: lease.slot,
    project: lease.project,
    plan_digest: '',
    ports,
    limit_ms: RESTORED_LIMIT_MS,
    created_at: now,
  };
  ensurePrivateDir(slotDir);
  writeFileDurable(slotPaths(slotDir).creation, `${JSON.stringify(creation)}\n`);
}

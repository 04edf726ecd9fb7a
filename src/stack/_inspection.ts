/** Whether a stack that runs is still the one that was asked for, and whole. Looks only. */
import { pathExists, realPath } from '../platform/durable-files.ts';
import { errnoOf, Failure } from '../platform/failure.ts';
import { portIsFree } from '../platform/port-probe.ts';
import { readProcessTable } from '../platform/process-table.ts';
import { findMarked, isAlive } from '../platform/processes.ts';
import type { StackPlan } from '../protocol/stack-plan.ts';
import type { Creation, StartedGroup } from '../protocol/stack-records.ts';
import type { SupervisorReply } from '../protocol/supervisor-messages.ts';
import { membersOf } from './_groups.ts';
import { ownerOfPort } from './_port-owners.ts';
import type { NotWhole } from './driver.ts';
import { REAP_MARK } from './variables.ts';

export type Flaw = { readonly reason: NotWhole; readonly detail: string };

type Inspected = Extract<SupervisorReply, { outcome: 'done' }>['inspection'];

export function flawOf(plan: StackPlan, creation: Creation, seen: Inspected): Flaw | null {
  if (seen.phase !== 'ready') return { reason: 'not_ready', detail: `the stack is ${seen.phase}` };
  const ended = seen.service_ended[0];
  if (ended !== undefined) {
    return { reason: 'service_ended', detail: `service ${ended.service} ended (${ended.signal ?? ended.exit_code})` };
  }
  const services = seen.groups.filter(({ kind }) => kind === 'service');
  const dead = services.find(({ identity }) => !isAlive(identity));
  if (dead !== undefined) return { reason: 'service_ended', detail: `service ${dead.name} is not alive` };
  if (!seen.guards_held) return { reason: 'guard_lost', detail: 'the guard port is not held' };
  return portFlaw(plan, creation.lease_id, seen.groups) ?? directoryFlaw(services);
}

function portFlaw(plan: StackPlan, leaseId: string, groups: readonly StartedGroup[]): Flaw | null {
  const rows = readProcessTable();
  const members = groups.flatMap(({ identity }) => membersOf(identity, rows).map(({ pid }) => pid));
  const pids = [...new Set([...members, ...findMarked(REAP_MARK, leaseId).map(({ pid }) => pid)])];
  const promised = plan.services.flatMap(({ ready }) => (ready?.kind === 'tcp' ? [ready.port] : []));
  for (const [name, port] of Object.entries(plan.ports)) {
    const owner = ownerOfPort(port, pids);
    if (owner === 'foreign')
      return { reason: 'port_not_ours', detail: `another program listens on port ${port} (${name})` };
    const silent = owner === 'nobody' || (owner === 'unknown' && portIsFree(port));
    if (silent && promised.includes(port)) {
      return { reason: 'port_not_bound', detail: `nobody listens on port ${port} (${name})` };
    }
  }
  return null;
}

/** A worktree that was made anew under the same name is another directory: who was started in the old one stays there. */
function directoryFlaw(services: readonly StartedGroup[]): Flaw | null {
  const lost = services.find(
    ({ identity }) => pathExists(`/proc/${identity.pid}/stat`) && isDeleted(`/proc/${identity.pid}/cwd`),
  );
  if (lost === undefined) return null;
  return { reason: 'worktree_recreated', detail: `the directory in which service ${lost.name} was started is gone` };
}

function isDeleted(link: string): boolean {
  try {
    realPath(link);
    return false;
  } catch (error) {
    if (error instanceof Failure) return errnoOf(error) === 'ENOENT';
    throw error;
  }
}

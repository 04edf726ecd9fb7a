/** Leases over the wire: ask, read, list, touch, give back. */
import type { LeaseRequest } from '../../core/inputs.ts';
import type { Lease, State } from '../../core/model.ts';
import { hostLedger, leaseView } from '../../core/views.ts';
import { Failure } from '../../platform/failure.ts';
import { newId } from '../../platform/random.ts';
import type { ConsideredHost, RequestStackLeaseArgs, ToolCalls } from '../../protocol/tool-calls.ts';
import { TOOL_SCHEMAS } from '../../protocol/tool-schemas.ts';
import { idempotencyOf, isOwn, refusal, type Tool, type ToolContext } from '../tool.ts';

export const requestStackLease: Tool<'request_stack_lease'> = {
  schema: TOOL_SCHEMAS.request_stack_lease,
  handle: async (args, context) => {
    const request = await leaseRequestOf(args, context);
    return context.engine.submit<'request_lease', ToolCalls['request_stack_lease']['result']>(
      { type: 'request_lease', request },
      {
        principal: context.caller.principal,
        idempotency: idempotencyOf('request_stack_lease', args),
        render: ({ lease, reused }, { state }) => ({
          lease: leaseView(state, lease),
          reused,
          considered: consideredHosts(state, lease),
          ledger: hostLedger(state, lease.host_id, lease.tenant),
        }),
      },
    );
  },
};

async function leaseRequestOf(args: RequestStackLeaseArgs, context: ToolContext): Promise<LeaseRequest> {
  const { idempotency_key, host_key, machine_id, lease_id, ...asked } = args;
  return {
    ...asked,
    ...context.caller,
    lease_id: lease_id ?? newId(),
    host_id: await hostIdFor(host_key, machine_id, context),
  };
}

/** The host that the client sits on: ours, though its Helper may not have registered yet, or a registered one. */
async function hostIdFor(hostKey: string, machineId: string | null, context: ToolContext): Promise<string> {
  const { ownHost, engine } = context;
  if (hostKey === ownHost.host_key) return ownHost.host_id;
  if (machineId !== null && machineId === ownHost.machine_id) return ownHost.host_id;
  const known = await engine.look((state) => [...state.hosts.values()].find((host) => host.host_key === hostKey));
  if (known !== undefined) return known.host_id;
  throw new Failure('HOST_NOT_FOUND', `no Helper of host ${hostKey} has registered`, { fields: { host_key: hostKey } });
}

function consideredHosts(state: State, lease: Lease): ConsideredHost[] {
  const others = [...state.hosts.values()].filter((host) => host.host_id !== lease.host_id);
  const own = state.hosts.get(lease.host_id);
  const verdict = own?.ready !== true ? 'HOST_STARTING' : lease.state === 'queued' ? 'HOST_CAPACITY_WAIT' : 'OK';
  return [
    { host_key: own?.host_key ?? lease.host_id, verdict_code: verdict },
    ...others.map((host) => ({ host_key: host.host_key, verdict_code: 'HOST_NEEDS_WORKTREE' })),
  ];
}

export const getStackLease: Tool<'get_stack_lease'> = {
  schema: TOOL_SCHEMAS.get_stack_lease,
  handle: async ({ lease_id }, { engine, log, caller, seenSeq }) => {
    const live = await engine.look((state) => {
      const lease = state.leases.get(lease_id);
      if (lease === undefined || !isOwn(lease, caller)) return { seq: state.seq, reply: null };
      const ledger = hostLedger(state, lease.host_id, caller.tenant);
      return { seq: state.seq, reply: { lease: leaseView(state, lease), archived: false, ledger } };
    }, seenSeq);
    if (live.reply !== null) return { seq: live.seq, ok: true, reply: live.reply };
    const ended = await log.readArchive('lease', lease_id);
    return engine.look((state) => {
      if (ended === null || !isOwn(ended, caller)) {
        return { seq: state.seq, ...refusal('LEASE_NOT_FOUND', `there is no lease ${lease_id}`, { lease_id }) };
      }
      return { seq: state.seq, ok: true, reply: { lease: leaseView(state, ended), archived: true, ledger: null } };
    });
  },
};

export const listStackLeases: Tool<'list_stack_leases'> = {
  schema: TOOL_SCHEMAS.list_stack_leases,
  handle: ({ worktree_root, slot, claim_token }, { engine, caller, seenSeq }) =>
    engine.look((state) => {
      const leases = [...state.leases.values()].filter(
        (lease) =>
          isOwn(lease, caller) &&
          (worktree_root === undefined || lease.worktree_root === worktree_root) &&
          (slot === undefined || lease.slot === slot) &&
          (claim_token === undefined || lease.claim_token === claim_token),
      );
      return { seq: state.seq, ok: true, reply: { leases: leases.map((lease) => leaseView(state, lease)) } };
    }, seenSeq),
};

export const touchStackLease: Tool<'touch_stack_lease'> = {
  schema: TOOL_SCHEMAS.touch_stack_lease,
  handle: async ({ lease_id, fencing_token }, { engine, caller, liveness }) => {
    const answer = await engine.submit<'touch_lease', ToolCalls['touch_stack_lease']['result']>(
      { type: 'touch_lease', lease_id, fencing_token, by: caller },
      { principal: caller.principal, render: ({ lease }, { state }) => ({ lease: leaseView(state, lease) }) },
    );
    if (answer.ok) liveness.seen('lease', lease_id);
    return answer;
  },
};

export const releaseStackLease: Tool<'release_stack_lease'> = {
  schema: TOOL_SCHEMAS.release_stack_lease,
  handle: (args, { engine, caller }) => {
    const { idempotency_key, ...release } = args;
    return engine.submit<'release_lease', ToolCalls['release_stack_lease']['result']>(
      (look) => ({
        type: 'release_lease',
        ...release,
        by: caller,
        archived: look.state.leases.has(args.lease_id) ? null : look.archivedLease(args.lease_id),
      }),
      {
        principal: caller.principal,
        idempotency: idempotencyOf('release_stack_lease', args),
        archive: [{ kind: 'lease', id: args.lease_id }],
        render: ({ lease, ...rest }, { state }) => ({ lease: leaseView(state, lease), ...rest }),
      },
    );
  },
};

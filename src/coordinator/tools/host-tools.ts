/** Hosts over the wire: a Helper's registration and beacon, and what people may see of a host. */
import type { Host, Lease, State } from '../../core/model.ts';
import { hostLedger } from '../../core/views.ts';
import { Failure } from '../../platform/failure.ts';
import type { HostView, LeaseForHelper, ToolCalls } from '../../protocol/tool-calls.ts';
import { TOOL_SCHEMAS } from '../../protocol/tool-schemas.ts';
import { formatCursor } from '../cursor.ts';
import { ed25519Key } from '../statement-check.ts';
import type { Tool, ToolContext } from '../tool.ts';

export const registerHost: Tool<'register_host'> = {
  schema: TOOL_SCHEMAS.register_host,
  fromHelper: true,
  handle: async ({ machine_id, ...registration }, { engine, caller, liveness }) => {
    if (ed25519Key(registration.public_key) === null) {
      throw new Failure('invalid_arguments', 'public_key is no Ed25519 key (SPKI, base64)', {
        fields: { key: 'public_key' },
      });
    }
    const answer = await engine.submit<'register_host', ToolCalls['register_host']['result']>(
      { type: 'register_host', ...registration },
      { principal: caller.principal, render: ({ host }) => ({ host_id: host.host_id }) },
    );
    if (answer.ok) liveness.seen('host', registration.host_id);
    return answer;
  },
};

export const hostBeacon: Tool<'host_beacon'> = {
  schema: TOOL_SCHEMAS.host_beacon,
  fromHelper: true,
  handle: async (beacon, { engine, caller, liveness }) => {
    const answer = await engine.submit<'host_beacon', ToolCalls['host_beacon']['result']>(
      { type: 'host_beacon', ...beacon },
      {
        principal: caller.principal,
        render: ({ host }, { state }) => ({
          ...workOf(state, host),
          cursor: formatCursor(engine.epoch, state.seq),
        }),
      },
    );
    if (answer.ok) liveness.seen('host', beacon.host_id);
    return answer;
  },
};

function workOf(state: State, host: Host): Pick<ToolCalls['host_beacon']['result'], 'leases' | 'jobs'> {
  const leases = [...state.leases.values()].filter((lease) => lease.host_id === host.host_id);
  const jobs = [...state.jobs.values()].filter((job) => job.host_id === host.host_id);
  return { leases: leases.map(leaseForHelper), jobs: jobs.map((job) => ({ ...job })) };
}

export function leaseForHelper(lease: Lease): LeaseForHelper {
  return {
    lease_id: lease.lease_id,
    tenant: lease.tenant,
    slot: lease.slot,
    project: lease.project,
    state: lease.state,
    mode: lease.mode,
    blocks: lease.blocks,
    claim_token: lease.claim_token,
    plan_digest: lease.plan_digest,
    fencing_token: lease.fencing_token,
    created_fencing_token: lease.created_fencing_token,
    reap_disposition: lease.reap_disposition,
    reap_reason: lease.reap_reason,
    ttl_ms: lease.ttl_ms,
    idle_ttl_ms: lease.idle_ttl_ms,
    worktree_root: lease.worktree_root,
    stack_path: lease.stack_path,
  };
}

export const listHosts: Tool<'list_hosts'> = {
  schema: TOOL_SCHEMAS.list_hosts,
  handle: (_args, context) =>
    context.engine.look((state) => {
      const hosts = [...state.hosts.values()].map((host) => hostView(host, context));
      return { seq: state.seq, ok: true, reply: { hosts } };
    }, context.seenSeq),
};

function hostView(host: Host, { liveness, clock }: ToolContext): HostView {
  const heardAt = liveness.heardAt('host', host.host_id);
  return {
    host_id: host.host_id,
    host_key: host.host_key,
    capacity_units: host.capacity_units,
    ready: host.ready,
    protocol_version: host.protocol_version,
    helper_version: host.helper_version,
    beacon_age_ms: heardAt === null ? null : Math.max(0, clock.now() - heardAt),
  };
}

export const getHostLedger: Tool<'get_host_ledger'> = {
  schema: TOOL_SCHEMAS.get_host_ledger,
  handle: ({ host_key }, { engine, caller, ownHost, seenSeq }) =>
    engine.look((state) => {
      const named = [...state.hosts.values()].find((host) => host.host_key === host_key);
      const hostId = host_key === undefined || host_key === ownHost.host_key ? ownHost.host_id : named?.host_id;
      const ledger = hostId === undefined ? null : hostLedger(state, hostId, caller.tenant);
      return { seq: state.seq, ok: true, reply: { ledger } };
    }, seenSeq),
};

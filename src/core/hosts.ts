/** Hosts register with each life of their Helper; the first beacon of a life opens the host for placement. */
import type { Draft } from './draft.ts';
import { refuse } from './draft.ts';
import type { Input, Replies } from './inputs.ts';
import type { Host } from './model.ts';

type RegisterHost = Extract<Input, { type: 'register_host' }>;

export function registerHost(draft: Draft, input: RegisterHost): Replies['register_host'] {
  const known = draft.state.hosts.get(input.host_id);
  if (known?.incarnation === input.incarnation) return { host: known };
  const pinned = known?.keys[input.key_id];
  if (pinned !== undefined && pinned !== input.public_key) {
    refuse('HOST_KEY_MISMATCH', `host ${input.host_key} registers another key under the id ${input.key_id}`, {
      host_key: input.host_key,
    });
  }
  const host: Host = {
    host_id: input.host_id,
    host_key: input.host_key,
    capacity_units: input.capacity_units,
    protocol_version: input.protocol_version,
    helper_version: input.helper_version,
    incarnation: input.incarnation,
    keys: { ...known?.keys, [input.key_id]: input.public_key },
    ready: false,
    registered_at: draft.now,
  };
  draft.emit({ type: 'host_registered', host });
  for (const job of [...draft.state.jobs.values()]) {
    if (job.host_id !== host.host_id || job.state !== 'claimed') continue;
    draft.emit({ type: 'job_reopened', job_id: job.job_id, reason: 'helper_restarted' });
  }
  return { host: currentHost(draft, host.host_id, host.incarnation) };
}

export function beaconHost(draft: Draft, input: Extract<Input, { type: 'host_beacon' }>): Replies['host_beacon'] {
  const host = currentHost(draft, input.host_id, input.incarnation);
  if (!host.ready || host.capacity_units !== input.capacity_units) {
    draft.emit({ type: 'host_beaconed', host_id: host.host_id, capacity_units: input.capacity_units });
  }
  return { host: currentHost(draft, input.host_id, input.incarnation) };
}

/** The host, for its present Helper only: an earlier life of it is refused. */
export function currentHost(draft: Draft, hostId: string, incarnation: string): Host {
  const host = draft.state.hosts.get(hostId);
  if (host === undefined) refuse('HOST_NOT_FOUND', `host ${hostId} is not registered`, { host_id: hostId });
  if (host.incarnation !== incarnation) {
    refuse('HELPER_SUPERSEDED', `another Helper serves host ${host.host_key} now`, { host_key: host.host_key });
  }
  return host;
}

/** A home whose real coordinator is started on demand, as a process of its own, by the clients under test. */
import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import type { CoordinatorClient } from '../../src/client/calls.ts';
import { findCoordinator } from '../../src/client/discovery.ts';
import { type OpenOptions, openClient } from '../../src/client/open-client.ts';
import { ownHostOf } from '../../src/coordinator/serve.ts';
import type { Environment } from '../../src/platform/environment.ts';
import { endProcessTree, findMarked, isAlive } from '../../src/platform/processes.ts';
import { newId } from '../../src/platform/random.ts';
import type { LeaseView } from '../../src/protocol/records.ts';
import { leaseArgs } from '../coordinator/harness.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir } from '../support/temp-home.ts';

const SERVE = join(import.meta.dir, '../coordinator/fixtures/serve-process.ts');

export interface RealHome extends AsyncDisposable {
  readonly home: string;
  open(changes?: Partial<OpenOptions>): Promise<CoordinatorClient>;
  /** Living coordinators of this home. */
  coordinators(): number;
  /** `kill -9`, and nothing of it is left. */
  kill(): Promise<void>;
  /** A lease that its Helper has in hand; `activate` lets it become active. */
  provisioning(client: CoordinatorClient): Promise<{ lease: LeaseView; activate: () => Promise<LeaseView> }>;
}

export function makeRealHome(): RealHome {
  const directory = makeTempDir('bb-client-');
  const home = join(directory.path, 'home');
  const environment: Environment = {
    PATH: process.env['PATH'] ?? '',
    HOME: directory.path,
    BOTBUDDY_HOME: home,
    BOTBUDDY_LOG_LEVEL: 'info',
  };
  const kill = async () => {
    const identity = findCoordinator(home)?.identity;
    if (identity === undefined) throw new Error('no coordinator to kill');
    process.kill(identity.pid, 'SIGKILL');
    await eventually('the coordinator is dead', () => !isAlive(identity));
  };
  return {
    home,
    kill,
    open: (changes = {}) =>
      openClient({ home, environment, startArgv: [process.execPath, SERVE, home], startWithinMs: 30_000, ...changes }),
    coordinators: () => findMarked('BOTBUDDY_HOME', home).length,
    provisioning: (client) => provision(client, home),
    [Symbol.asyncDispose]: async () => {
      await endProcessTree({ groups: [], mark: { name: 'BOTBUDDY_HOME', value: home }, graceMs: 0 });
      directory[Symbol.dispose]();
    },
  };
}

async function provision(client: CoordinatorClient, home: string) {
  const { host_id, host_key, machine_id } = ownHostOf(home);
  const { publicKey } = generateKeyPairSync('ed25519');
  const incarnation = newId();
  await client.call('register_host', {
    host_id,
    host_key,
    machine_id,
    capacity_units: 1,
    protocol_version: 4,
    helper_version: '9.9.9',
    incarnation,
    key_id: 'key-1',
    public_key: publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
  });
  const beacon = { host_id, incarnation, capacity_units: 1 };
  await client.call('host_beacon', beacon);
  const { lease } = await client.call('request_stack_lease', leaseArgs('a', { host_key, machine_id }));
  const activate = async (): Promise<LeaseView> => {
    const { jobs } = await client.call('host_beacon', beacon);
    const { job } = await client.call('claim_job', { job_id: jobs[0]?.job_id ?? '', host_id, incarnation });
    const connection = { host: '127.0.0.1', ports: {}, urls: {} };
    const done = {
      job_id: job.job_id,
      job_token: job.job_token ?? 0,
      connection,
      reprovisioned: null,
      statement: null,
    };
    return (await client.call('complete_job', done)).lease;
  };
  return { lease, activate };
}

/** A coordinator in this process over a log in memory, with a client that speaks HTTP to it. */
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { join } from 'node:path';
import { type Assembled, assemble } from '../../src/coordinator/assemble.ts';
import { HttpApp } from '../../src/coordinator/http-server.ts';
import { type Listening, listen } from '../../src/coordinator/listen.ts';
import { ensureOwnerCredential } from '../../src/coordinator/local-owner.ts';
import type { OwnHost } from '../../src/coordinator/tool.ts';
import type { EventLog } from '../../src/log/event-log.ts';
import { MemoryDisk, MemoryLog } from '../../src/log/memory-log.ts';
import { type Clock, systemClock } from '../../src/platform/clock.ts';
import { configureLogging } from '../../src/platform/logging.ts';
import { newId } from '../../src/platform/random.ts';
import type {
  LeaseForHelper,
  SignedStatement,
  StatementBody,
  ToolAnswer,
  ToolCalls,
  ToolName,
} from '../../src/protocol/tool-calls.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { type OpenStream, openStream } from './stream-client.ts';

configureLogging({ level: 'silent' });

export const OWN_HOST: OwnHost = { host_id: 'host-own', host_key: 'own.local', machine_id: 'machine-own' };

export interface HarnessOptions {
  log?: EventLog;
  leaseTtlMs?: number;
  clock?: Clock;
  beatMs?: number;
}

export interface Harness extends AsyncDisposable {
  readonly parts: Assembled;
  readonly app: HttpApp;
  readonly listening: Listening;
  readonly token: string;
  readonly disk: MemoryDisk;
  calls: number;
  ending: boolean;
  answer<N extends ToolName>(name: N, args: ToolCalls[N]['args']): Promise<ToolAnswer<N>>;
  /** The result, or a failing test. */
  call<N extends ToolName>(name: N, args: ToolCalls[N]['args']): Promise<ToolCalls[N]['result']>;
  /** The error, or a failing test. */
  refused<N extends ToolName>(
    name: N,
    args: ToolCalls[N]['args'],
  ): Promise<{ code: string; message: string; fields: Record<string, unknown> }>;
  fetch(path: string, init?: RequestInit): Promise<Response>;
  stream(query: string, lastEventId?: string): Promise<OpenStream>;
}

export async function makeHarness(options: HarnessOptions = {}): Promise<Harness> {
  const dir = makeTempDir('bb-coordinator-');
  const disk = new MemoryDisk(newId());
  const log = options.log ?? new MemoryLog(disk);
  const { leaseTtlMs = 60_000, clock = systemClock, beatMs } = options;
  const beat = beatMs === undefined ? {} : { beatMs };
  const parts = await assemble({ log, leaseTtlMs, ownHost: OWN_HOST, version: '9.9.9', clock, ...beat });
  const credential = join(dir.path, 'owner.json');
  const authenticator = await ensureOwnerCredential(log, credential, systemClock);
  const { token } = (await Bun.file(credential).json()) as { token: string };
  const app: HttpApp = new HttpApp({
    coordinator: parts,
    hub: parts.hub,
    authenticator,
    onCall: () => {
      harness.calls += 1;
    },
    isEnding: () => harness.ending,
  });
  const listening = listen({ app, address: '127.0.0.1:0', socket: join(dir.path, 'c.sock') });
  const fetchPath: Harness['fetch'] = (path, init = {}) =>
    fetch(`${listening.url}${path}`, { ...init, headers: { authorization: `Bearer ${token}`, ...init.headers } });
  const answer: Harness['answer'] = async (name, args) => {
    const headers = { 'content-type': 'application/json' };
    const response = await fetchPath(`/v1/tools/${name}`, { method: 'POST', headers, body: JSON.stringify(args) });
    return response.json() as never;
  };
  const harness: Harness = {
    parts,
    app,
    listening,
    token,
    disk,
    calls: 0,
    ending: false,
    answer,
    call: async (name, args) => {
      const told = await answer(name, args);
      if (told.ok) return told.result;
      throw new Error(`${name} was refused: ${JSON.stringify(told.error)}`);
    },
    refused: async (name, args) => {
      const told = await answer(name, args);
      if (!told.ok) return told.error;
      throw new Error(`${name} was not refused: ${JSON.stringify(told.result)}`);
    },
    fetch: fetchPath,
    stream: (query, lastEventId) => openStream(`${listening.url}/v1/stream?${query}`, token, lastEventId),
    [Symbol.asyncDispose]: async () => {
      await listening.stop();
      await parts.close();
      dir[Symbol.dispose]();
    },
  };
  return harness;
}

let requests = 0;

export function leaseArgs(
  slot: string,
  changes: Partial<ToolCalls['request_stack_lease']['args']> = {},
): ToolCalls['request_stack_lease']['args'] {
  requests += 1;
  const token = newId();
  return {
    lease_id: newId(),
    agent: `/worktrees/${slot}`,
    slot,
    project: `bb-local-${slot}`,
    host_key: OWN_HOST.host_key,
    machine_id: OWN_HOST.machine_id,
    worktree_root: `/worktrees/${slot}`,
    stack_path: '.',
    mode: 'attached',
    units: 1,
    priority: 0,
    blocks: [{ port_base: 20_000 + (requests % 2_000) * 20, size: 20 }],
    claim_token: token,
    plan_digest: 'plan',
    ttl_ms: 60_000,
    idle_ttl_ms: 1_800_000,
    hard_ttl_ms: null,
    queue_timeout_ms: 1_800_000,
    labels: {},
    idempotency_key: token,
    ...changes,
  };
}

export function waitArgs(
  conditions: string[],
  changes: Partial<ToolCalls['wait']['args']> = {},
): ToolCalls['wait']['args'] {
  const id = newId();
  return {
    wait_session_id: id,
    agent: '/worktrees/a',
    conditions,
    mode: 'all',
    timeout_ms: 600_000,
    idempotency_key: id,
    ...changes,
  };
}

export const releaseArgs = (
  leaseId: string,
  changes: Partial<ToolCalls['release_stack_lease']['args']> = {},
): ToolCalls['release_stack_lease']['args'] => ({
  lease_id: leaseId,
  claim_token: null,
  how: 'reap',
  disposition: 'destroy',
  idle_ttl_ms: null,
  reason: 'done',
  idempotency_key: newId(),
  ...changes,
});

/** A Helper as the coordinator sees it: keys, beacons, claimed jobs, signed statements. */
export class FakeHelper {
  readonly #harness: Harness;
  readonly #key: KeyObject;
  readonly publicKey: string;
  readonly incarnation: string = newId();
  readonly hostId: string;

  constructor(harness: Harness, hostId: string = OWN_HOST.host_id) {
    this.#harness = harness;
    this.hostId = hostId;
    const pair = generateKeyPairSync('ed25519');
    this.#key = pair.privateKey;
    this.publicKey = pair.publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
  }

  async start(units: number): Promise<this> {
    await this.#harness.call('register_host', {
      host_id: this.hostId,
      host_key: this.hostId === OWN_HOST.host_id ? OWN_HOST.host_key : `${this.hostId}.local`,
      machine_id: null,
      capacity_units: units,
      protocol_version: 4,
      helper_version: '9.9.9',
      incarnation: this.incarnation,
      key_id: 'key-1',
      public_key: this.publicKey,
    });
    await this.beacon(units);
    return this;
  }

  beacon(units: number): Promise<ToolCalls['host_beacon']['result']> {
    return this.#harness.call('host_beacon', {
      host_id: this.hostId,
      incarnation: this.incarnation,
      capacity_units: units,
    });
  }

  async claim(leaseId: string): Promise<ToolCalls['claim_job']['result'] & { job_token: number }> {
    const job = [...this.#harness.parts.engine.state.jobs.values()].find((open) => open.lease_id === leaseId);
    const claimed = await this.#harness.call('claim_job', {
      job_id: job?.job_id ?? `no job of ${leaseId}`,
      host_id: this.hostId,
      incarnation: this.incarnation,
    });
    return { ...claimed, job_token: claimed.job.job_token ?? 0 };
  }

  /** Provisions what was granted. */
  async activate(leaseId: string): Promise<void> {
    const { job, job_token } = await this.claim(leaseId);
    const connection = { host: '127.0.0.1', ports: { db: 20_001 }, urls: {} };
    const { job_id } = job;
    await this.#harness.call('complete_job', { job_id, job_token, connection, reprovisioned: null, statement: null });
  }

  /** Reaps with a proof, or with what `changes` makes of it. */
  async reap(leaseId: string, changes: Partial<StatementBody> = {}): Promise<ToolAnswer<'complete_job'>> {
    const { job, lease, job_token } = await this.claim(leaseId);
    return this.#harness.answer('complete_job', {
      job_id: job.job_id,
      job_token,
      connection: null,
      reprovisioned: null,
      statement: this.sign(this.#absence('reap', lease, changes)),
    });
  }

  /** Hands a provisioning lease back to the queue, with its roll-back proven. */
  async defer(leaseId: string): Promise<void> {
    const { job, lease, job_token } = await this.claim(leaseId);
    const statement = this.sign(this.#absence('rollback', lease, {}));
    await this.#harness.call('defer_job', { job_id: job.job_id, job_token, reason: 'host_pressure', statement });
  }

  #absence(kind: StatementBody['kind'], lease: LeaseForHelper, changes: Partial<StatementBody>): StatementBody {
    return {
      schema_version: 1,
      kind,
      lease_id: lease.lease_id,
      slot: lease.slot,
      tenant: lease.tenant,
      host_id: this.hostId,
      fencing_token: lease.fencing_token ?? 0,
      plan_digest: lease.plan_digest,
      disposition: 'destroy',
      looked_for: [{ kind: 'port', id: '20001', before: 'present', after: 'absent' }],
      looked_at: '2030-01-01T00:00:00.000Z',
      helper_version: '9.9.9',
      nonce: newId(),
      ...changes,
    };
  }

  sign(body: StatementBody): SignedStatement {
    const statement = JSON.stringify(body);
    return { statement, key_id: 'key-1', signature: sign(null, Buffer.from(statement), this.#key).toString('base64') };
  }
}

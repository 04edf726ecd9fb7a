/** Coordinators as processes of their own on one home, and a client of the one that listens. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { hostKey, machineId } from '../../src/platform/machine.ts';
import type { DiscoveryFile } from '../../src/protocol/discovery.ts';
import type { ToolAnswer, ToolCalls, ToolName } from '../../src/protocol/tool-calls.ts';
import { eventually } from '../support/eventually.ts';
import { type Running, readJson, startProcess } from '../support/stage.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { leaseArgs } from './harness.ts';

const FIXTURE = join(import.meta.dir, 'fixtures/serve-process.ts');

export const localArgs = (slot: string) => leaseArgs(slot, { host_key: hostKey(), machine_id: machineId() });

/** A Helper that does what the shell says. */
export const helperScript = (body: string): string[] => ['/bin/sh', '-c', body];

export class EmbeddedStage implements AsyncDisposable {
  readonly #dir = makeTempDir('bb-embedded-');
  readonly #running: Running[] = [];
  readonly home = join(this.#dir.path, 'home');

  start(helper: string[] = [], environment: Record<string, string> = {}): Running {
    return this.#run([process.execPath, FIXTURE, this.home, ...helper], environment);
  }

  /** The same with a log that takes nothing. */
  startWithoutLog(): Running {
    const command = `exec "${process.execPath}" "${FIXTURE}" "${this.home}" 2> /dev/full`;
    return this.#run(['/bin/sh', '-c', command], { BOTBUDDY_LOG_LEVEL: 'debug' });
  }

  #run(argv: string[], environment: Record<string, string>): Running {
    const { path } = this.#dir;
    const env = { PATH: process.env['PATH'] ?? '', HOME: path, BOTBUDDY_LOG_LEVEL: 'silent', ...environment };
    const started = startProcess(argv, path, env);
    this.#running.push(started);
    return started;
  }

  discovery(): DiscoveryFile | null {
    return readJson(join(this.home, 'coordinator.json')) as DiscoveryFile | null;
  }

  listeningAs(served: Running): Promise<DiscoveryFile> {
    return eventually('it listens', () => {
      const found = this.discovery();
      return found?.identity.pid === served.pid && found;
    });
  }

  token(): string {
    return String(readJson(join(this.home, 'owner.json'))?.['token']);
  }

  async call<N extends ToolName>({ url }: DiscoveryFile, name: N, args: ToolCalls[N]['args']): Promise<ToolAnswer<N>> {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${this.token()}` };
    const response = await fetch(`${url}/v1/tools/${name}`, { method: 'POST', headers, body: JSON.stringify(args) });
    return (await response.json()) as ToolAnswer<N>;
  }

  async result<N extends ToolName>(
    found: DiscoveryFile,
    name: N,
    args: ToolCalls[N]['args'],
  ): Promise<ToolCalls[N]['result']> {
    const answer = await this.call(found, name, args);
    if (answer.ok) return answer.result;
    throw new Error(`${name} was refused: ${answer.error.code}`);
  }

  /** The pid of each life of the Helper, as it noted it in `lives`. */
  helperLives(): string[] {
    const path = join(this.home, 'lives');
    return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const served of this.#running) served.kill('SIGKILL');
    await Promise.all(this.#running.map((served) => served.finished));
    this.#dir[Symbol.dispose]();
  }
}

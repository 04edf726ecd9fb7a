import type { LookedForEntry } from '../../src/helper/attest.ts';
import type { Inspection, StackHands } from '../../src/helper/job-ports.ts';
import type { DiskFacts } from '../../src/helper/job-progress.ts';
import { Failure } from '../../src/platform/failure.ts';
import type { Connection } from '../../src/protocol/records.ts';
import type { LeaseForHelper } from '../../src/protocol/tool-calls.ts';

export const CONNECTION: Connection = { host: '127.0.0.1', ports: { db: 21_000 }, urls: {} };
const ABSENT: LookedForEntry = { kind: 'port', id: '21000', before: 'present', after: 'absent' };

type Step = 'bindClaim' | 'inspect' | 'provision' | 'attach' | 'endChild' | 'tearDown' | 'look';

/** Hands that do what the test says and write down in which order they were used. */
export class ScriptedHands implements StackHands {
  readonly done: string[] = [];
  disk: Omit<DiskFacts, 'stored'> = {
    grant: 'none',
    recordPlan: 'same',
    recordMade: 'before',
    claim: 'bound',
    plan: 'matches',
    supervisor: 'none',
  };
  inspection: Inspection = { found: 'whole', reason: null, connection: CONNECTION };
  sight: LookedForEntry[] = [ABSENT];
  /** Runs in the middle of a step; may throw, or wait. */
  during: Partial<Record<Step, (lease: LeaseForHelper, signal?: AbortSignal) => Promise<void> | void>> = {};

  async read(): Promise<Omit<DiskFacts, 'stored'>> {
    return this.disk;
  }

  bindClaim(lease: LeaseForHelper): Promise<void> {
    return this.#step('bindClaim', lease);
  }

  async inspect(lease: LeaseForHelper): Promise<Inspection> {
    await this.#step('inspect', lease);
    return this.inspection;
  }

  async provision(lease: LeaseForHelper, signal: AbortSignal): Promise<Connection> {
    await this.#step('provision', lease, signal);
    return CONNECTION;
  }

  async attach(lease: LeaseForHelper, signal: AbortSignal): Promise<Connection> {
    await this.#step('attach', lease, signal);
    return CONNECTION;
  }

  async endChild(lease: LeaseForHelper): Promise<boolean> {
    await this.#step('endChild', lease);
    return false;
  }

  tearDown(lease: LeaseForHelper): Promise<void> {
    return this.#step('tearDown', lease);
  }

  async look(lease: LeaseForHelper): Promise<LookedForEntry[]> {
    await this.#step('look', lease);
    return this.sight;
  }

  async #step(step: Step, lease: LeaseForHelper, signal?: AbortSignal): Promise<void> {
    this.done.push(step);
    await this.during[step]?.(lease, signal);
  }
}

/** A start that goes on until it is told to stop. */
export function untilAborted(_lease: LeaseForHelper, signal?: AbortSignal): Promise<void> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener('abort', () => reject(new Failure('interrupted', 'the start was broken off')));
  });
}

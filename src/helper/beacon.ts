/**
 * The Helper's heartbeat. One round: look at what lives here, send the beacon, and bring jobs, supervisors, statements
 * and claims in line with the answer, which lists all that is alive. Nothing is remembered between rounds but whether
 * the coordinator knows this Helper.
 */

import type { Clock } from '../platform/clock.ts';
import { Failure } from '../platform/failure.ts';
import { logger } from '../platform/logging.ts';
import type { LeaseForHelper, ToolCalls } from '../protocol/tool-calls.ts';
import { HELPER_PROTOCOL_VERSION, VERSION } from '../protocol/version.ts';
import { failureOf } from './failure-words.ts';
import type { HostIdentity } from './host-identity.ts';
import { judgeCallFailure } from './host-rules.ts';
import type { JobLoop } from './job-loop.ts';
import type { Calls } from './job-ports.ts';
import type { StackWatch } from './stack-watch.ts';

const log = logger('helper.beacon');

/** Registering again is answered by another Helper's doing the same only where two share an identity. */
const REGISTRATIONS_IN_A_ROW_MAX = 5;

export interface BeaconOptions {
  readonly calls: Calls;
  readonly identity: HostIdentity;
  readonly capacityUnits: number;
  readonly clock: Clock;
  readonly jobs: JobLoop;
  readonly stacks: StackWatch;
  /** Statements and claims, for the leases that live. */
  readonly settle: (leases: readonly LeaseForHelper[]) => Promise<void>;
}

type Answer = ToolCalls['host_beacon']['result'];

export class Beacon {
  readonly #options: BeaconOptions;
  #registered = false;
  #registrations = 0;
  #leases: readonly LeaseForHelper[] = [];
  #lastAt: number | null = null;
  #besides: Promise<void> | null = null;

  constructor(options: BeaconOptions) {
    this.#options = options;
  }

  /** Leases that the last answer listed. */
  get knownLeases(): readonly LeaseForHelper[] {
    return this.#leases;
  }

  get lastAt(): number | null {
    return this.#lastAt;
  }

  /** Resolves when nothing of the last round goes on. */
  async settled(): Promise<void> {
    await this.#besides;
  }

  askForRegistration(): void {
    this.#registered = false;
  }

  /** Throws what kept the beacon from being taken. */
  async round(signal: AbortSignal): Promise<void> {
    const { jobs, stacks, settle, clock } = this.#options;
    const seen = await stacks.scan();
    const { leases, jobs: listed } = await this.#send(signal);
    if (signal.aborted) return;
    this.#leases = leases;
    this.#lastAt = clock.wallMs();
    jobs.follow(listed, leases);
    this.#aside(async () => {
      await stacks.follow(seen, leases);
      await settle(leases);
    });
  }

  /** What may wait for a process that hangs must not keep the next beacon waiting; what is skipped comes again. */
  #aside(action: () => Promise<void>): void {
    if (this.#besides !== null) return;
    this.#besides = action()
      .catch((error: unknown) => log.warn('a round is not complete', { error }))
      .finally(() => {
        this.#besides = null;
      });
  }

  async #send(signal: AbortSignal): Promise<Answer> {
    const { calls, identity, capacityUnits } = this.#options;
    const { host_id, incarnation } = identity;
    for (;;) {
      if (!this.#registered) await this.#register(signal);
      try {
        const answer = await calls.call(
          'host_beacon',
          { host_id, incarnation, capacity_units: capacityUnits },
          { signal },
        );
        this.#registrations = 0;
        return answer;
      } catch (error) {
        if (judgeCallFailure(failureOf(error).error_class) !== 'register') throw error;
        log.info('the coordinator does not know this Helper', { error });
        this.#registered = false;
      }
    }
  }

  async #register(signal: AbortSignal): Promise<void> {
    const { calls, identity, capacityUnits } = this.#options;
    this.#registrations += 1;
    if (this.#registrations > REGISTRATIONS_IN_A_ROW_MAX) {
      throw new Failure('HELPER_SUPERSEDED', 'another Helper keeps registering as this host');
    }
    await calls.call(
      'register_host',
      {
        host_id: identity.host_id,
        host_key: identity.host_key,
        machine_id: identity.machine_id,
        capacity_units: capacityUnits,
        protocol_version: HELPER_PROTOCOL_VERSION,
        helper_version: VERSION,
        incarnation: identity.incarnation,
        key_id: identity.key.key_id,
        public_key: identity.key.public_key,
      },
      { signal },
    );
    this.#registered = true;
  }
}

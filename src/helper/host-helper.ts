/** The parts of a Helper, put together: what each one is stands in its own file. */
import { systemClock } from '../platform/clock.ts';
import type { Environment } from '../platform/environment.ts';
import { defaultUnits } from '../platform/machine.ts';
import { homePaths } from '../platform/paths.ts';
import { ownIdentity } from '../platform/processes.ts';
import { onTerminationSignals } from '../platform/signals.ts';
import { every } from '../platform/timers.ts';
import { resolveSetting, settingCount, settingMs } from '../protocol/settings.ts';
import { VERSION } from '../protocol/version.ts';
import type { StackDriver } from '../stack/driver.ts';
import { StatementStore } from './attest.ts';
import { Beacon } from './beacon.ts';
import { ClaimUpkeep } from './claim-upkeep.ts';
import type { CoordinatorLink } from './coordinator-link.ts';
import { HelperLife, type LifeEnd } from './helper-life.ts';
import type { HostIdentity } from './host-identity.ts';
import { HostSupervisors } from './host-supervisors.ts';
import { JobLoop } from './job-loop.ts';
import { HostHands } from './stack-hands.ts';
import { StackWatch } from './stack-watch.ts';
import { type HelperStatus, StatusFile } from './status-file.ts';

const STATUS_MS = 1_000;

export interface HostHelperOptions {
  readonly embedded: boolean;
  readonly home: string;
  readonly environment: Environment;
  readonly identity: HostIdentity;
  readonly driver: StackDriver;
  readonly link: CoordinatorLink;
}

export class HostHelper {
  readonly #options: HostHelperOptions;
  readonly #capacityUnits: number;
  readonly #startedAt = new Date(systemClock.wallMs()).toISOString();
  readonly #jobs: JobLoop;
  readonly #stacks: StackWatch;
  readonly #beacon: Beacon;
  readonly #life: HelperLife;
  readonly #status: StatusFile;
  #attached = false;

  constructor(options: HostHelperOptions) {
    this.#options = options;
    const { home, environment } = options;
    this.#capacityUnits = settingCount('host_units', resolveSetting('host_units', environment)) ?? defaultUnits();
    this.#status = new StatusFile(homePaths(home).helperState);
    const statements = new StatementStore(home);
    const hands = this.#makeHands();
    const claims = this.#makeClaims(statements, hands);
    this.#jobs = this.#makeJobs(statements, hands, claims);
    this.#stacks = this.#makeStacks();
    this.#beacon = this.#makeBeacon(claims);
    this.#life = this.#makeLife();
  }

  /** A coordinator that is not there is worth starting: a lease lives, and nobody said farewell. */
  get needsCoordinator(): boolean {
    return !this.#life.isEnding && this.#beacon.knownLeases.length > 0;
  }

  async live(): Promise<LifeEnd> {
    const unsignal = onTerminationSignals(() => this.#life.end('told_to_end'));
    const stopWriting = every(STATUS_MS, () => this.#writeStatus());
    this.#writeStatus();
    try {
      const end = await this.#life.run();
      if (end === 'told_to_end' && this.#options.link.presence() !== null) await this.#jobs.drain();
      this.#jobs.stop();
      return end;
    } finally {
      stopWriting();
      this.#stacks.stop();
      unsignal();
    }
  }

  #makeHands(): HostHands {
    const { home, identity, driver } = this.#options;
    return new HostHands({ home, hostKey: identity.host_key, driver, clock: systemClock });
  }

  #makeClaims(statements: StatementStore, hands: HostHands): ClaimUpkeep {
    const { home, identity, link } = this.#options;
    return new ClaimUpkeep({
      home,
      hostKey: identity.host_key,
      calls: link.calls,
      statements,
      clock: systemClock,
      forget: (lease) => hands.forget(lease),
    });
  }

  #makeJobs(statements: StatementStore, hands: HostHands, claims: ClaimUpkeep): JobLoop {
    const { identity, link } = this.#options;
    return new JobLoop({
      calls: link.calls,
      hands,
      identity,
      statements,
      clock: systemClock,
      reported: async (report) => {
        await claims.reported(report);
        this.#life.nudge();
      },
      askForRegistration: () => {
        this.#beacon.askForRegistration();
        this.#life.nudge();
      },
    });
  }

  #makeStacks(): StackWatch {
    const { home, identity, driver, link } = this.#options;
    return new StackWatch({
      calls: link.calls,
      identity,
      supervisors: new HostSupervisors({ home, driver }),
      worksOn: (leaseId) => this.#jobs.worksOn(leaseId),
    });
  }

  #makeBeacon(claims: ClaimUpkeep): Beacon {
    const { identity, link } = this.#options;
    return new Beacon({
      calls: link.calls,
      identity,
      capacityUnits: this.#capacityUnits,
      clock: systemClock,
      jobs: this.#jobs,
      stacks: this.#stacks,
      settle: (leases) => claims.follow(leases),
    });
  }

  #makeLife(): HelperLife {
    const { environment, embedded, link } = this.#options;
    const ms = (name: 'beacon_secs' | 'embedded_idle_exit_secs') => settingMs(name, resolveSetting(name, environment));
    return new HelperLife({
      link,
      beacon: this.#beacon,
      clock: systemClock,
      embedded,
      beaconMs: ms('beacon_secs'),
      idleExitMs: ms('embedded_idle_exit_secs'),
      afterRound: (attached) => {
        this.#attached = attached;
        this.#writeStatus();
      },
    });
  }

  #writeStatus(): void {
    this.#status.write(this.#statusNow(), systemClock.monotonicMs());
  }

  #statusNow(): HelperStatus {
    const { identity } = this.#options;
    const { lastAt, knownLeases } = this.#beacon;
    return {
      schema_version: 1,
      identity: ownIdentity(),
      version: VERSION,
      incarnation: identity.incarnation,
      host_id: identity.host_id,
      host_key: identity.host_key,
      key_id: identity.key.key_id,
      capacity_units: this.#capacityUnits,
      started_at: this.#startedAt,
      coordinator: this.#attached ? 'attached' : 'gone',
      last_beacon_at: lastAt === null ? null : new Date(lastAt).toISOString(),
      leases: knownLeases.map(({ lease_id, state }) => ({ lease_id, state })),
      jobs: this.#jobs.inFlight(),
    };
  }
}

/**
 * Live leases and their supervisors: renews those that the coordinator calls live, notices at once when one dies, ends
 * what it left and reports the stack lost. Ends what nobody knows only where it is provably ours.
 */
import { Failure } from '../platform/failure.ts';
import { logger } from '../platform/logging.ts';
import { withTimeout } from '../platform/timers.ts';
import type { LeaseForHelper } from '../protocol/tool-calls.ts';
import { failureOf } from './failure-words.ts';
import type { HostIdentity } from './host-identity.ts';
import { judgeCallFailure, judgeStack, judgeSupervisor } from './host-rules.ts';
import type { Calls } from './job-ports.ts';
import type { SeenSupervisor, SupervisorPorts } from './supervisor-ports.ts';

const log = logger('helper.stacks');

const REPORT_FIRST_MS = 1_000;

export interface StackWatchOptions {
  readonly calls: Calls;
  readonly identity: HostIdentity;
  readonly supervisors: SupervisorPorts;
  /** A job of the lease is in hand: its stack is the job's affair. */
  readonly worksOn: (leaseId: string) => boolean;
}

interface Watched {
  readonly seen: SeenSupervisor;
  readonly stop: () => void;
}

export class StackWatch {
  readonly #options: StackWatchOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #reporting = new Set<string>();
  /** What was said already, so that it is said once. */
  readonly #kept = new Set<string>();

  constructor(options: StackWatchOptions) {
    this.#options = options;
  }

  /** To be called before the beacon is sent: what is seen later proves nothing about its answer. */
  scan(): Promise<SeenSupervisor[]> {
    return this.#options.supervisors.scan();
  }

  async follow(seen: readonly SeenSupervisor[], leases: readonly LeaseForHelper[]): Promise<void> {
    await Promise.all(seen.map((supervisor) => this.#treat(supervisor, leases)));
    for (const lease of leases) {
      const supervisor = seen.find((one) => one.lease_id === lease.lease_id);
      const inHand = this.#options.worksOn(lease.lease_id);
      switch (judgeStack(lease.state, supervisor === undefined ? 'gone' : 'alive', inHand)) {
        case 'watch':
          if (supervisor !== undefined) this.#watch(supervisor, lease);
          break;
        case 'report_lost':
          // The scan is older than the answer: a stack that has come up since is not lost.
          if (!(await this.#isUpNow(lease.lease_id))) await this.#lost(lease, 'its supervisor is gone');
          break;
        case 'nothing':
          this.#unwatch(lease.lease_id);
      }
    }
    for (const leaseId of this.#watched.keys()) {
      if (!leases.some(({ lease_id }) => lease_id === leaseId)) this.#unwatch(leaseId);
    }
  }

  stop(): void {
    for (const leaseId of [...this.#watched.keys()]) this.#unwatch(leaseId);
  }

  async #isUpNow(leaseId: string): Promise<boolean> {
    return (await this.scan()).some((supervisor) => supervisor.lease_id === leaseId);
  }

  async #treat(seen: SeenSupervisor, leases: readonly LeaseForHelper[]): Promise<void> {
    const { supervisors } = this.#options;
    const step = judgeSupervisor(seen, leases);
    const about = { lease_id: seen.lease_id, fencing_token: seen.fencing_token, slot_dir: seen.slot_dir };
    try {
      if (step === 'renew') {
        const lease = leases.find(({ lease_id }) => lease_id === seen.lease_id);
        if (lease !== undefined) await supervisors.renew(seen, lease);
      } else if (step === 'end') {
        log.warn('ending a supervisor whose lease nobody knows', about);
        await supervisors.end(seen);
      } else if (step === 'keep_and_say' && !this.#kept.has(keyOf(seen))) {
        this.#kept.add(keyOf(seen));
        log.warn('a supervisor of an unknown grant is kept and not renewed', about);
      }
    } catch (error) {
      log.warn('a supervisor could not be reached', { ...about, step, error });
    }
  }

  #watch(seen: SeenSupervisor, lease: LeaseForHelper): void {
    const known = this.#watched.get(lease.lease_id);
    if (known !== undefined && keyOf(known.seen) === keyOf(seen)) return;
    this.#unwatch(lease.lease_id);
    const stop = this.#options.supervisors.watch(seen, (why) => {
      this.#watched.delete(lease.lease_id);
      if (judgeStack('active', 'gone', this.#options.worksOn(lease.lease_id)) === 'report_lost') {
        void this.#lost(lease, why);
      }
    });
    this.#watched.set(lease.lease_id, { seen, stop });
  }

  #unwatch(leaseId: string): void {
    this.#watched.get(leaseId)?.stop();
    this.#watched.delete(leaseId);
  }

  async #lost(lease: LeaseForHelper, why: string): Promise<void> {
    if (this.#reporting.has(lease.lease_id)) return;
    this.#reporting.add(lease.lease_id);
    try {
      log.warn('a stack was lost', { lease_id: lease.lease_id, why });
      // Told first where that is quick: the client then knows why its command is ended.
      const report = this.#report(lease, why);
      await withTimeout(
        report.catch(() => null),
        REPORT_FIRST_MS,
      );
      await this.#options.supervisors.endGroups(lease);
      await report;
    } catch (error) {
      // The next beacon finds it gone again.
      log.warn('a lost stack could not be reported', { lease_id: lease.lease_id, error });
    } finally {
      this.#reporting.delete(lease.lease_id);
    }
  }

  async #report(lease: LeaseForHelper, why: string): Promise<void> {
    const { calls, identity } = this.#options;
    const { lease_id, fencing_token } = lease;
    if (fencing_token === null) throw new Failure('internal', `lease ${lease_id} was never granted`);
    const { host_id, incarnation } = identity;
    try {
      await calls.call('report_stack_lost', {
        lease_id,
        host_id,
        incarnation,
        fencing_token,
        error: `the stack is lost: ${why}`,
      });
    } catch (error) {
      if (judgeCallFailure(failureOf(error).error_class) !== 'lost') throw error;
    }
  }
}

function keyOf({ lease_id, fencing_token, slot_dir }: SeenSupervisor): string {
  return `${slot_dir} ${lease_id} ${fencing_token}`;
}

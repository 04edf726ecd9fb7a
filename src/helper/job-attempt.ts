/**
 * One attempt at one job: asks the rules, does what they say, tells the coordinator how it ended.
 * A lost claim stops it: it changes nothing more, and whoever holds the next claim reads the disk afresh.
 * This is where the errors of drivers and files are caught and become the words of a failed job.
 */
import { Failure } from '../platform/failure.ts';
import { logger } from '../platform/logging.ts';
import { every } from '../platform/timers.ts';
import type { Connection, Job } from '../protocol/records.ts';
import type { LeaseForHelper } from '../protocol/tool-calls.ts';
import { attest, type KeptStatement, type LookedForEntry } from './attest.ts';
import { failureOf, stillThere } from './failure-words.ts';
import { JOB_RENEW_MS, judgeCallFailure, type OwnWorkFacts } from './host-rules.ts';
import type { JobPorts } from './job-ports.ts';
import { type ActionResult, advance, type DiskFacts, type JobProgress, startOf, verdictOf } from './job-progress.ts';
import { type Report, sendReport } from './job-report.ts';
import { type JobAction, nextAction } from './job-rules.ts';

const log = logger('helper.job');

/** No decision before the claim looks at the disk. */
const UNREAD: DiskFacts = {
  grant: 'unreadable',
  recordPlan: 'other',
  recordMade: 'before',
  claim: 'unreadable',
  plan: 'missing',
  supervisor: 'none',
  stored: 'none',
};

export class JobAttempt {
  readonly job: Job;
  readonly finished: Promise<void>;
  readonly #ports: JobPorts;
  /** Attempts on the same lease that began before this one. */
  readonly #earlier: () => readonly JobAttempt[];
  /** The start that is under way is to be broken off. */
  readonly #breakOff = new AbortController();
  /** The claim is lost: not even the report goes on. */
  readonly #loss = new AbortController();
  #lease: LeaseForHelper;
  #progress: JobProgress;
  #token: number | null;
  #reporting = false;
  #draining = false;
  #connection: Connection | null = null;
  #lookedFor: LookedForEntry[] = [];
  #statement: KeptStatement | null = null;

  constructor(options: {
    job: Job;
    lease: LeaseForHelper;
    ports: JobPorts;
    /** The token of a claim that is held already. */
    token: number | null;
    earlier: () => readonly JobAttempt[];
  }) {
    this.job = options.job;
    this.#lease = options.lease;
    this.#ports = options.ports;
    this.#token = options.token;
    this.#earlier = options.earlier;
    this.#progress = { ...startOf(this.job.kind), hold: this.#token === null ? 'none' : 'held' };
    this.finished = this.#run();
  }

  get facts(): OwnWorkFacts {
    return { job_id: this.job.job_id, job_token: this.#token, reporting: this.#reporting };
  }

  get #lost(): boolean {
    return this.#loss.signal.aborted;
  }

  get stage(): string {
    return `${this.#progress.intent}:${this.#progress.stage}`;
  }

  /** The claim is gone: whatever runs is stopped and nothing more is changed. */
  lose(): void {
    this.#loss.abort();
    this.#breakOff.abort();
  }

  drain(): void {
    this.#draining = true;
    if (this.#progress.intent === 'start') this.#breakOff.abort();
  }

  async #run(): Promise<void> {
    // The caller gets the attempt into its books before the first step.
    await Promise.resolve();
    const stopRenewing = every(JOB_RENEW_MS, () => void this.#renew());
    try {
      await this.#steps();
    } catch (error) {
      log.error('an attempt at a job ended by a bug', { job_id: this.job.job_id, error });
    } finally {
      stopRenewing();
    }
  }

  async #steps(): Promise<void> {
    for (;;) {
      const disk = this.#progress.hold === 'held' ? await this.#readDisk() : UNREAD;
      const action = nextAction(this.#progress, disk, this.#earlier().length > 0 ? 'running' : 'none');
      log.debug('next', { job_id: this.job.job_id, kind: this.job.kind, action: action.do, disk });
      if (action.do === 'abandon') return;
      const report = this.#reportOf(action);
      if (report !== null) return await this.#report(report);
      const result = await this.#perform(action);
      this.#progress = this.#settle(disk, action, result);
    }
  }

  #settle(disk: DiskFacts, action: JobAction, result: ActionResult): JobProgress {
    if (this.#lost) return advance(this.#progress, disk, { done: 'lost' });
    if (!this.#draining || this.#progress.intent !== 'start') return advance(this.#progress, disk, result);
    if (result.done === 'failed' && (action.do === 'provision' || action.do === 'attach')) {
      return advance(this.#progress, disk, { done: 'drained', stopped: action.do });
    }
    return advance(advance(this.#progress, disk, result), disk, { done: 'drained', stopped: null });
  }

  /** What cannot be read is not known, and so nothing is touched. */
  async #readDisk(): Promise<DiskFacts> {
    try {
      const stored = this.job.kind === 'reap_stack' ? this.#storedProof() : null;
      const disk = await this.#ports.hands.read(this.job, this.#lease);
      return { ...disk, stored: stored === null ? 'none' : 'usable' };
    } catch (error) {
      log.warn('the state of a slot cannot be read', { job_id: this.job.job_id, error });
      return UNREAD;
    }
  }

  #storedProof(): KeptStatement | null {
    return this.#ports.statements.usableFor(this.#lease, ['reap', 'pre_driver']);
  }

  async #perform(action: JobAction): Promise<ActionResult> {
    try {
      return await this.#act(action);
    } catch (error) {
      const words = failureOf(error);
      const level = this.#breakOff.signal.aborted ? 'debug' : 'warn';
      log[level]('an action of a job failed', { job_id: this.job.job_id, action: action.do, error });
      return { done: 'failed', action: action.do as 'look', ...words };
    }
  }

  async #act(action: JobAction): Promise<ActionResult> {
    const { hands, statements } = this.#ports;
    const lease = this.#lease;
    switch (action.do) {
      case 'claim':
        return { done: 'claim', held: await this.#claim() };
      case 'stop_own_work':
        for (const other of this.#earlier()) other.lose();
        await Promise.all(this.#earlier().map((other) => other.finished));
        return { done: 'stop_own_work' };
      case 'bind_claim':
        await hands.bindClaim(lease);
        return { done: 'bind_claim' };
      case 'inspect': {
        const seen = await hands.inspect(lease);
        this.#connection = seen.connection;
        return { done: 'inspect', found: seen.found, reason: seen.reason };
      }
      case 'provision':
      case 'attach':
        statements.voidPending(lease.lease_id);
        this.#connection = await hands[action.do](lease, this.#breakOff.signal);
        return { done: action.do };
      case 'end_child':
        return { done: 'end_child', ended: await hands.endChild(lease, action.marked) };
      case 'tear_down':
        await hands.tearDown(lease, this.#disposition());
        return { done: 'tear_down' };
      case 'look':
        this.#lookedFor = await hands.look(lease, this.#disposition());
        return { done: 'look', verdict: verdictOf(this.#lookedFor) };
      case 'sign':
        return { done: 'sign', verdict: this.#sign(action.kind) };
      case 'turn':
        return { done: 'failed', action: 'turn', error_class: action.error_class, error: action.error };
      default:
        throw new Failure('internal', `${action.do} is no step of a job`);
    }
  }

  /** A failed or handed-back start keeps nothing; a reap keeps what its lease says. */
  #disposition(): 'destroy' | 'stop' {
    return this.job.kind === 'reap_stack' ? this.#lease.reap_disposition : 'destroy';
  }

  #sign(kind: KeptStatement['kind']): KeptStatement['verdict'] {
    const { identity, statements, clock } = this.#ports;
    this.#statement = attest(identity, {
      kind,
      lease: this.#lease,
      disposition: this.#disposition(),
      lookedFor: this.#lookedFor,
      lookedAtMs: clock.wallMs(),
    });
    statements.keep(this.#statement);
    return this.#statement.verdict;
  }

  async #claim(): Promise<boolean> {
    const { calls, identity } = this.#ports;
    try {
      const args = { job_id: this.job.job_id, host_id: identity.host_id, incarnation: identity.incarnation };
      const { job, lease } = await calls.call('claim_job', args, { signal: this.#loss.signal });
      this.#token = job.job_token;
      this.#lease = lease;
      return this.#token !== null;
    } catch (error) {
      log.info('a job could not be claimed', { job_id: this.job.job_id, error });
      return false;
    }
  }

  async #renew(): Promise<void> {
    if (this.#token === null || this.#lost) return;
    try {
      await this.#ports.calls.call('renew_job', { job_id: this.job.job_id, job_token: this.#token });
    } catch (error) {
      if (judgeCallFailure(failureOf(error).error_class) === 'lost' && !this.#reporting) this.lose();
    }
  }

  async #report(report: Report): Promise<void> {
    this.#reporting = true;
    log.info('report', { job_id: this.job.job_id, tool: report.tool, lease_id: this.job.lease_id });
    const view = await sendReport(this.#ports, report, this.#loss.signal);
    this.#token = null;
    if (view !== null) {
      await this.#ports.reported({ lease: this.#lease, view, statement: this.#statement });
    }
  }

  #reportOf(action: JobAction): Report | null {
    const common = { job_id: this.job.job_id, job_token: this.#token ?? 0, statement: this.#statement?.signed ?? null };
    switch (action.do) {
      case 'complete': {
        const reprovisioned = this.#progress.reprovisioned;
        if (this.job.kind === 'reap_stack') {
          this.#statement ??= this.#storedProof();
          const statement = this.#statement?.signed ?? null;
          return { tool: 'complete_job', args: { ...common, statement, connection: null, reprovisioned } };
        }
        return { tool: 'complete_job', args: { ...common, connection: this.#connection, reprovisioned } };
      }
      case 'fail': {
        const words = this.#progress.failure ?? stillThere(this.#lookedFor);
        return { tool: 'fail_job', args: { ...common, ...words } };
      }
      case 'refuse':
        return { tool: 'fail_job', args: { ...common, error: action.error, error_class: action.error_class } };
      case 'defer':
        return { tool: 'defer_job', args: { ...common, reason: action.reason } };
      default:
        return null;
    }
  }
}

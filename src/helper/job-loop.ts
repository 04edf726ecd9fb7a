/**
 * All attempts of this Helper: parallel over leases, serial on one. A later job of a lease stops the earlier one and
 * waits for it; nothing of a lease is ever touched by two attempts at once.
 * Read next: `job-attempt.ts` for one attempt, `job-rules.ts` for its decisions.
 */
import { withTimeout } from '../platform/timers.ts';
import type { Job } from '../protocol/records.ts';
import type { LeaseForHelper } from '../protocol/tool-calls.ts';
import { isTakenBack, judgeJob } from './host-rules.ts';
import { JobAttempt } from './job-attempt.ts';
import type { JobPorts } from './job-ports.ts';

/** How long a Helper that is to end waits for what it has in hand. */
const DRAIN_MS_MAX = 7_000;
const STOP_MS_MAX = 1_000;

export class JobLoop {
  readonly #ports: JobPorts;
  readonly #attempts = new Set<JobAttempt>();
  #draining = false;

  constructor(ports: JobPorts) {
    this.#ports = ports;
  }

  /** Brings the attempts in line with what a beacon's answer lists. */
  follow(jobs: readonly Job[], leases: readonly LeaseForHelper[]): void {
    for (const attempt of this.#attempts) {
      if (isTakenBack(attempt.facts, jobs)) attempt.lose();
    }
    for (const job of jobs) {
      const lease = leases.find(({ lease_id }) => lease_id === job.lease_id);
      const own = this.#latestFor(job.job_id);
      if (lease === undefined) continue;
      switch (judgeJob(job, own?.facts ?? null, this.#ports.identity.incarnation, this.#draining)) {
        case 'take':
          this.#start(job, lease, null);
          break;
        case 'resume':
          this.#start(job, lease, job.job_token);
          break;
        case 'drop_and_take':
          own?.lose();
          this.#start(job, lease, null);
          break;
        case 'go_on':
        case 'leave':
          break;
      }
    }
  }

  worksOn(leaseId: string): boolean {
    return [...this.#attempts].some(({ job }) => job.lease_id === leaseId);
  }

  inFlight(): { job_id: string; kind: Job['kind']; lease_id: string; stage: string }[] {
    return [...this.#attempts].map(({ job: { job_id, kind, lease_id }, stage }) => ({ job_id, kind, lease_id, stage }));
  }

  /** Takes nothing new, finishes or hands back what is in hand; what takes too long is left to the next life. */
  async drain(): Promise<void> {
    this.#draining = true;
    for (const attempt of this.#attempts) attempt.drain();
    const all = () => Promise.all([...this.#attempts].map(({ finished }) => finished));
    if ((await withTimeout(all(), DRAIN_MS_MAX)) !== 'timed_out') return;
    this.stop();
    await withTimeout(all(), STOP_MS_MAX);
  }

  /** Ends every attempt where it stands. */
  stop(): void {
    this.#draining = true;
    for (const attempt of this.#attempts) attempt.lose();
  }

  #latestFor(jobId: string): JobAttempt | null {
    return [...this.#attempts].findLast(({ job }) => job.job_id === jobId) ?? null;
  }

  #start(job: Job, lease: LeaseForHelper, token: number | null): void {
    const attempt: JobAttempt = new JobAttempt({
      job,
      lease,
      token,
      ports: this.#ports,
      earlier: () => this.#earlierThan(attempt),
    });
    this.#attempts.add(attempt);
    void attempt.finished.finally(() => this.#attempts.delete(attempt));
  }

  #earlierThan(attempt: JobAttempt): JobAttempt[] {
    const earlier: JobAttempt[] = [];
    for (const other of this.#attempts) {
      if (other === attempt) break;
      if (other.job.lease_id === attempt.job.lease_id) earlier.push(other);
    }
    return earlier;
  }
}

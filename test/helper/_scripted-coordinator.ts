import { Failure } from '../../src/platform/failure.ts';
import type { Job, LeaseView } from '../../src/protocol/records.ts';
import type { LeaseForHelper, ToolCalls, ToolName } from '../../src/protocol/tool-calls.ts';

type Handler<N extends ToolName> = (args: ToolCalls[N]['args']) => ToolCalls[N]['result'];

/** Answers calls like a coordinator with one host would, as far as a Helper can tell; keeps what it was told. */
export class ScriptedCoordinator {
  readonly told: { name: ToolName; args: Record<string, unknown> }[] = [];
  readonly leases = new Map<string, LeaseForHelper>();
  readonly jobs = new Map<string, Job>();
  readonly ended = new Map<string, LeaseView>();
  readonly #overrides = new Map<ToolName, ((args: never) => unknown)[]>();
  #nextToken = 100;

  /** The next call of this tool is answered by `handler` alone. */
  once<N extends ToolName>(name: N, handler: Handler<N>): void {
    this.#overrides.set(name, [...(this.#overrides.get(name) ?? []), handler as never]);
  }

  unreachableOnce(name: ToolName): void {
    this.once(name, () => {
      throw new Failure('platform_unreachable', 'nobody answers');
    });
  }

  addJob(job: Partial<Job> & Pick<Job, 'job_id' | 'kind' | 'lease_id'>): Job {
    const added: Job = {
      host_id: 'H',
      state: 'open',
      job_token: null,
      claimed_by: null,
      claimed_at: null,
      attempts: 0,
      not_before: null,
      opened_at: 0,
      ...job,
    };
    this.jobs.set(added.job_id, added);
    return added;
  }

  toldOf<N extends ToolName>(name: N): ToolCalls[N]['args'][] {
    return this.told.filter((call) => call.name === name).map(({ args }) => args as unknown as ToolCalls[N]['args']);
  }

  async call<N extends ToolName>(name: N, args: ToolCalls[N]['args']): Promise<ToolCalls[N]['result']> {
    this.told.push({ name, args: args as unknown as Record<string, unknown> });
    const override = this.#overrides.get(name)?.shift();
    if (override !== undefined) return override(args as never) as ToolCalls[N]['result'];
    return this.#answer(name, args as unknown as Record<string, unknown>) as ToolCalls[N]['result'];
  }

  #answer(name: ToolName, args: Record<string, unknown>): unknown {
    switch (name) {
      case 'register_host':
        return { host_id: args['host_id'] };
      case 'host_beacon':
        return { leases: [...this.leases.values()], jobs: [...this.jobs.values()], cursor: 'e.1' };
      case 'claim_job':
        return this.#claim(String(args['job_id']), String(args['incarnation']));
      case 'renew_job':
        this.#held(args);
        return { job_id: args['job_id'] };
      case 'complete_job':
        return { lease: this.#close(args, (kind) => (kind === 'reap_stack' ? 'reaped' : 'active')) };
      case 'fail_job':
        return { lease: this.#close(args, () => (args['statement'] === null ? 'reaping' : 'reaped')) };
      case 'defer_job':
        return { lease: this.#close(args, () => 'queued') };
      case 'report_stack_lost':
        return { lease: viewOf(this.#lease(String(args['lease_id']))) };
      case 'get_stack_lease': {
        const lease = this.ended.get(String(args['lease_id']));
        if (lease === undefined) throw new Failure('LEASE_NOT_FOUND', 'no such lease');
        return { lease, archived: true, ledger: null };
      }
      default:
        throw new Failure('not_found', `${name} is not scripted`);
    }
  }

  #claim(jobId: string, incarnation: string): ToolCalls['claim_job']['result'] {
    const job = this.jobs.get(jobId);
    if (job?.state !== 'open') throw new Failure('JOB_NOT_OPEN', 'not open');
    Object.assign(job, { state: 'claimed', claimed_by: incarnation, job_token: this.#nextToken++ });
    return { job: { ...job }, lease: this.#lease(job.lease_id) };
  }

  #held(args: Record<string, unknown>): Job {
    const job = this.jobs.get(String(args['job_id']));
    if (job === undefined || job.state !== 'claimed' || job.job_token !== args['job_token']) {
      throw new Failure('JOB_CLAIM_LOST', 'the claim was lost');
    }
    return job;
  }

  #close(args: Record<string, unknown>, stateAfter: (kind: Job['kind']) => LeaseView['state']): LeaseView {
    const job = this.#held(args);
    this.jobs.delete(job.job_id);
    const lease = this.#lease(job.lease_id);
    const state = stateAfter(job.kind);
    const changed = { ...lease, state };
    const view = viewOf(changed);
    if (state === 'reaped') {
      this.leases.delete(lease.lease_id);
      Object.assign(view, { cleanup_verified: true, cleanup_proof: 'signed_reap', cleanup_receipt_id: 'receipt-1' });
      this.ended.set(lease.lease_id, view);
    } else {
      this.leases.set(lease.lease_id, changed);
    }
    return view;
  }

  #lease(leaseId: string): LeaseForHelper {
    const lease = this.leases.get(leaseId);
    if (lease === undefined) throw new Failure('LEASE_NOT_FOUND', 'no such lease');
    return lease;
  }
}

function viewOf(lease: LeaseForHelper): LeaseView {
  return { ...lease, cleanup_proof: null, cleanup_receipt_id: null } as unknown as LeaseView;
}

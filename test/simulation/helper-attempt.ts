/** One attempt of a simulated Helper at one job: the real rules decide, the hands act, the wire carries the end. */
import { JOB_RENEW_MS, judgeCallFailure, type OwnWorkFacts, retryDelayMs } from '../../src/helper/host-rules.ts';
import {
  type ActionResult,
  advance,
  type DiskFacts,
  type JobProgress,
  startOf,
  verdictOf,
} from '../../src/helper/job-progress.ts';
import { type JobAction, nextAction } from '../../src/helper/job-rules.ts';
import type { Connection, Disposition, Job, LeaseView } from '../../src/protocol/records.ts';
import type { LeaseForHelper, StatementBody } from '../../src/protocol/tool-calls.ts';
import { confirmClaims } from './claims.ts';
import { askerOf, type Hands, HandsFailure, type LookedFor, readDisk } from './helper-hands.ts';
import { type CallAnswer, call, isBlip } from './network.ts';
import type { Sim } from './sim.ts';
import type { Life } from './timeline.ts';
import type { KeptLook, SimHost } from './world.ts';

const UNREAD: DiskFacts = {
  grant: 'unreadable',
  recordPlan: 'other',
  recordMade: 'before',
  claim: 'unreadable',
  plan: 'missing',
  supervisor: 'none',
  stored: 'none',
};

export interface AttemptPorts {
  readonly sim: Sim;
  readonly host: SimHost;
  readonly life: Life;
  readonly hands: Hands;
  readonly incarnation: string;
  earlierThan(attempt: SimAttempt): SimAttempt[];
  finished(attempt: SimAttempt): void;
  reported(lease: LeaseForHelper, view: LeaseView, statement: KeptLook | null): void;
  askForRegistration(): void;
}

type ReportName = 'complete_job' | 'fail_job' | 'defer_job';

export class SimAttempt {
  readonly job: Job;
  readonly #ports: AttemptPorts;
  #lease: LeaseForHelper;
  #progress: JobProgress;
  #token: number | null;
  #reporting = false;
  #lost = false;
  #draining = false;
  #over = false;
  #connection: Connection | null = null;
  #lookedFor: LookedFor = [];
  #statement: KeptLook | null = null;

  constructor(ports: AttemptPorts, job: Job, lease: LeaseForHelper, token: number | null) {
    this.#ports = ports;
    this.job = job;
    this.#lease = lease;
    this.#token = token;
    this.#progress = { ...startOf(job.kind), hold: token === null ? 'none' : 'held' };
    if (token === null) this.#next();
    else this.#confirm(token);
    this.#renewLater();
  }

  get facts(): OwnWorkFacts {
    return { job_id: this.job.job_id, job_token: this.#token, reporting: this.#reporting };
  }

  lose(): void {
    this.#lost = true;
  }

  drain(): void {
    this.#draining = true;
  }

  /** What a beacon's answer said of a claim may be long past: it counts once it was renewed. */
  #confirm(token: number): void {
    const { sim, life } = this.#ports;
    call(sim, life, 'renew_job', { job_id: this.job.job_id, job_token: token }, (answer) => {
      if (answer.ok) this.#next();
      else this.#finish();
    });
  }

  #next(): void {
    const { sim, life } = this.#ports;
    sim.timeline.after(sim.random.below(4), life, `attempt at ${this.job.kind}`, () => this.#step(), true);
  }

  #step(): void {
    const disk = this.#progress.hold === 'held' ? this.#readDisk() : UNREAD;
    const action = nextAction(this.#progress, disk, this.#ports.earlierThan(this).length > 0 ? 'running' : 'none');
    if (action.do === 'abandon') {
      this.#finish();
      return;
    }
    if (this.#report(action)) return;
    this.#perform(action, (result) => {
      this.#progress = this.#settle(disk, action, result);
      this.#next();
    });
  }

  #settle(disk: DiskFacts, action: JobAction, result: ActionResult): JobProgress {
    if (this.#lost) return advance(this.#progress, disk, { done: 'lost' });
    if (!this.#draining || this.#progress.intent !== 'start') return advance(this.#progress, disk, result);
    if (result.done === 'failed' && (action.do === 'provision' || action.do === 'attach')) {
      return advance(this.#progress, disk, { done: 'drained', stopped: action.do });
    }
    return advance(advance(this.#progress, disk, result), disk, { done: 'drained', stopped: null });
  }

  #readDisk(): DiskFacts {
    const stored = this.job.kind === 'reap_stack' ? this.#storedProof() : null;
    const disk = readDisk(this.#ports.host, this.job, this.#lease);
    return { ...disk, stored: stored === null ? 'none' : 'usable' };
  }

  #storedProof(): KeptLook | null {
    const lease = this.#lease;
    for (const kept of this.#ports.host.statements.values()) {
      if (kept.state !== 'pending' || kept.verdict !== 'absent' || kept.kind === 'rollback') continue;
      if (kept.lease_id !== lease.lease_id || kept.fencing_token !== lease.fencing_token) continue;
      if (kept.lease.plan_digest === lease.plan_digest && kept.disposition === lease.reap_disposition) return kept;
    }
    return null;
  }

  #perform(action: JobAction, done: (result: ActionResult) => void): void {
    const { hands } = this.#ports;
    const lease = this.#lease;
    const or = orFailure(action, done);
    switch (action.do) {
      case 'claim':
        this.#claim((held) => done({ done: 'claim', held }));
        return;
      case 'stop_own_work':
        this.#stopEarlier(done);
        return;
      case 'bind_claim':
        or((): ActionResult => ({ done: 'bind_claim' }))(this.#bindClaim());
        return;
      case 'inspect':
        hands.inspect(
          lease,
          or(({ found, reason, connection }) => {
            this.#connection = connection;
            return { done: 'inspect', found, reason };
          }),
        );
        return;
      case 'provision':
        this.#voidPending();
        hands.provision(
          lease,
          this.#units(),
          or((connection) => this.#up(connection, 'provision')),
        );
        return;
      case 'attach':
        this.#voidPending();
        hands.attach(
          lease,
          or((connection) => this.#up(connection, 'attach')),
        );
        return;
      case 'end_child':
        hands.endChild(lease, or(endedChild));
        return;
      case 'tear_down':
        hands.tearDown(
          lease,
          this.#disposition(),
          this.#progress.stage === 'fresh' || this.#progress.stage === 'child_ended',
          or(() => ({ done: 'tear_down' })),
        );
        return;
      case 'look':
        hands.look(
          lease,
          this.#disposition(),
          or((lookedFor) => {
            this.#lookedFor = lookedFor;
            return { done: 'look', verdict: verdictOf(lookedFor) };
          }),
        );
        return;
      case 'sign':
        done({ done: 'sign', verdict: this.#sign(action.kind) });
        return;
      case 'turn':
        done({ done: 'failed', action: 'turn', error_class: action.error_class, error: action.error });
        return;
      default:
        throw new Error(`${action.do} is no step of a job`);
    }
  }

  #up(connection: Connection, done: 'provision' | 'attach'): ActionResult {
    this.#connection = connection;
    return { done };
  }

  #bindClaim(): null | HandsFailure {
    const { host } = this.#ports;
    const lease = this.#lease;
    const bound = confirmClaims(host, askerOf(host, lease), lease.lease_id, lease.blocks, lease.idle_ttl_ms);
    return bound ? null : new HandsFailure('STACK_CONTEXT_BIND_FAILED', 'the claim was replaced');
  }

  #units(): number {
    return this.#ports.sim.watch.model.lease(this.#lease.lease_id)?.units ?? 1;
  }

  #disposition(): Disposition {
    return this.job.kind === 'reap_stack' ? this.#lease.reap_disposition : 'destroy';
  }

  #voidPending(): void {
    for (const [name, kept] of this.#ports.host.statements) {
      if (kept.lease_id === this.#lease.lease_id && kept.state === 'pending') this.#ports.host.statements.delete(name);
    }
  }

  #claim(done: (held: boolean) => void): void {
    const { sim, host, life, incarnation } = this.#ports;
    call(sim, life, 'claim_job', { job_id: this.job.job_id, host_id: host.id, incarnation }, (answer) => {
      if (answer.ok) {
        this.#token = answer.result.job.job_token;
        this.#lease = answer.result.lease;
      }
      done(answer.ok && this.#token !== null);
    });
  }

  #stopEarlier(done: (result: ActionResult) => void): void {
    const earlier = this.#ports.earlierThan(this);
    for (const other of earlier) other.lose();
    if (earlier.length === 0) {
      done({ done: 'stop_own_work' });
      return;
    }
    this.#ports.sim.timeline.after(50, this.#ports.life, 'waits for earlier work', () => this.#stopEarlier(done), true);
  }

  #sign(kind: StatementBody['kind']): KeptLook['verdict'] {
    const { host, sim } = this.#ports;
    const lease = this.#lease;
    const nonce = sim.random.uuid();
    const body: StatementBody = {
      schema_version: 1,
      kind,
      lease_id: lease.lease_id,
      slot: lease.slot,
      tenant: lease.tenant,
      host_id: host.id,
      fencing_token: lease.fencing_token ?? 0,
      plan_digest: lease.plan_digest,
      disposition: this.#disposition(),
      looked_for: this.#lookedFor,
      looked_at: new Date(host.machine.clock.wallMs()).toISOString(),
      helper_version: '0.0.0',
      nonce,
    };
    this.#statement = {
      name: nonce,
      state: 'pending',
      lease_id: lease.lease_id,
      fencing_token: body.fencing_token,
      disposition: body.disposition,
      kind,
      verdict: verdictOf(this.#lookedFor),
      proof: null,
      lease,
      signed: host.sign(JSON.stringify(body)),
    };
    host.statements.set(nonce, this.#statement);
    return this.#statement.verdict;
  }

  #report(action: JobAction): boolean {
    const common = { job_id: this.job.job_id, job_token: this.#token ?? 0, statement: this.#statement?.signed ?? null };
    switch (action.do) {
      case 'complete': {
        if (this.job.kind === 'reap_stack') this.#statement ??= this.#storedProof();
        const statement = this.#statement?.signed ?? null;
        const connection = this.job.kind === 'reap_stack' ? null : this.#connection;
        this.#send('complete_job', { ...common, statement, connection, reprovisioned: this.#progress.reprovisioned });
        return true;
      }
      case 'fail':
        this.#send('fail_job', {
          ...common,
          ...(this.#progress.failure ?? { error_class: 'cleanup_still_present', error: 'still there' }),
        });
        return true;
      case 'refuse':
        this.#send('fail_job', { ...common, error: action.error, error_class: action.error_class });
        return true;
      case 'defer':
        this.#send('defer_job', { ...common, reason: action.reason });
        return true;
      default:
        return false;
    }
  }

  /** Sent until the coordinator took it, or gave the job to somebody else. */
  #send(name: ReportName, args: object, retry = 1): void {
    const { sim, life } = this.#ports;
    this.#reporting = true;
    if (this.#lost) {
      this.#finish();
      return;
    }
    call(sim, life, name, args as never, (answer: CallAnswer<ReportName>) => {
      if (answer.ok) {
        this.#token = null;
        this.#ports.reported(this.#lease, answer.result.lease, this.#statement);
        return this.#finish();
      }
      const verdict = isBlip(answer) ? 'retry' : judgeCallFailure(answer.code ?? '');
      if (verdict === 'lost' || verdict === 'give_up') return this.#finish();
      if (verdict === 'register') this.#ports.askForRegistration();
      sim.timeline.after(retryDelayMs(retry), life, `${name} again`, () => this.#send(name, args, retry + 1));
    });
  }

  #renewLater(): void {
    const { sim, life } = this.#ports;
    sim.timeline.after(
      JOB_RENEW_MS,
      life,
      'job renewed',
      () => {
        if (this.#over) return;
        this.#renewLater();
        if (this.#token === null || this.#lost) return;
        call(sim, life, 'renew_job', { job_id: this.job.job_id, job_token: this.#token }, (answer) => {
          if (answer.ok || isBlip(answer) || this.#reporting) return;
          if (judgeCallFailure(answer.code ?? '') === 'lost') this.lose();
        });
      },
      true,
    );
  }

  #finish(): void {
    this.#over = true;
    this.#ports.finished(this);
  }
}

const endedChild = (): ActionResult => ({ done: 'end_child' });

/** What a step of the hands came to: its own result, or the failure under the action's name. */
function orFailure(action: JobAction, done: (result: ActionResult) => void) {
  return <T>(then: (value: T) => ActionResult) =>
    (value: T | HandsFailure): void =>
      done(
        value instanceof HandsFailure
          ? { done: 'failed', action: action.do as 'look', error_class: value.errorClass, error: value.message }
          : then(value),
      );
}

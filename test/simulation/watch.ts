/** Watches a coordinator from outside: a shadow that only folds events, the naive model, and what was promised to whom. */
import { apply } from '../../src/core/apply.ts';
import type { SequencedEvent } from '../../src/core/events.ts';
import type { ArchiveRow, Input, Refusal } from '../../src/core/inputs.ts';
import { violationsOf } from '../../src/core/invariants.ts';
import type { State } from '../../src/core/model.ts';
import { emptyState, toSnapshot } from '../../src/core/state.ts';
import type { MemoryLog } from '../../src/log/memory-log.ts';
import type { Observer } from './coordinator.ts';
import { checkSilence } from './invariants.ts';
import { mustRefuse, ReferenceModel } from './reference-model.ts';
import type { Sim } from './sim.ts';

const EVENTS_PER_READ = 10_000;

export class Watch implements Observer {
  readonly model: ReferenceModel;
  readonly shadow: State = emptyState();
  /** Units that a host had when it granted a lease. */
  readonly grantedCapacity = new Map<string, number>();
  /** When a lease was last active under a token. */
  readonly activeUnder = new Map<string, { token: number; until: number }>();
  /** Why leases were taken away, where a Helper told. */
  readonly reapErrors = new Map<string, string | null>();
  /** The invocation that each lease belongs to, or belonged to last. */
  readonly claimTokens = new Map<string, string>();
  /** On the timeline: when each lease came to be. */
  readonly bornAt = new Map<string, number>();
  readonly #sim: Sim;
  #answered = 0;

  constructor(sim: Sim) {
    this.#sim = sim;
    this.model = new ReferenceModel((promise, what) => sim.violate(promise, what));
  }

  async loaded(state: State, log: MemoryLog): Promise<void> {
    for (const event of await log.readSince(this.shadow.seq, EVENTS_PER_READ)) this.#follow(event);
    if (state.seq < this.#answered) {
      this.#sim.violate(
        'nothing acknowledged is lost',
        `event ${this.#answered} was promised, the log ends at ${state.seq}`,
      );
    }
    this.compare(state, 'a reload');
    this.#checkState(state, []);
  }

  committed(events: readonly SequencedEvent[], _ended: readonly ArchiveRow[], state: State): void {
    for (const event of events) this.#follow(event);
    this.#checkState(state, events);
  }

  asked(input: Input, state: State): (refusal: Refusal | null) => void {
    if ('statement' in input && input.statement !== null) this.model.told(input.statement);
    const expected = mustRefuse(input, state);
    return (refusal) => {
      if (expected === null || refusal?.code === 'internal') return;
      if (typeof expected === 'string' && refusal !== null && refusal.code !== expected) {
        this.#sim.violate('refusals', `${input.type} was refused as ${refusal.code} instead of ${expected}`);
      }
      if (expected !== false && refusal === null)
        this.#sim.violate('refusals', `${input.type} was taken and had to be refused`);
      if (!expected && refusal !== null) this.#sim.violate('refusals', `${input.type} was refused as ${refusal.code}`);
    };
  }

  answered(seq: number): void {
    this.#answered = Math.max(this.#answered, seq);
  }

  /** Replay gives what lived. */
  compare(state: State, when: string): void {
    const [live, folded] = [state, this.shadow].map((each) => JSON.stringify(toSnapshot(each)));
    if (live !== folded) this.#sim.violate('replay = live', `the fold of the log differs after ${when}`);
  }

  #follow(sequenced: SequencedEvent): void {
    const { event } = sequenced;
    const leaseId = 'lease_id' in event ? event.lease_id : null;
    const retried = this.shadow.leases.get(leaseId ?? '')?.state === 'reap_failed';
    apply(this.shadow, sequenced);
    this.model.observe(sequenced);
    this.#sim.tell(storyOf(sequenced));
    if (event.type === 'lease_requested') {
      this.bornAt.set(event.lease.lease_id, this.#sim.timeline.now);
      this.claimTokens.set(event.lease.lease_id, event.lease.claim_token);
    }
    if (event.type === 'lease_readopting') this.claimTokens.set(event.lease_id, event.terms.claim_token);
    if (leaseId === null) return;
    const lease = this.shadow.leases.get(leaseId);
    if (event.type === 'lease_granted') {
      this.grantedCapacity.set(leaseId, this.shadow.hosts.get(lease?.host_id ?? '')?.capacity_units ?? 0);
    }
    const known = this.activeUnder.get(leaseId);
    if (lease?.state === 'active') {
      this.activeUnder.set(leaseId, { token: lease.fencing_token ?? 0, until: Number.POSITIVE_INFINITY });
    } else if (known?.until === Number.POSITIVE_INFINITY) known.until = this.#sim.timeline.now;
    if (event.type === 'lease_reaped') this.#reaped(leaseId);
    if (event.type !== 'lease_reaping' || retried) return;
    this.reapErrors.set(leaseId, event.error_class);
    if (event.reap_reason === 'heartbeat_lost') checkSilence(this.#sim, leaseId);
  }

  /** No lease is reaped while anything of it is there. */
  #reaped(leaseId: string): void {
    for (const host of this.#sim.hosts) {
      const remains = host.remainsOf(leaseId);
      if (remains.length > 0)
        this.#sim.violate('no reaped without an end', `${leaseId} is reaped, with ${remains.join(', ')}`);
    }
  }

  #checkState(state: State, events: readonly SequencedEvent[]): void {
    const shrank = events.some(({ event }) => event.type === 'host_beaconed' || event.type === 'host_registered');
    for (const violation of violationsOf(state, shrank ? [] : events)) this.#sim.violate('core', violation);
  }
}

/** An event in one line. */
function storyOf({ seq, event }: SequencedEvent): string {
  switch (event.type) {
    case 'lease_requested':
      return `  ${seq} lease_requested ${event.lease.lease_id} ${event.lease.slot} ${JSON.stringify(event.lease.blocks)}`;
    case 'job_opened':
      return `  ${seq} job_opened ${event.job.job_id} ${event.job.kind}`;
    case 'wait_registered':
      return `  ${seq} wait_registered ${event.wait.wait_session_id} ${JSON.stringify(event.wait.conditions)}`;
    case 'host_registered':
      return `  ${seq} host_registered ${event.host.host_id}`;
    default:
      return `  ${seq} ${JSON.stringify(event)}`;
  }
}

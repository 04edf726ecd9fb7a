/** The actions of a run, each a call that ends in exactly one event. A throw becomes the event `failed`. */
import type { CoordinatorClient } from '../client/calls.ts';
import { type Heartbeat, startHeartbeat } from '../client/heartbeat.ts';
import { park } from '../client/park.ts';
import { systemClock } from '../platform/clock.ts';
import { Failure } from '../platform/failure.ts';
import { newId, randomToken } from '../platform/random.ts';
import { after } from '../platform/timers.ts';
import { abandonClaims, type ClaimHold } from '../stack/claim-registry.ts';
import { makePlan, stackEnvironment, type WrittenPlan, writeRequestedPlan } from '../stack/plan.ts';
import { bindHold, claimForRun, markHoldIdle, releaseHold } from './claim-phase.ts';
import { glimpseOf, ownGlimpseOf } from './lease-glimpse.ts';
import { leaseNow } from './lease-now.ts';
import { leaseRequestArgs, refusalOf } from './request-phase.ts';
import { RunChild } from './run-child.ts';
import type { StackContext } from './stack-context.ts';
import type { RunFacts } from './stack-run-facts.ts';
import type { ParkedPhase, RunAction, RunEvent, RunState } from './stack-run-model.ts';
import { backoffWithin, conditionOf, type RunRequest } from './stack-run-request.ts';

interface PhaseOptions {
  readonly context: StackContext;
  readonly client: CoordinatorClient;
  readonly request: RunRequest;
  readonly facts: RunFacts;
  readonly emit: (event: RunEvent) => void;
}

type StartingAction = Exclude<RunAction, { type: 'finish' | 'abandon_claim' | 'end_park' | 'stop_child' }>;

const CALL_TIMEOUT_MS = 30_000;

export class RunPhases {
  readonly #o: PhaseOptions;
  readonly #token = randomToken('bbi');
  readonly #budgetEndsAt: number;
  #reapEndsAt: number | null = null;
  #hold: ClaimHold | null = null;
  #abandoning: Promise<unknown> = Promise.resolve();
  readonly #refusedBlocks: { port_base: number; size: number }[] = [];
  /** Who held the slot when it was refused: only that invocation's lease may be ended for ours. */
  #predecessorToken: string | null = null;
  #written: WrittenPlan | null = null;
  #child: RunChild | null = null;
  #heartbeat: Heartbeat | null = null;
  #parkAbort: AbortController | null = null;
  #cancelHardTtl: (() => void) | null = null;

  constructor(options: PhaseOptions) {
    this.#o = options;
    this.#budgetEndsAt = systemClock.monotonicMs() + options.request.timeoutMs;
  }

  perform(action: Exclude<RunAction, { type: 'finish' }>, state: RunState): void {
    switch (action.type) {
      case 'abandon_claim':
        this.#abandon();
        break;
      case 'end_park':
        this.#parkAbort?.abort();
        break;
      case 'stop_child':
        this.#child?.stop(action.signal as NodeJS.Signals);
        break;
      default:
        this.#run(this.#start(action, state));
    }
  }

  #start(action: StartingAction, state: RunState): Promise<RunEvent> {
    switch (action.type) {
      case 'claim':
        return this.#claim();
      case 'request':
        return this.#requestLease();
      case 'bind':
        return this.#bind(state);
      case 'park':
        return this.#park(action.phase, action.lease_id);
      case 'read_lease':
        return this.#readLease(state);
      case 'start_child':
        return this.#startChild(state);
      case 'release':
        return this.#release(action, state);
      case 'mark_claims_idle':
        return this.#markIdle(state);
      case 'release_claims':
        return this.#releaseClaims(state);
    }
  }

  dispose(): void {
    this.#heartbeat?.stop();
    this.#cancelHardTtl?.();
    this.#parkAbort?.abort();
  }

  #run(work: Promise<RunEvent>): void {
    work.then(this.#o.emit, (error: unknown) => {
      const failure = error instanceof Failure ? error : new Failure('internal', String(error), { cause: error });
      this.#o.emit({ type: 'failed', code: failure.code, message: failure.message });
    });
  }

  async #claim(): Promise<RunEvent> {
    const { context, client, facts } = this.#o;
    await this.#abandoning;
    const avoid = this.#refusedBlocks;
    this.#hold = await claimForRun(context, client, { token: this.#token, avoid });
    facts.wantedBase = this.#hold.wanted;
    facts.gotBase = this.#hold.got;
    const plan = makePlan({
      config: context.config,
      slot: context.slot,
      slotDir: context.slotDir,
      worktreeRoot: context.place.worktree_root,
      stackDir: context.place.stack_dir,
      blocks: this.#hold.blocks,
    });
    this.#written = writeRequestedPlan(plan, stackEnvironment(context.environment, context.config.pass_env));
    facts.plan = plan;
    return { type: 'claimed' };
  }

  /** A claim is given back before the next one is made. */
  #abandon(): void {
    this.#abandoning = abandonClaims({ home: this.#o.context.home, token: this.#token, answer: 'refused' });
  }

  async #requestLease(): Promise<RunEvent> {
    const { context, client, facts, request } = this.#o;
    const hold = this.#hold as ClaimHold;
    const args = leaseRequestArgs(context, request, {
      token: this.#token,
      blocks: [...hold.blocks],
      planDigest: (this.#written as WrittenPlan).digest,
    });
    try {
      const answer = await client.call('request_stack_lease', args, { timeoutMs: request.timeoutMs });
      facts.see(answer.lease);
      facts.considered = answer.considered;
      facts.ledger = answer.ledger;
      return { type: 'admitted', lease: glimpseOf(answer.lease) };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const holder = error.fields['claim_token'];
      this.#predecessorToken = typeof holder === 'string' ? holder : null;
      const event = await refusalOf(context, client, error);
      if (event.type === 'refused' && event.refusal.code === 'PORT_BLOCK_TAKEN')
        this.#refusedBlocks.push(...hold.blocks);
      return event;
    }
  }

  async #bind(state: RunState): Promise<RunEvent> {
    const leaseId = state.lease?.lease_id ?? '';
    try {
      await bindHold(this.#o.context, this.#hold as ClaimHold, leaseId);
      return { type: 'bound' };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      return { type: 'bind_failed', code: error.code, message: error.message };
    }
  }

  async #park(phase: ParkedPhase, leaseId: string): Promise<RunEvent> {
    const { client, facts, request } = this.#o;
    const abort = new AbortController();
    this.#parkAbort = abort;
    request.onProgress({ phase, lease: facts.lease, facts });
    const end = await park(client, {
      waitId: newId(),
      conditions: [conditionOf(phase, leaseId)],
      mode: 'all',
      deadlineMs: this.#parkEndsAt(phase),
      leaseId,
      backoff: backoffWithin(this.#o.context.ttlMs),
      signal: abort.signal,
      agent: this.#o.context.place.worktree_root,
      onProgress: (lease) => {
        if (phase !== 'slot') facts.see(lease);
        request.onProgress({ phase, lease, facts });
      },
    });
    this.#parkAbort = null;
    // A wait that had ended when it was registered tells its outcome, and not the lease.
    const view = end.lease ?? (phase === 'proof' ? await leaseNow(client, leaseId) : null);
    if (phase !== 'slot' && view !== null) facts.see(view);
    facts.meet(end.incident);
    facts.warnings.push(...end.warnings);
    const message = end.error;
    const lease = view === null ? null : phase === 'slot' ? glimpseOf(view) : ownGlimpseOf(view, this.#token);
    return { type: 'park_ended', park: { outcome: end.outcome, code: end.code, message, lease } };
  }

  #parkEndsAt(phase: ParkedPhase): number {
    const { request } = this.#o;
    if (phase === 'proof') return this.#reapDeadline();
    if (phase !== 'provision') return this.#budgetEndsAt;
    return Math.min(this.#budgetEndsAt, systemClock.monotonicMs() + request.provisionTimeoutMs);
  }

  /** Fixed once: asking again never buys a reap more time. */
  #reapDeadline(): number {
    this.#reapEndsAt ??= systemClock.monotonicMs() + this.#o.request.reapTimeoutMs;
    return this.#reapEndsAt;
  }

  async #readLease(state: RunState): Promise<RunEvent> {
    const { client, context, facts } = this.#o;
    const lease = await leaseNow(client, state.lease?.lease_id ?? '', context.ttlMs / 3);
    if (lease === null) return { type: 'lease_read', lease: null };
    facts.see(lease);
    return { type: 'lease_read', lease: ownGlimpseOf(lease, this.#token) };
  }

  async #startChild(state: RunState): Promise<RunEvent> {
    const { client, context, facts, request } = this.#o;
    const leaseId = state.lease?.lease_id ?? '';
    const fencingToken = state.lease?.fencing_token ?? 0;
    const plan = (this.#written as WrittenPlan).plan;
    request.onProgress({ phase: 'child', lease: facts.lease, facts });
    const child = RunChild.start({
      context,
      argv: request.argv,
      cwd: request.cwd,
      plan,
      leaseId,
      connectionFile: request.connectionFile,
    });
    this.#child = child;
    facts.envNames = Object.keys(plan.env);
    this.#heartbeat = startHeartbeat(client, {
      leaseId,
      fencingToken,
      everyMs: context.ttlMs / 3,
      ttlMs: context.ttlMs,
      onLost: ({ code, message }) => this.#o.emit({ type: 'lease_lost', code, message }),
    });
    if (request.hardTtlMs !== null) {
      this.#cancelHardTtl = after(request.hardTtlMs, () => this.#o.emit({ type: 'hard_ttl' }));
    }
    const end = await child.endedAndNoted({ home: context.home, token: this.#token });
    this.#heartbeat.stop();
    facts.meet(this.#heartbeat.incident);
    this.#cancelHardTtl?.();
    facts.survivorsEnded = end.survivorsEnded;
    facts.survivorsLeft = end.survivorsLeft;
    return { type: 'child_exited', exit_code: end.exit_code, signal: end.signal };
  }

  async #release(action: Extract<RunAction, { type: 'release' }>, state: RunState): Promise<RunEvent> {
    const { client, context, facts } = this.#o;
    const { lease_id, how, disposition } = action;
    if (lease_id === state.lease?.lease_id) this.#reapDeadline();
    try {
      const answer = await client.call(
        'release_stack_lease',
        {
          lease_id,
          claim_token: lease_id === state.lease?.lease_id ? this.#token : this.#predecessorToken,
          how,
          disposition: how === 'idle' ? context.config.on_idle : disposition,
          idle_ttl_ms: context.idleTtlMs,
          reason: 'released by its owner',
          idempotency_key: `${this.#token}.${lease_id}`,
        },
        { timeoutMs: CALL_TIMEOUT_MS },
      );
      facts.see(answer.lease);
      return { type: 'released', lease: glimpseOf(answer.lease), changed: answer.changed };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      return { type: 'release_failed', code: error.code, message: error.message };
    }
  }

  async #markIdle(state: RunState): Promise<RunEvent> {
    await markHoldIdle(this.#o.context, state.lease?.lease_id ?? '');
    return { type: 'claims_released', released: false, reason: 'idle' };
  }

  async #releaseClaims(state: RunState): Promise<RunEvent> {
    const { context, client, facts } = this.#o;
    const lease = facts.lease;
    if (lease === null || lease.lease_id !== state.lease?.lease_id) {
      return { type: 'claims_released', released: false, reason: 'claim_replaced' };
    }
    facts.portBlock = await releaseHold({ ...context, worktreeRoot: context.place.worktree_root }, client, lease);
    return { type: 'claims_released', released: facts.portBlock.released, reason: facts.portBlock.reason as never };
  }

  /** What must be done before this process ends. */
  settled(): Promise<unknown> {
    return this.#abandoning;
  }
}

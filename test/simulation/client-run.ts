/** One `stack run` or `stack up`: the real rules of a run, heartbeats and claims decide; this loop only carries out. */
import {
  type HeartbeatEvent,
  type HeartbeatState,
  heartbeatStep,
  initialHeartbeat,
} from '../../src/client/heartbeat-rules.ts';
import type { ParkEnding } from '../../src/client/park-model.ts';
import { glimpseOf, ownGlimpseOf } from '../../src/flows/lease-glimpse.ts';
import { judgeEnd } from '../../src/flows/stack-run-ends.ts';
import type { ParkedPhase, RunAction, RunEvent, RunRefusal, RunState } from '../../src/flows/stack-run-model.ts';
import { runStep, startRun } from '../../src/flows/stack-run-rules.ts';
import { ownerOf } from '../../src/protocol/claim.ts';
import { outcomeOf } from '../../src/protocol/outcomes.ts';
import type { LeaseView, PortBlock } from '../../src/protocol/records.ts';
import {
  abandonClaims,
  bindClaims,
  claimBlocks,
  editClaims,
  type Hold,
  markIdle,
  proofIn,
  releaseClaims,
} from './claims.ts';
import { SimPark } from './client-park.ts';
import { LEASE_TTL_MS } from './coordinator.ts';
import { checkCalmEnd, checkCommand, checkRunEnd } from './invariants.ts';
import { type CallAnswer, call, callUntil } from './network.ts';
import type { RunPlace, RunWish } from './run-wish.ts';
import type { Sim } from './sim.ts';
import type { Happening, Life } from './timeline.ts';
import type { Command } from './world.ts';

type Action<T extends RunAction['type']> = Extract<RunAction, { type: T }>;
type WithoutMoment<E> = E extends unknown ? Omit<E, 'at'> : never;
const GRACE_MS = 5_000;
const RELEASE_TIMEOUT_MS = 30_000;
/** News of a lease that are older do not start a command. */
const NEWS_MS_MAX = LEASE_TTL_MS / 3;

export class RunClient {
  readonly life: Life;
  readonly place: RunPlace;
  readonly wish: RunWish;
  readonly #sim: Sim;
  readonly #token: string;
  readonly #budgetEndsAt: number;
  readonly #avoid: PortBlock[] = [];
  #state: RunState;
  #reapEndsAt: number | null = null;
  #hold: Hold | null = null;
  #digest = '';
  /** The invocation that a refusal named as the holder of the slot. */
  #predecessor: string | null = null;
  #seen: LeaseView | null = null;
  #park: SimPark | null = null;
  #command: Command | null = null;
  #killing: Happening | null = null;
  #heart: HeartbeatState | null = null;
  #beat: Happening | null = null;
  /** How it ended; null while it runs, or when it was killed. */
  exitCode: number | null = null;

  constructor(sim: Sim, life: Life, place: RunPlace, wish: RunWish) {
    this.#sim = sim;
    this.life = life;
    this.place = place;
    this.wish = wish;
    this.#token = `bbi_${sim.random.uuid()}`;
    this.#budgetEndsAt = life.machine.clock.monotonicMs() + wish.timeoutMs;
    const { state, actions } = startRun(wish.options);
    this.#state = state;
    this.#carryOut(actions);
  }

  get standing(): string {
    return `${this.#state.phase}, lease ${this.#state.lease?.lease_id} ${this.#state.lease?.state}, park ${this.#park?.phase}`;
  }

  get knownLease(): string | null {
    return this.#state.lease?.lease_id ?? null;
  }

  get heldLease(): string | null {
    const { phase, lease, childRunning } = this.#state;
    const holds =
      phase === 'queue' || phase === 'provision' || (phase === 'child' && childRunning && this.#heart !== null);
    return holds ? (lease?.lease_id ?? null) : null;
  }

  signal(signal: string): void {
    this.#happens({ type: 'signal', signal });
  }

  #happens(event: RunEvent): void {
    if (!this.life.alive) return;
    const { state, actions } = runStep(this.#state, event);
    this.#state = state;
    this.#carryOut(actions);
  }

  /** One action after the other, each with its own one event. */
  #carryOut(actions: readonly RunAction[]): void {
    for (const action of actions) {
      switch (action.type) {
        case 'abandon_claim':
          abandonClaims(this.place.host, this.#token);
          break;
        case 'end_park':
          this.#park?.interrupt();
          break;
        case 'stop_child':
          this.#stopCommand();
          break;
        case 'finish':
          this.#finish();
          break;
        case 'start_child':
          this.#startCommand();
          break;
        default:
          this.#sim.timeline.after(1, this.life, `run: ${action.type}`, () => this.#begin(action), true);
      }
    }
  }

  #begin(
    action: Exclude<RunAction, Action<'abandon_claim' | 'end_park' | 'start_child' | 'stop_child' | 'finish'>>,
  ): void {
    switch (action.type) {
      case 'claim':
        this.#claim();
        return;
      case 'request':
        this.#request();
        return;
      case 'bind':
        this.#bind();
        return;
      case 'park':
        this.#parkFor(action.phase, action.lease_id);
        return;
      case 'read_lease':
        this.#readLease();
        return;
      case 'release':
        this.#release(action);
        return;
      case 'mark_claims_idle':
        this.#markIdle();
        return;
      case 'release_claims':
        this.#releaseClaims();
        return;
    }
  }

  #claim(): void {
    const { host, slot, worktree } = this.place;
    const asker = {
      invocation_token: this.#token,
      slot,
      project_id: `bb-${slot}`,
      host: host.key,
      stack_dir: worktree,
    };
    const question = { host, owner: this.life, asker, blocksNeeded: this.wish.blocksNeeded, avoid: this.#avoid };
    claimBlocks(this.#sim, question, (hold) => {
      if (hold === null) return this.#happens({ type: 'failed', code: 'port_range_full', message: 'no block is free' });
      if (hold === 'marker')
        return this.#happens({ type: 'failed', code: 'STACK_CONTEXT_ALREADY_BOUND', message: 'the marker is bound' });
      this.#hold = hold;
      this.#digest = `plan-${slot}-${this.wish.configVersion}-${hold.blocks.map(({ port_base }) => port_base).join('.')}`;
      const plans = host.plans.get(slot) ?? new Set();
      host.plans.set(slot, plans.add(this.#digest));
      this.#happens({ type: 'claimed' });
    });
  }

  #request(): void {
    const { host, slot, worktree } = this.place;
    const { wish } = this;
    const blocks = this.#hold?.blocks ?? [];
    const args = {
      lease_id: this.#sim.random.uuid(),
      agent: worktree,
      slot,
      project: `bb-${slot}`,
      host_key: host.key,
      machine_id: null,
      worktree_root: worktree,
      stack_path: '.',
      mode: wish.options.command === 'up' ? ('detached' as const) : ('attached' as const),
      units: wish.units,
      priority: wish.priority,
      blocks: blocks.map(({ port_base, size }) => ({ port_base, size })),
      claim_token: this.#token,
      plan_digest: this.#digest,
      ttl_ms: LEASE_TTL_MS,
      idle_ttl_ms: wish.idleTtlMs,
      hard_ttl_ms: wish.hardTtlMs,
      queue_timeout_ms: wish.timeoutMs,
      labels: {},
      idempotency_key: `${this.#token}.${blocks.map(({ port_base }) => port_base).join('.')}`,
    };
    callUntil(this.#sim, this.life, 'request_stack_lease', args, wish.timeoutMs, (answer) => {
      if (answer.ok) {
        this.#see(answer.result.lease);
        return this.#happens({ type: 'admitted', lease: glimpseOf(answer.result.lease) });
      }
      this.#refused(answer);
    });
  }

  #refused({ code, message, fields }: Extract<CallAnswer<'request_stack_lease'>, { ok: false }>): void {
    if (code === null || outcomeOf(code).retryable || outcomeOf(code).status >= 500) {
      this.#happens({ type: 'admission_unknown', code: code ?? 'platform_unreachable', message });
      return;
    }
    if (code === 'PORT_BLOCK_TAKEN') this.#avoid.push(...(this.#hold?.blocks ?? []));
    const text = (name: string) => (typeof fields[name] === 'string' ? String(fields[name]) : null);
    const leaseId = text('lease_id');
    this.#predecessor = text('claim_token');
    const own = fields['own'] === true;
    const refusal: RunRefusal = {
      code,
      message,
      lease_id: leaseId,
      state: text('state'),
      own,
      reap_reason: text('reap_reason'),
      owner_dead: false,
    };
    const claims = leaseId === null ? [] : this.place.host.claimsWhere((claim) => claim.lease_id === leaseId);
    const ownerMayBeDead =
      own && claims.length > 0 && claims.every((claim) => !this.place.host.isAlive(ownerOf(claim)));
    if (!ownerMayBeDead || leaseId === null) {
      this.#happens({ type: 'refused', refusal });
      return;
    }
    call(this.#sim, this.life, 'get_stack_lease', { lease_id: leaseId }, (answer) => {
      // A claim tells of the owner only while it names the invocation that the lease belongs to now.
      const attached = answer.ok && answer.result.lease.mode === 'attached' ? answer.result.lease : null;
      const owner_dead = attached !== null && claims.every((claim) => claim.invocation_token === attached.claim_token);
      this.#happens({ type: 'refused', refusal: { ...refusal, owner_dead } });
    });
  }

  #bind(): void {
    const leaseId = this.#state.lease?.lease_id ?? '';
    const refused = bindClaims(this.place.host, this.#hold as Hold, leaseId, this.wish.idleTtlMs);
    if (refused === null) {
      this.#happens({ type: 'bound' });
      return;
    }
    this.#happens({ type: 'bind_failed', code: 'STACK_CONTEXT_BIND_FAILED', message: refused });
  }

  #parkFor(phase: ParkedPhase, leaseId: string): void {
    const state = { queue: '', provision: ',state=active', slot: ',state=reaped', proof: ',state=reaped' }[phase];
    this.#park = new SimPark(this.#sim, this.life, {
      waitId: this.#sim.random.uuid(),
      conditions: [`lease:id=${leaseId}${state}`],
      mode: 'all',
      deadlineMs: this.#parkEndsAt(phase),
      leaseId,
      // Whoever comes back later than its TTL comes too late.
      backoff: { firstMs: 2_000, maxMs: LEASE_TTL_MS / 2 },
      agent: this.place.worktree,
      onProgress: (lease) => {
        if (phase !== 'slot') this.#see(lease);
      },
      onEnd: (end) => this.#parkEnded(phase, end),
    });
  }

  #parkEnded(phase: ParkedPhase, end: ParkEnding): void {
    this.#park = null;
    if (phase !== 'slot' && end.lease !== null) this.#see(end.lease);
    const { outcome, code, error: message } = end;
    const tell = (view: LeaseView | null) => {
      const lease = view === null ? null : phase === 'slot' ? glimpseOf(view) : ownGlimpseOf(view, this.#token);
      this.#happens({ type: 'park_ended', park: { outcome, code, message, lease } });
    };
    // A wait that ended before its stream was open tells its outcome, and no view of the lease.
    if (phase !== 'proof' || outcome !== 'matched' || end.lease?.state === 'reaped') {
      tell(end.lease);
      return;
    }
    const lease_id = this.#state.lease?.lease_id ?? '';
    callUntil(this.#sim, this.life, 'get_stack_lease', { lease_id }, RELEASE_TIMEOUT_MS, (answer) => {
      if (answer.ok) this.#see(answer.result.lease);
      tell(answer.ok ? answer.result.lease : end.lease);
    });
  }

  #parkEndsAt(phase: ParkedPhase): number {
    if (phase === 'proof') return this.#reapDeadline();
    if (phase !== 'provision') return this.#budgetEndsAt;
    return Math.min(this.#budgetEndsAt, this.life.machine.clock.monotonicMs() + this.wish.provisionTimeoutMs);
  }

  #reapDeadline(): number {
    this.#reapEndsAt ??= this.life.machine.clock.monotonicMs() + this.wish.reapTimeoutMs;
    return this.#reapEndsAt;
  }

  /** An answer that lay about while this process or machine stood still is no news: it is asked for again. */
  #readLease(): void {
    const leaseId = this.#state.lease?.lease_id ?? '';
    const askedAt = this.life.machine.clock.uptimeMs();
    callUntil(this.#sim, this.life, 'get_stack_lease', { lease_id: leaseId }, RELEASE_TIMEOUT_MS, (answer) => {
      if (this.life.machine.clock.uptimeMs() - askedAt > NEWS_MS_MAX) return this.#readLease();
      if (!answer.ok) return this.#happens({ type: 'lease_read', lease: null });
      this.#see(answer.result.lease);
      this.#happens({ type: 'lease_read', lease: ownGlimpseOf(answer.result.lease, this.#token) });
    });
  }

  #startCommand(): void {
    const { host, slot } = this.place;
    const { timeline } = this.#sim;
    const leaseId = this.#state.lease?.lease_id ?? '';
    const token = this.#state.lease?.fencing_token ?? 0;
    const life = host.spawn(timeline, `command ${slot}`);
    const { ms, exitCode, ignoresTerm } = this.wish.command;
    const command: Command = { life, slot, leaseId, token, blocks: this.#hold?.blocks ?? [], ignoresTerm };
    this.#command = command;
    host.commands.add(command);
    checkCommand(this.#sim, host, command);
    let code: number | null = null;
    timeline.after(ms, life, `command ${slot} exits`, () => {
      code = exitCode;
      life.end();
    });
    life.onEnd(() => {
      host.commands.delete(command);
      timeline.after(2, this.life, 'command ended', () => this.#commandEnded(code));
    });
    this.#heart = initialHeartbeat({ everyMs: LEASE_TTL_MS / 3, ttlMs: LEASE_TTL_MS });
    this.#beats({ type: 'started' });
    if (this.wish.hardTtlMs !== null)
      timeline.after(this.wish.hardTtlMs, this.life, 'hard TTL', () => this.#happens({ type: 'hard_ttl' }));
    editClaims(host, (claim) => (claim.invocation_token === this.#token ? { child: life.identity } : null));
  }

  #commandEnded(code: number | null): void {
    this.#heart = null;
    if (this.#beat !== null) this.#beat.cancelled = true;
    this.#happens({ type: 'child_exited', exit_code: code, signal: code === null ? 'SIGTERM' : null });
  }

  #stopCommand(): void {
    const command = this.#command;
    if (command === null || !command.life.alive) return;
    const { timeline, random } = this.#sim;
    if (!command.ignoresTerm)
      timeline.after(random.between(5, 400), command.life, 'command obeys', () => command.life.end());
    if (this.#killing !== null) this.#killing.cancelled = true;
    const graceMs = this.#killing === null ? GRACE_MS : 1;
    this.#killing = timeline.after(graceMs, this.life, 'command killed', () => command.life.end());
  }

  #beats(happened: WithoutMoment<HeartbeatEvent>): void {
    if (this.#heart === null) return;
    const { clock } = this.life.machine;
    const at = {
      nowMs: clock.monotonicMs(),
      uptimeMs: clock.uptimeMs(),
      wallMs: clock.wallMs(),
      jitter: this.#sim.random.below(100) / 100,
    };
    const { state, actions } = heartbeatStep(this.#heart, { ...happened, at } as HeartbeatEvent);
    this.#heart = state;
    for (const action of actions) {
      if (action.type === 'touch') this.#touch();
      if (action.type === 'lost') {
        this.#heart = null;
        this.#happens({ type: 'lease_lost', code: action.loss.code, message: action.loss.message });
      }
      if (action.type === 'set_timer') {
        if (this.#beat !== null) this.#beat.cancelled = true;
        this.#beat = this.#sim.timeline.after(
          action.ms,
          this.life,
          'heartbeat',
          () => this.#beats({ type: 'timer' }),
          true,
        );
      }
    }
  }

  #touch(): void {
    const args = {
      lease_id: this.#state.lease?.lease_id ?? '',
      fencing_token: this.#state.lease?.fencing_token ?? null,
    };
    call(this.#sim, this.life, 'touch_stack_lease', args, (answer) => {
      if (answer.ok) return this.#beats({ type: 'answered' });
      const { status, code, message } = answer;
      this.#beats({ type: 'failed', trouble: { status, code, message } });
    });
  }

  #release({ lease_id, how, disposition }: Action<'release'>): void {
    const own = lease_id === this.#state.lease?.lease_id;
    // The end of a predecessor does not begin the time that the own cleanup has.
    const left = own ? this.#reapDeadline() - this.life.machine.clock.monotonicMs() : RELEASE_TIMEOUT_MS;
    const args = {
      lease_id,
      claim_token: own ? this.#token : this.#predecessor,
      how,
      disposition: how === 'idle' ? ('destroy' as const) : disposition,
      idle_ttl_ms: this.wish.idleTtlMs,
      reason: 'released by its owner',
      idempotency_key: `${this.#token}.${lease_id}`,
    };
    callUntil(
      this.#sim,
      this.life,
      'release_stack_lease',
      args,
      Math.min(RELEASE_TIMEOUT_MS, Math.max(1, left)),
      (answer) => {
        if (answer.ok) {
          this.#see(answer.result.lease);
          return this.#happens({
            type: 'released',
            lease: glimpseOf(answer.result.lease),
            changed: answer.result.changed,
          });
        }
        this.#happens({ type: 'release_failed', code: answer.code ?? 'platform_unreachable', message: answer.message });
      },
    );
  }

  #markIdle(): void {
    markIdle(this.place.host, this.#state.lease?.lease_id ?? '', this.wish.idleTtlMs);
    this.#happens({ type: 'claims_released', released: false, reason: 'idle' });
  }

  #releaseClaims(): void {
    const lease = this.#seen;
    const kept = (reason: 'claim_replaced') => this.#happens({ type: 'claims_released', released: false, reason });
    if (lease === null || lease.lease_id !== this.#state.lease?.lease_id) {
      kept('claim_replaced');
      return;
    }
    callUntil(this.#sim, this.life, 'list_stack_leases', { slot: lease.slot }, RELEASE_TIMEOUT_MS, (answer) => {
      if (!answer.ok)
        return this.#happens({ type: 'failed', code: answer.code ?? 'platform_unreachable', message: answer.message });
      const reason = releaseClaims(this.#sim, this.place.host, {
        lease,
        proof: proofIn(lease),
        otherLeaseOnSlot: answer.result.leases.some((other) => other.lease_id !== lease.lease_id),
        caller: { kind: 'client', life: this.life, worktreeRoot: this.place.worktree },
      });
      this.#happens({ type: 'claims_released', released: reason === null, reason });
    });
  }

  /** The latest view wins; a view of another lease never replaces ours. */
  #see(lease: LeaseView): void {
    if (this.#seen === null || this.#seen.lease_id === lease.lease_id) this.#seen = lease;
  }

  #finish(): void {
    const { end, cleanup, lease } = this.#state;
    const { command } = this.wish.options;
    this.exitCode = end === null ? 7 : judgeEnd(end, cleanup, command).exitCode;
    this.#sim.tell(
      `${this.life.name} ends with ${this.exitCode}: ${JSON.stringify(end)}, cleanup ${JSON.stringify(cleanup)}`,
    );
    const proven = cleanup.kind === 'proven';
    const leaseId = lease?.lease_id ?? null;
    if (command === 'run') checkCalmEnd(this.#sim, { name: this.life.name, leaseId, exitCode: this.exitCode });
    checkRunEnd(this.#sim, this.place.host, { leaseId, proven, command: this.#command });
    this.life.end();
  }
}

/**
 * The driver of stacks that are plain processes. It writes intent down, starts and asks the supervisor, and sees for
 * itself whether anything is left; all of it works when the supervisor was killed, from the records and the mark.
 * Fencing: the record of a creation bears the last grant that acted, and an older one changes nothing.
 * Read next: `supervisor.ts`, `_teardown.ts`, `_looking.ts`.
 */
import { dirname } from 'node:path';
import { systemClock } from '../platform/clock.ts';
import { ensurePrivateDir, removeDurable } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { every } from '../platform/timers.ts';
import type { StackPlan } from '../protocol/stack-plan.ts';
import { type Before, beforeSchema, type Creation } from '../protocol/stack-records.ts';
import type { SupervisorRequest } from '../protocol/supervisor-messages.ts';
import { readCreation, requireGrant } from './_grant.ts';
import { flawOf } from './_inspection.ts';
import { type LookQuestion, lookAgain, lookForAll, supervisorLives } from './_looking.ts';
import { readRecord, writeRecord } from './_records.ts';
import { askSupervisor, ensureSupervisor, type SuperviseArgv, superviseSelf } from './_supervisor-client.ts';
import { endChildren, endStack, removeRemains } from './_teardown.ts';
import { claimsOfLease } from './claim-registry.ts';
import { connectionOf } from './connection.ts';
import type { Disposition, DriverContext, Inspection, LookedFor, Renewal, StackDriver, UpResult } from './driver.ts';
import { installPlan } from './plan.ts';
import { slotPaths } from './slot.ts';

const ANSWER_MS_MAX = 5_000;
const AFTER_TTL_MS = 30_000;
const LIMIT_MS_MIN = 90_000;

export interface ProcessDriverOptions {
  readonly superviseArgv?: SuperviseArgv;
  /** How long a supervisor that nobody renews goes on, from the lease's TTL. */
  readonly limitOf?: (ttlMs: number) => number;
}

export const limitOfTtl = (ttlMs: number): number => Math.max(LIMIT_MS_MIN, ttlMs + AFTER_TTL_MS);

export function createProcessDriver(options: ProcessDriverOptions = {}): StackDriver {
  const { superviseArgv = superviseSelf, limitOf = limitOfTtl } = options;
  const requestOf = (ctx: DriverContext): Omit<SupervisorRequest, 'id' | 'op'> => ({
    lease_id: ctx.leaseId,
    fencing_token: ctx.fencingToken,
    limit_ms: limitOf(ctx.ttlMs),
  });
  return {
    prepare: (ctx) => prepare(ctx, requestOf(ctx)),
    up: (ctx) => up(ctx, requestOf(ctx), superviseArgv),
    inspect: (ctx) => inspect(ctx, requestOf(ctx)),
    renew: (ctx) => renew(ctx, requestOf(ctx)),
    down: (ctx, disposition) => down(ctx, disposition, requestOf(ctx)),
    absence: async (ctx, disposition) => absence(ctx, disposition),
  };
}

export const processDriver: StackDriver = createProcessDriver();

type Request = Omit<SupervisorRequest, 'id' | 'op'>;

async function prepare(ctx: DriverContext, request: Request): Promise<void> {
  const plan = planOf(ctx);
  const paths = slotPaths(ctx.slotDir);
  ensurePrivateDir(dirname(ctx.slotDir));
  ensurePrivateDir(ctx.slotDir);
  const existing = requireGrant(ctx) ?? readCreation(ctx.slotDir);
  const sameStack = existing?.lease_id === ctx.leaseId && existing.plan_digest === ctx.planDigest;
  if (supervisorLives(paths)) {
    if (sameStack) return;
    await clearLeftover(ctx, existing, request);
  }
  installPlan(ctx.slotDir, ctx.planDigest);
  removeDurable(paths.before);
  removeDurable(paths.connection);
  const creation: Creation = {
    schema_version: 1,
    lease_id: ctx.leaseId,
    fencing_token: ctx.fencingToken,
    slot: plan.slot,
    project: plan.project,
    plan_digest: ctx.planDigest,
    ports: [...Object.values(plan.ports), ...plan.guard_ports],
    limit_ms: request.limit_ms,
    created_at: systemClock.wallMs(),
  };
  writeRecord(paths.creation, creation);
}

/** A stack of an earlier lease of the slot, which its own reap should have ended; its data is left alone. */
async function clearLeftover(ctx: DriverContext, existing: Creation | null, request: Request): Promise<void> {
  const leaseId = existing?.lease_id ?? ctx.leaseId;
  const survivors = await endStack({ ...ctx, leaseId, request: { ...request, lease_id: leaseId } });
  if (survivors.length === 0 && !supervisorLives(slotPaths(ctx.slotDir))) return;
  throw new Failure('stack_leftover', `the stack of lease ${leaseId} in this slot would not end`, {
    fields: { lease_id: leaseId, pids: survivors.map(({ pid }) => pid) },
  });
}

async function up(ctx: DriverContext, request: Request, superviseArgv: SuperviseArgv): Promise<UpResult> {
  const plan = planOf(ctx);
  const creation = requireGrant(ctx);
  if (creation?.plan_digest !== ctx.planDigest) {
    throw new Failure('plan_mismatch', `nothing was prepared for plan ${ctx.planDigest}`, {
      fields: { slot_dir: ctx.slotDir },
    });
  }
  await ensureSupervisor(ctx, superviseArgv);
  const stopRenewing = every(request.limit_ms / 3, () => {
    void askSupervisor(ctx, { ...request, op: 'renew' }, ANSWER_MS_MAX);
  });
  try {
    const answer = await askSupervisor(ctx, { ...request, op: 'up' }, null);
    if (typeof answer === 'string') {
      return {
        outcome: 'failed',
        code: 'stack_lost',
        message: 'the supervisor ended while the stack was starting',
        fields: {},
      };
    }
    if (answer.outcome === 'failed') {
      return { outcome: 'failed', code: answer.code, message: answer.message, fields: answer.fields };
    }
    return { outcome: 'ready', connection: connectionOf(plan, ctx.leaseId) };
  } finally {
    stopRenewing();
  }
}

async function inspect(ctx: DriverContext, request: Request): Promise<Inspection> {
  const plan = planOf(ctx);
  const creation = requireGrant(ctx);
  if (creation === null) return { whole: false, reason: 'never_created', detail: 'this lease has no stack here' };
  if (creation.plan_digest !== ctx.planDigest) {
    return { whole: false, reason: 'plan_changed', detail: 'the stack was started from another plan' };
  }
  const answer = await askSupervisor(ctx, { ...request, op: 'inspect' }, ANSWER_MS_MAX);
  if (typeof answer === 'string') {
    return { whole: false, reason: 'supervisor_gone', detail: `the supervisor is ${answer}` };
  }
  if (answer.outcome === 'failed') throw new Failure(answer.code, answer.message, { fields: answer.fields });
  const flaw = flawOf(plan, creation, answer.inspection);
  return flaw === null ? { whole: true, connection: connectionOf(plan, ctx.leaseId) } : { whole: false, ...flaw };
}

async function renew(ctx: DriverContext, request: Request): Promise<Renewal> {
  if (requireGrant(ctx) === null) return { renewed: false };
  const answer = await askSupervisor(ctx, { ...request, op: 'renew' }, ANSWER_MS_MAX);
  if (typeof answer === 'string') return { renewed: false };
  if (answer.outcome === 'failed') throw new Failure(answer.code, answer.message, { fields: answer.fields });
  return { renewed: true, service_ended: answer.inspection.service_ended };
}

async function down(ctx: DriverContext, disposition: Disposition, request: Request): Promise<void> {
  const creation = requireGrant(ctx);
  noteBefore(ctx, creation, disposition);
  await endChildren(ctx.home, ctx.leaseId);
  const survivors = await endStack({ ...ctx, request: creation === null ? null : request });
  if (survivors.length > 0 || requireGrant(ctx) === null) return;
  removeRemains(ctx.slotDir, disposition);
}

async function absence(ctx: DriverContext, disposition?: Disposition): Promise<LookedFor[]> {
  const before = beforeOf(ctx);
  const question = lookQuestion(ctx, creationOf(ctx), disposition ?? before?.disposition ?? 'destroy');
  const looks = lookForAll(question);
  const keys = new Set(looks.map(({ kind, id }) => `${kind} ${id}`));
  const earlier = (before?.looked_for ?? []).filter(({ kind, id }) => !keys.has(`${kind} ${id}`));
  const seenBefore = new Map((before?.looked_for ?? []).map((look) => [`${look.kind} ${look.id}`, look.seen]));
  return [...looks, ...earlier.flatMap(lookAgain)].map(({ kind, id, seen }) => {
    return { kind, id, before: seenBefore.get(`${kind} ${id}`) ?? seen, after: seen };
  });
}

/** The first look of a grant counts: what a second try finds gone was there before the first. */
function noteBefore(ctx: DriverContext, creation: Creation | null, disposition: Disposition): void {
  if (creation === null) return;
  const known = beforeOf(ctx)?.looked_for ?? [];
  const keys = new Set(known.map(({ kind, id }) => `${kind} ${id}`));
  const fresh = lookForAll(lookQuestion(ctx, creation, disposition)).filter(
    ({ kind, id }) => !keys.has(`${kind} ${id}`),
  );
  const before: Before = {
    schema_version: 1,
    lease_id: ctx.leaseId,
    fencing_token: ctx.fencingToken,
    disposition,
    looked_for: [...known, ...fresh],
  };
  writeRecord(slotPaths(ctx.slotDir).before, before);
}

function beforeOf(ctx: DriverContext): Before | null {
  const before = readRecord(slotPaths(ctx.slotDir).before, beforeSchema);
  if (before === null || before === 'unreadable') return null;
  return before.lease_id === ctx.leaseId && before.fencing_token === ctx.fencingToken ? before : null;
}

function creationOf(ctx: DriverContext): Creation | null {
  const creation = readCreation(ctx.slotDir);
  return creation?.lease_id === ctx.leaseId ? creation : null;
}

function lookQuestion(ctx: DriverContext, creation: Creation | null, disposition: Disposition): LookQuestion {
  const blocks = ctx.plan?.blocks ?? claimsOfLease(ctx.home, ctx.leaseId);
  const ports = blocks.flatMap(({ port_base, size }) => Array.from({ length: size }, (_, index) => port_base + index));
  return { home: ctx.home, slotDir: ctx.slotDir, leaseId: ctx.leaseId, creation, ports, disposition };
}

function planOf({ plan, planDigest }: DriverContext): StackPlan {
  if (plan !== null) return plan;
  throw new Failure('plan_mismatch', `the plan ${planDigest} is not on this host`, {
    fields: { plan_digest: planDigest },
  });
}

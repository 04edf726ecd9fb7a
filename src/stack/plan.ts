/**
 * From config, slot and blocks to the plan: the exact bytes that a Helper may run, known by their digest. A client
 * leaves them under `requested/`, since several invocations may ask for one slot at once; what a stack was started
 * from stands in `plan.json` and `env.json`. Values of the environment are in no digest and leave the host never.
 */
import { join } from 'node:path';
import { systemClock } from '../platform/clock.ts';
import {
  ensurePrivateDir,
  listDir,
  readTextIfPresent,
  removeDurable,
  writeFileDurable,
} from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { sha256Hex } from '../platform/random.ts';
import type { PortBlock } from '../protocol/claim.ts';
import { LOOPBACK_HOST } from '../protocol/connection.ts';
import type { ReadyConfig, ServiceConfig, StackConfig } from '../protocol/stack-config.ts';
import { type PlannedReady, type PlannedService, type StackPlan, stackPlanSchema } from '../protocol/stack-plan.ts';
import { jsonOf } from './claim-files.ts';
import { type SlotIdentity, slotPaths } from './slot.ts';

export interface PlanQuestion {
  readonly config: StackConfig;
  readonly slot: SlotIdentity;
  readonly slotDir: string;
  readonly worktreeRoot: string;
  readonly stackDir: string;
  readonly blocks: readonly PortBlock[];
}

export interface WrittenPlan {
  readonly plan: StackPlan;
  readonly digest: string;
  readonly text: string;
}

export type StackEnvironment = Readonly<Record<string, string>>;

const ALWAYS_PASSED = /^(PATH|HOME|USER|SHELL|LANG|LC_[A-Z_]+|TZ|TMPDIR)$/;
const REQUESTS_KEPT = 16;

export function planDigest(text: string): string {
  return sha256Hex(text);
}

export function makePlan({ config, slot, slotDir, worktreeRoot, stackDir, blocks }: PlanQuestion): StackPlan {
  const usable = blocks.flatMap(({ port_base, size }) =>
    Array.from({ length: size - 1 }, (_, index) => port_base + index),
  );
  const ports: Record<string, number> = {};
  for (const [index, name] of config.ports.entries()) {
    const port = usable[index];
    if (port === undefined)
      throw new Failure('internal', `${config.ports.length} ports do not fit into the claimed blocks`);
    ports[name] = port;
  }
  return {
    schema_version: 1,
    driver: 'process',
    slot: slot.slot,
    project: slot.project,
    host: LOOPBACK_HOST,
    worktree_root: worktreeRoot,
    stack_dir: stackDir,
    slot_dir: slotDir,
    data_dir: slotPaths(slotDir).data,
    blocks: blocks.map(({ port_base, size }) => ({ port_base, size })),
    ports,
    guard_ports: blocks.map(({ port_base, size }) => port_base + size - 1),
    services: config.services.map((service) => plannedService(service, ports)),
    setup: config.setup,
    env: config.env,
  };
}

function plannedService(service: ServiceConfig, ports: Readonly<Record<string, number>>): PlannedService {
  const { name, prepare, command, stop, cwd, ready } = service;
  return { name, prepare, command, ready: ready === null ? null : plannedReady(ready, ports), stop, cwd };
}

function plannedReady(ready: ReadyConfig, ports: Readonly<Record<string, number>>): PlannedReady {
  switch (ready.kind) {
    case 'tcp': {
      const port = ports[ready.port];
      if (port === undefined) throw new Failure('internal', `no port ${ready.port} in the plan`);
      return { kind: 'tcp', port, timeout_ms: ready.timeout_ms };
    }
    case 'http': {
      const url = ports[ready.url] === undefined ? ready.url : `http://{host}:{port.${ready.url}}/`;
      return { kind: 'http', url, timeout_ms: ready.timeout_ms };
    }
    case 'exec':
      return ready;
  }
}

/** What of the caller's environment a stack is started with. */
export function stackEnvironment(around: StackEnvironment, passed: readonly string[]): StackEnvironment {
  return Object.fromEntries(
    Object.entries(around).filter(([name]) => ALWAYS_PASSED.test(name) || passed.includes(name)),
  );
}

/** Leaves the plan where a Helper finds it by its digest. */
export function writeRequestedPlan(plan: StackPlan, environment: StackEnvironment): WrittenPlan {
  const { requestedPlans } = slotPaths(plan.slot_dir);
  const text = `${JSON.stringify(plan)}\n`;
  const digest = planDigest(text);
  ensurePrivateDir(requestedPlans);
  const name = requestedName(requestedPlans, digest) ?? `${String(systemClock.wallMs()).padStart(15, '0')}-${digest}`;
  writeFileDurable(join(requestedPlans, `${name}.env.json`), `${JSON.stringify(environment)}\n`);
  writeFileDurable(join(requestedPlans, `${name}.plan.json`), text);
  prune(requestedPlans);
  return { plan, digest, text };
}

/** The plan with this digest and its environment; anything else is refused: nothing unasked is ever started. */
export function loadPlan(slotDir: string, digest: string): WrittenPlan & { readonly environment: StackEnvironment } {
  const paths = slotPaths(slotDir);
  const name = requestedName(paths.requestedPlans, digest);
  const requested = name === null ? null : join(paths.requestedPlans, name);
  const places = [
    ...(requested === null ? [] : [{ plan: `${requested}.plan.json`, env: `${requested}.env.json` }]),
    { plan: paths.plan, env: paths.env },
  ];
  for (const place of places) {
    const text = readTextIfPresent(place.plan);
    if (text === null || planDigest(text) !== digest) continue;
    const parsed = stackPlanSchema.safeParse(jsonOf(text));
    if (!parsed.success || parsed.data.slot_dir !== slotDir) continue;
    return { plan: parsed.data, digest, text, environment: environmentIn(place.env) };
  }
  throw new Failure('plan_mismatch', `there is no plan with the digest ${digest} in ${slotDir}`, {
    fields: { slot_dir: slotDir, plan_digest: digest },
  });
}

/** What the present or last stack of the slot was started from, whatever was asked for since. */
export function installedPlan(slotDir: string): WrittenPlan | null {
  const text = readTextIfPresent(slotPaths(slotDir).plan);
  const parsed = text === null ? null : stackPlanSchema.safeParse(jsonOf(text));
  return text === null || !parsed?.success ? null : { plan: parsed.data, digest: planDigest(text), text };
}

/** Makes a requested plan the one of the stack that is about to be started. */
export function installPlan(slotDir: string, digest: string): void {
  const { text, environment } = loadPlan(slotDir, digest);
  const paths = slotPaths(slotDir);
  writeFileDurable(paths.env, `${JSON.stringify(environment)}\n`);
  writeFileDurable(paths.plan, text);
}

function environmentIn(file: string): StackEnvironment {
  const value = jsonOf(readTextIfPresent(file) ?? '{}');
  if (typeof value !== 'object' || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

function requestedName(directory: string, digest: string): string | null {
  const suffix = `-${digest}.plan.json`;
  return (
    listDir(directory)
      .find((name) => name.endsWith(suffix))
      ?.slice(0, -'.plan.json'.length) ?? null
  );
}

/** Requests that were refused leave their plans behind; the names begin with their time. */
function prune(directory: string): void {
  const plans = listDir(directory).filter((name) => name.endsWith('.plan.json'));
  for (const old of plans.slice(0, Math.max(0, plans.length - REQUESTS_KEPT))) {
    removeDurable(join(directory, old));
    removeDurable(join(directory, old.replace(/\.plan\.json$/, '.env.json')));
  }
}

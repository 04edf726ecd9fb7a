/**
 * The services of one stack, from the first prepare to the last survivor. Starts in the plan's order, each after the
 * one before is ready; stops in reverse. Throws a `Failure` for what went wrong and leaves the cleaning up to `stop`.
 */
import { systemClock } from '../platform/clock.ts';
import { Failure } from '../platform/failure.ts';
import { type HeldPort, holdPort, portIsFree } from '../platform/port-probe.ts';
import {
  type ChildExit,
  type ChildHandle,
  endProcessTree,
  type ProcessIdentity,
  spawnChild,
} from '../platform/processes.ts';
import type { PlannedReady, PlannedService, StackPlan } from '../protocol/stack-plan.ts';
import type { StartedGroup } from '../protocol/stack-records.ts';
import { hasMembers } from './_groups.ts';
import { raceAbort, waitUntilReady } from './_readiness.ts';
import { DataStamp, prepareStep, SETUP_STEP } from './_stamp.ts';
import type { SupervisorRecord } from './_supervisor-state.ts';
import { renderTemplate, type TemplateValues } from './_template.ts';
import {
  connectionFileOf,
  renderService,
  serviceEnvironment,
  stackVariables,
  templateValues,
  writeConnectionFile,
} from './connection.ts';
import type { StackEnvironment } from './plan.ts';
import { beginLog, lastLines, SETUP_LOG, serviceLogFile } from './service-log.ts';
import { type SlotPaths, slotPaths } from './slot.ts';
import { REAP_MARK } from './variables.ts';

const STEP_STOP = { signal: 'SIGTERM', grace_ms: 2_000 } as const;
const SWEEP_GRACE_MS = 1_000;

export interface StackToSupervise {
  readonly plan: StackPlan;
  readonly environment: StackEnvironment;
  readonly leaseId: string;
  readonly record: SupervisorRecord;
}

export class SupervisedStack {
  readonly #stack: StackToSupervise;
  readonly #paths: SlotPaths;
  readonly #aborted = new AbortController();
  #guards: HeldPort[] = [];
  #starting: Promise<void> | null = null;
  #stopping: Promise<ProcessIdentity[]> | null = null;

  constructor(stack: StackToSupervise) {
    this.#stack = stack;
    this.#paths = slotPaths(stack.plan.slot_dir);
  }

  get guardsHeld(): boolean {
    return this.#guards.length === this.#stack.plan.guard_ports.length;
  }

  start(): Promise<void> {
    this.#starting ??= this.#start();
    return this.#starting;
  }

  /** Ends all that was started, and all that carries the lease's mark; answers who would not go. */
  stop(): Promise<ProcessIdentity[]> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #start(): Promise<void> {
    const { plan, leaseId } = this.#stack;
    this.#takePorts();
    const stamp = DataStamp.open(this.#paths);
    for (const service of plan.services) await this.#startService(service, stamp);
    writeConnectionFile(this.#paths.connection, connectionFileOf(plan, leaseId));
    if (!stamp.isDone(SETUP_STEP)) await this.#setUp(stamp);
    this.#requireWanted();
  }

  #takePorts(): void {
    const { plan } = this.#stack;
    const named = Object.entries(plan.ports).find(([, port]) => !portIsFree(port));
    if (named !== undefined) throw portsInUse(`port ${named[1]} (${named[0]})`, named[1]);
    for (const port of plan.guard_ports) {
      const guard = portIsFree(port) ? holdPort(port) : null;
      if (guard === null) throw portsInUse(`the guard port ${port}`, port);
      this.#guards.push(guard);
    }
  }

  async #startService(service: PlannedService, stamp: DataStamp): Promise<void> {
    const { plan, leaseId, record } = this.#stack;
    const { prepare, command, cwd } = renderService(plan, service, leaseId);
    const logFile = beginLog(plan.slot_dir, service.name);
    const step = prepareStep(service.name);
    if (prepare.length > 0 && !stamp.isDone(step)) {
      stamp.mark(step, 'begun');
      for (const argv of prepare)
        await this.#runStep(argv, { name: service.name, cwd, logFile, code: 'prepare_failed' });
      stamp.mark(step, 'done');
    }
    this.#requireWanted();
    const child = this.#spawn(command, { cwd, logFile, name: service.name, connectionFile: null });
    record.started({ name: service.name, kind: 'service', identity: child.identity, stop: service.stop });
    let exit: ChildExit | null = null;
    let ready = false;
    const noteEnd = () => {
      if (!ready || exit === null || this.#aborted.signal.aborted) return;
      record.serviceEnded({ service: service.name, ...exit, ended_at: systemClock.wallMs() });
    };
    const ended = child.exited.then((how) => {
      exit = how;
      noteEnd();
      return how;
    });
    await this.#untilReady(service, cwd, ended);
    ready = true;
    noteEnd();
  }

  async #untilReady(service: PlannedService, cwd: string, ended: Promise<ChildExit>): Promise<void> {
    const { plan, leaseId } = this.#stack;
    if (service.ready === null) return;
    const over = new AbortController();
    const logFile = serviceLogFile(plan.slot_dir, service.name);
    const answered = waitUntilReady({
      ready: renderReady(service.ready, templateValues(plan, leaseId)),
      host: plan.host,
      spawn: this.#spawnOptions({ cwd, logFile, connectionFile: null }),
      signal: AbortSignal.any([over.signal, this.#aborted.signal]),
    });
    const first = await Promise.race([answered, ended]);
    over.abort();
    await answered.catch(() => null);
    if (first === 'ready') return;
    this.#requireWanted();
    const lines = lastLines(plan.slot_dir, service.name);
    if (typeof first === 'string') {
      const seconds = service.ready.timeout_ms / 1_000;
      throw new Failure('service_not_ready', `service ${service.name} was not ready within ${seconds} s`, {
        fields: { service: service.name, timeout_ms: service.ready.timeout_ms, lines },
      });
    }
    throw new Failure('service_failed', `service ${service.name} ended before it was ready (${howItEnded(first)})`, {
      fields: { service: service.name, ...first, lines },
    });
  }

  async #setUp(stamp: DataStamp): Promise<void> {
    const { plan, leaseId } = this.#stack;
    stamp.mark(SETUP_STEP, 'begun');
    if (plan.setup.length > 0) {
      const logFile = beginLog(plan.slot_dir, SETUP_LOG);
      const values = templateValues(plan, leaseId);
      for (const argv of plan.setup) {
        const rendered = argv.map((text) => renderTemplate(text, values));
        await this.#runStep(rendered, { name: SETUP_LOG, cwd: plan.worktree_root, logFile, code: 'setup_failed' });
      }
    }
    stamp.mark(SETUP_STEP, 'done');
  }

  async #runStep(
    argv: readonly string[],
    step: { name: string; cwd: string; logFile: string; code: string },
  ): Promise<void> {
    const { record, plan } = this.#stack;
    this.#requireWanted();
    const connectionFile = step.code === 'setup_failed' ? this.#paths.connection : null;
    const child = this.#spawn(argv, { ...step, connectionFile });
    record.started({ name: step.name, kind: 'step', identity: child.identity, stop: STEP_STOP });
    const outcome = await raceAbort(child.exited, this.#aborted.signal);
    this.#requireWanted();
    if (!hasMembers(child.identity)) record.forget(child.identity);
    if (typeof outcome === 'string' || outcome.exit_code === 0) return;
    const [command = ''] = argv;
    const what = step.code === 'setup_failed' ? 'set-up' : `prepare of service ${step.name}`;
    throw new Failure(step.code, `${what}: ${command} failed (${howItEnded(outcome)})`, {
      fields: { service: step.name, command, ...outcome, lines: lastLines(plan.slot_dir, step.name) },
    });
  }

  #spawn(
    argv: readonly string[],
    how: { cwd: string; logFile: string; name: string; connectionFile: string | null },
  ): ChildHandle {
    try {
      return spawnChild({ ...this.#spawnOptions(how), argv });
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      throw new Failure(error.code, `${how.name}: ${error.message}`, {
        cause: error,
        fields: { ...error.fields, service: how.name },
      });
    }
  }

  #spawnOptions({ cwd, logFile, connectionFile }: { cwd: string; logFile: string; connectionFile: string | null }) {
    const { plan, leaseId, environment } = this.#stack;
    return {
      cwd,
      env: serviceEnvironment(environment, stackVariables(plan, leaseId, connectionFile), leaseId),
      stdin: 'ignore',
      stdout: { file: logFile },
      stderr: { file: logFile },
      detached: true,
    } as const;
  }

  #requireWanted(): void {
    if (this.#aborted.signal.aborted) throw new Failure('interrupted', 'the stack was stopped while it was starting');
  }

  async #stop(): Promise<ProcessIdentity[]> {
    const { record, leaseId } = this.#stack;
    this.#aborted.abort();
    await endGroups(record.state.groups);
    await this.#starting?.catch(() => null);
    const survivors = await sweep(record.state.groups, leaseId);
    for (const guard of this.#guards.splice(0)) guard.release();
    return survivors;
  }
}

/** Last started, first stopped; each with its own signal and grace. */
export async function endGroups(groups: readonly StartedGroup[]): Promise<void> {
  for (const { identity, stop } of groups.toReversed()) {
    await endProcessTree({ groups: [identity], firstSignal: stop.signal, graceMs: stop.grace_ms });
  }
}

/** Whoever is left of the groups, or carries the mark from wherever it went. */
export async function sweep(groups: readonly StartedGroup[], leaseId: string): Promise<ProcessIdentity[]> {
  const identities = groups.map(({ identity }) => identity);
  const mark = { name: REAP_MARK, value: leaseId };
  return (await endProcessTree({ groups: identities, mark, graceMs: SWEEP_GRACE_MS })).survivors;
}

function renderReady(ready: PlannedReady, values: TemplateValues): PlannedReady {
  switch (ready.kind) {
    case 'tcp':
      return ready;
    case 'http':
      return { ...ready, url: renderTemplate(ready.url, values) };
    case 'exec':
      return { ...ready, command: ready.command.map((text) => renderTemplate(text, values)) };
  }
}

function howItEnded({ exit_code, signal }: ChildExit): string {
  return signal === null ? `exit code ${exit_code}` : signal;
}

function portsInUse(what: string, port: number): Failure {
  return new Failure('ports_in_use', `${what} of the claimed block is in use by another program`, { fields: { port } });
}

/**
 * The process under which the services of one stack live. It outlives the Helper and obeys it: each request bears lease
 * and fencing token, and an older grant than it has seen is refused. Nobody renewing it for its limit, in awake time,
 * is taken as the end of the lease: it stops the services and keeps their data. It never restarts a service, never
 * removes data, and proves nothing; whether all is gone is for the driver to see. Read next: `_supervised-stack.ts`.
 */
import { dirname } from 'node:path';
import { type Clock, systemClock } from '../platform/clock.ts';
import { Failure } from '../platform/failure.ts';
import { tryLock } from '../platform/kernel-lock.ts';
import { type Logger, logger } from '../platform/logging.ts';
import { onTerminationSignals } from '../platform/signals.ts';
import { every } from '../platform/timers.ts';
import { type Creation, creationSchema } from '../protocol/stack-records.ts';
import { requestSchema, type SupervisorReply, type SupervisorRequest } from '../protocol/supervisor-messages.ts';
import { type LineChannel, serveLines } from './_json-lines.ts';
import { readRecord } from './_records.ts';
import { SupervisedStack } from './_supervised-stack.ts';
import { EXIT_SLOT_TAKEN, requireCurrent, supervisorSocket } from './_supervisor-fence.ts';
import { SupervisorRecord } from './_supervisor-state.ts';
import type { StackFailure } from './driver.ts';
import { loadPlan } from './plan.ts';
import { keepLogsBounded } from './service-log.ts';
import { slotPaths } from './slot.ts';

const LIMIT_CHECK_MS = 250;

/** Answers with an exit code when the stack is stopped; at once when the slot is taken or nothing was to be created. */
export async function runSupervisor({ slotDir }: { slotDir: string }): Promise<number> {
  const log = logger('supervisor');
  const paths = slotPaths(slotDir);
  using lock = tryLock(paths.supervisorLock);
  if (lock === null) {
    log.info('another supervisor has this slot', { slot_dir: slotDir });
    return EXIT_SLOT_TAKEN;
  }
  const creation = readRecord(paths.creation, creationSchema);
  if (creation === null || creation === 'unreadable') {
    log.error('there is no record of a creation', { slot_dir: slotDir });
    return 1;
  }
  await new Supervisor(slotDir, creation, log, systemClock).run();
  return 0;
}

type StopReason = 'asked' | 'limit' | 'signal';

class Supervisor {
  readonly #slotDir: string;
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #record: SupervisorRecord;
  readonly #stack: SupervisedStack;
  readonly #answering = new Set<Promise<void>>();
  readonly #over = Promise.withResolvers<void>();
  #limitAt: number;
  #started: Promise<StackFailure | null> | null = null;
  #stopped: Promise<void> | null = null;

  constructor(slotDir: string, creation: Creation, log: Logger, clock: Clock) {
    this.#slotDir = slotDir;
    this.#log = log;
    this.#clock = clock;
    this.#limitAt = clock.monotonicMs() + creation.limit_ms;
    const record = new SupervisorRecord(slotPaths(slotDir).supervisor, creation, log);
    this.#record = record;
    const { plan, environment } = loadPlan(slotDir, creation.plan_digest);
    this.#stack = new SupervisedStack({ plan, environment, leaseId: creation.lease_id, record });
  }

  async run(): Promise<void> {
    this.#record.write({});
    const home = dirname(dirname(this.#slotDir));
    const server = await serveLines(supervisorSocket(home, this.#slotDir), (value, channel) =>
      this.#onLine(value, channel),
    );
    const ends = [
      onTerminationSignals(() => void this.#stop('signal')),
      every(LIMIT_CHECK_MS, () => this.#checkLimit()),
      keepLogsBounded(this.#slotDir, (failure) => this.#log.warn(failure.message, { code: failure.code })),
    ];
    await this.#over.promise;
    await Promise.all(this.#answering);
    for (const end of ends) end();
    server.close();
  }

  #checkLimit(): void {
    if (this.#clock.monotonicMs() >= this.#limitAt) void this.#stop('limit');
  }

  #onLine(value: unknown, channel: LineChannel): void {
    const request = requestSchema.safeParse(value);
    if (!request.success) {
      channel.close();
      return;
    }
    const { id } = request.data;
    const reply = (failure: StackFailure | null): SupervisorReply =>
      failure === null
        ? { id, outcome: 'done', inspection: this.#inspection() }
        : { id, outcome: 'failed', code: failure.code, message: failure.message, fields: { ...failure.fields } };
    const answered = this.#answer(request.data).then((failure) => channel.send(reply(failure)));
    this.#answering.add(answered);
    void answered.finally(() => this.#answering.delete(answered));
  }

  async #answer(request: SupervisorRequest): Promise<StackFailure | null> {
    try {
      requireCurrent(request, this.#record.state);
      if (request.fencing_token > this.#record.state.fencing_token) {
        this.#record.write({ fencing_token: request.fencing_token });
      }
      return await this.#obey(request);
    } catch (error) {
      return failureOf(error);
    }
  }

  async #obey({ op, limit_ms }: SupervisorRequest): Promise<StackFailure | null> {
    switch (op) {
      case 'inspect':
        return null;
      case 'renew':
        this.#limitAt = this.#clock.monotonicMs() + limit_ms;
        return null;
      case 'up':
        this.#limitAt = this.#clock.monotonicMs() + limit_ms;
        this.#started ??= this.#start();
        return this.#started;
      case 'stop':
        await this.#stop('asked');
        return null;
    }
  }

  /** A start that failed is rolled back at once; its reason stays until somebody asks to stop. */
  async #start(): Promise<StackFailure | null> {
    try {
      if (this.#stopped !== null) throw new Failure('interrupted', 'the stack is being stopped');
      this.#record.write({ phase: 'starting' });
      await this.#stack.start();
      this.#record.write({ phase: 'ready' });
      return null;
    } catch (error) {
      const failure = failureOf(error);
      this.#log.warn(failure.message, { code: failure.code });
      await this.#stack.stop();
      if (this.#stopped === null)
        this.#record.note({ phase: 'failed', failure: { ...failure, fields: { ...failure.fields } } });
      return failure;
    }
  }

  #stop(why: StopReason): Promise<void> {
    this.#stopped ??= this.#stopOnce(why);
    return this.#stopped;
  }

  async #stopOnce(why: StopReason): Promise<void> {
    this.#log.info('stopping', { why });
    this.#record.note({ phase: 'stopping', stopped_because: why });
    const survivors = await this.#stack.stop();
    if (survivors.length > 0) this.#log.error('processes survive', { pids: survivors.map(({ pid }) => pid) });
    this.#record.note({ phase: 'stopped' });
    this.#over.resolve();
  }

  #inspection(): Extract<SupervisorReply, { outcome: 'done' }>['inspection'] {
    const { phase, plan_digest, groups, service_ended } = this.#record.state;
    return { phase, plan_digest, groups, service_ended, guards_held: this.#stack.guardsHeld };
  }
}

function failureOf(error: unknown): StackFailure {
  if (error instanceof Failure) return { code: error.code, message: error.message, fields: error.fields };
  return { code: 'internal', message: error instanceof Error ? error.message : String(error), fields: {} };
}

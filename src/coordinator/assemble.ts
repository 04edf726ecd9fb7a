/** Puts the parts of a coordinator together over one log: clock, liveness, engine, streams, ticker. */
import { hasAnythingAlive } from '../core/views.ts';
import type { EventLog } from '../log/event-log.ts';
import { type Clock, systemClock } from '../platform/clock.ts';
import { logger } from '../platform/logging.ts';
import { CoordinatorClock } from './coordinator-clock.ts';
import { Engine } from './engine.ts';
import { StreamHub } from './event-stream.ts';
import { LivenessTable } from './liveness-table.ts';
import { Ticker } from './ticker.ts';
import type { Coordinator, OwnHost } from './tool.ts';

export interface AssembleOptions {
  log: EventLog;
  leaseTtlMs: number;
  ownHost: OwnHost;
  version: string;
  clock?: Clock;
  beatMs?: number;
}

export interface Assembled extends Coordinator {
  readonly hub: StreamHub;
  /** Finishes what was submitted, stores a snapshot and closes the log. */
  close(): Promise<void>;
}

const log = logger('coordinator');

export async function assemble(options: AssembleOptions): Promise<Assembled> {
  const clock = new CoordinatorClock({ graceMs: options.leaseTtlMs, clock: options.clock ?? systemClock });
  const opened: { engine: Engine | null } = { engine: null };
  const liveness = new LivenessTable({
    now: () => clock.now(),
    leaseIsWaiting: (id) => {
      const state = opened.engine?.state.leases.get(id)?.state;
      return state === 'queued' || state === 'provisioning';
    },
  });
  const engine = await Engine.open({ log: options.log, clock, liveness });
  opened.engine = engine;
  liveness.seeAll();
  if (hasAnythingAlive(engine.state)) clock.giveGrace();
  forgetTheEnded(engine, liveness);
  const beat = options.beatMs === undefined ? {} : { beatMs: options.beatMs };
  const hub = new StreamHub({ engine, log: options.log, liveness, ...beat });
  const ticker = new Ticker({
    engine,
    clock,
    leaseTtlMs: options.leaseTtlMs,
    onDisturbance: (disturbance) => {
      log.warn('time was disturbed; every deadline gets its grace', { ...disturbance });
      liveness.seeAll();
    },
  });
  return {
    engine,
    log: options.log,
    clock,
    liveness,
    hub,
    ownHost: options.ownHost,
    version: options.version,
    startedAt: clock.now(),
    close: async () => {
      ticker.stop();
      hub.close();
      await engine.close();
    },
  };
}

function forgetTheEnded(engine: Engine, liveness: LivenessTable): void {
  engine.subscribe((events, ended) => {
    for (const { kind, id } of ended) liveness.forget(kind, id);
    for (const { event } of events) if (event.type === 'job_closed') liveness.forget('job', event.job_id);
  });
}

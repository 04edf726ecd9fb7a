/** The engine over a log in memory that fails on demand, with the smallest input that changes something. */
import { expect } from 'bun:test';
import { CoordinatorClock } from '../../src/coordinator/coordinator-clock.ts';
import { Engine } from '../../src/coordinator/engine.ts';
import type { LeaseRequest } from '../../src/core/inputs.ts';
import { violationsOf } from '../../src/core/invariants.ts';
import { toSnapshot } from '../../src/core/state.ts';
import type { CommitPlan, EventLog } from '../../src/log/event-log.ts';
import { type FaultPoint, MemoryDisk, MemoryLog } from '../../src/log/memory-log.ts';
import { Failure } from '../../src/platform/failure.ts';
import { configureLogging } from '../../src/platform/logging.ts';
import { newId } from '../../src/platform/random.ts';

configureLogging({ level: 'silent' });

export const BY = { principal: 'owner' };
export const request = (slot: string, changes: Partial<LeaseRequest> = {}): LeaseRequest => ({
  lease_id: newId(),
  principal: 'owner',
  tenant: 'local',
  agent: slot,
  mode: 'attached',
  claim_token: newId(),
  plan_digest: 'plan',
  ttl_ms: 60_000,
  idle_ttl_ms: 60_000,
  hard_ttl_ms: null,
  labels: {},
  slot,
  project: `bb-${slot}`,
  host_id: 'h',
  worktree_root: `/${slot}`,
  stack_path: '.',
  units: 1,
  priority: 0,
  blocks: [],
  queue_timeout_ms: 60_000,
  ...changes,
});

export const ask = (engine: Engine, slot: string, changes: Partial<LeaseRequest> = {}, key?: string) =>
  engine.submit<'request_lease', { lease_id: string }>(
    { type: 'request_lease', request: request(slot, changes) },
    {
      ...BY,
      idempotency: key === undefined ? undefined : { key, args_hash: slot },
      render: ({ lease }) => ({ lease_id: lease.lease_id }),
    },
  );

export class Faulty {
  readonly disk = new MemoryDisk(newId());
  /** Each entry fails one reaching of its point. */
  readonly faults: FaultPoint[] = [];
  readonly batches: CommitPlan[] = [];
  readonly log: EventLog;

  constructor() {
    const log = new MemoryLog(this.disk, (point) => {
      const index = this.faults.indexOf(point);
      if (index === -1) return;
      this.faults.splice(index, 1);
      throw new Failure('state_unwritable', 'the disk is full', { fields: { path: 'memory', errno: 'ENOSPC' } });
    });
    const commit = log.commit.bind(log);
    log.commit = (reads, fn) =>
      commit(reads, (view) => {
        const plan = fn(view);
        this.batches.push(plan);
        return plan;
      });
    this.log = log;
  }
}

export const nobody = { lastSeenAt: () => 0 };

export const open = (log: EventLog) =>
  Engine.open({ log, clock: new CoordinatorClock({ graceMs: 60_000 }), liveness: nobody });

/** The state is what its log folds to. */
export async function expectFolded(engine: Engine, disk: MemoryDisk): Promise<void> {
  const fresh = await open(new MemoryLog(disk));
  expect(toSnapshot(engine.state)).toEqual(toSnapshot(fresh.state));
  expect(violationsOf(engine.state)).toEqual([]);
}

/** One event that costs nothing to step. */
export const register = (engine: Engine, incarnation: string) =>
  engine.submit<'register_host'>(
    {
      type: 'register_host',
      host_id: 'h',
      host_key: 'h',
      capacity_units: 1,
      protocol_version: 4,
      helper_version: '1',
      incarnation,
      key_id: 'k',
      public_key: 'p',
    },
    BY,
  );

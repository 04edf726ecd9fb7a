/** Each kind of trouble, done to one actor that the seed picks. */
import type { Trouble } from './faults.ts';
import type { Sim } from './sim.ts';
import type { Life } from './timeline.ts';

const DAY_MS = 24 * 3_600_000;

export function strike(sim: Sim, trouble: Trouble): void {
  sim.tell(`trouble: ${trouble}`);
  TROUBLE[trouble](sim);
}

function pause(sim: Sim, life: Life | null | undefined, longest: number): void {
  if (!life?.alive || life.pausedUntil > sim.timeline.now) return;
  life.pausedUntil = sim.timeline.now + sim.random.between(1_000, longest);
}

function anyOf<T>(sim: Sim, from: readonly T[]): T | null {
  return from.length === 0 ? null : sim.random.pick(from);
}

const anyHelper = (sim: Sim) =>
  anyOf(
    sim,
    sim.helpers.flatMap((keeper) => keeper.living),
  );

const TROUBLE: Record<Trouble, (sim: Sim) => void> = {
  coordinator_crash: ({ coordinator }) => coordinator.crash(),
  coordinator_pause: (sim) => pause(sim, sim.coordinator.life, 90_000),
  commit_lost: ({ coordinator }) => {
    coordinator.commitTrouble = 'commit_lost';
  },
  commit_unanswered: ({ coordinator, random }) => {
    coordinator.commitTrouble = random.pick(['commit_unanswered', 'commit_doubtful']);
  },
  disk_full: ({ coordinator }) => {
    coordinator.commitTrouble = 'disk_full';
  },
  stream_cut: (sim) => anyOf(sim, sim.coordinator.streams.all)?.cut(),
  client_kill: (sim) => anyOf(sim, sim.clients.living)?.life.end(),
  client_pause: (sim) => pause(sim, anyOf(sim, sim.clients.living)?.life, sim.random.pick([60_000, 200_000, 900_000])),
  client_signal: (sim) => anyOf(sim, sim.clients.living)?.signal(sim.random.pick(['SIGINT', 'SIGTERM', 'SIGHUP'])),
  helper_crash: (sim) => anyHelper(sim)?.life.end(),
  helper_pause: (sim) => pause(sim, anyHelper(sim)?.life, 120_000),
  helper_drain: (sim) => anyHelper(sim)?.drain(),
  /** The lock of a home failed: another Helper begins while the first one only sleeps, in the middle of its work. */
  helper_twin: (sim) => {
    const busy = sim.helpers.filter(({ living }) => living.length === 1 && living[0]?.isReaping === true);
    const keeper = anyOf(sim, busy);
    if (keeper === null) return;
    for (const { life } of keeper.living) life.pausedUntil = sim.timeline.now + sim.random.between(60_000, 300_000);
    keeper.start();
  },
  supervisor_death: (sim) => {
    const running = sim.hosts.flatMap((host) => [...host.stacks.values()].filter(({ supervisor }) => supervisor.alive));
    anyOf(sim, running)?.supervisor.end();
  },
  claim_lost: (sim) => {
    const host = sim.random.pick(sim.hosts);
    const base = anyOf(sim, [...host.claims.keys()]);
    const claim = base === null ? undefined : host.claims.get(base);
    if (base === null || claim === undefined) return;
    host.lostClaims.push({ port_base: base, size: 20 });
    host.claims.delete(base);
  },
  capacity_change: (sim) => {
    sim.random.pick(sim.hosts).capacity = sim.random.between(1, 3);
  },
  clock_jump: (sim) => {
    sim.random.pick(sim.hosts).machine.wallOffsetMs += sim.random.between(-DAY_MS, DAY_MS);
  },
  suspend: (sim) => {
    const { machine } = sim.random.pick(sim.hosts);
    sim.timeline.suspend(machine, sim.random.pick([30_000, 600_000, 8 * 3_600_000]));
  },
  done_by_person: (sim) => {
    const lease = anyOf(sim, [...sim.watch.shadow.leases.values()]);
    if (lease !== null) sim.clients.done(lease.lease_id, sim.random.pick(['idle', 'reap'] as const));
  },
};

/**
 * Rounds with real processes: three worktrees run on two units, and one or two of client, child, supervisor, Helper and
 * coordinator, drawn by lot, are killed with -9 at a random moment. After TTL and grace nothing is held by the dead.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findMarked } from '../../src/platform/processes.ts';
import { eventually } from '../support/eventually.ts';
import { WEB_STACK } from '../support/sample-stacks.ts';
import { makeStage, type Running, readJson, type Stage } from '../support/stage.ts';

const VICTIMS = ['client', 'child', 'supervisor', 'helper', 'coordinator'] as const;
type Victim = (typeof VICTIMS)[number];

const SETTLE_MS = 60_000;

/** A small seeded generator (mulberry32): the draws of a round can be repeated, its timing cannot. */
function lots(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const claimsOf = (stage: Stage): Record<string, unknown>[] => jsonFilesIn(join(stage.home, 'ports'), /^\d+\.json$/);

function jsonFilesIn(dir: string, name: RegExp): Record<string, unknown>[] {
  if (!existsSync(dir)) return [];
  return readdirSync(dir)
    .filter((file) => name.test(file))
    .flatMap((file) => {
      try {
        return [JSON.parse(readFileSync(join(dir, file), 'utf8')) as Record<string, unknown>];
      } catch {
        return [];
      }
    });
}

/** A claim that no request came to carry is kept for ten minutes on purpose: its request may still be admitted. */
const isUnboundRemain = (claim: Record<string, unknown>): boolean => claim['lease_id'] === null;

const pidIn = (record: unknown): number | null => (record as { pid?: number } | null)?.pid ?? null;

function pidsOf(stage: Stage, victim: Victim, runs: readonly Running[]): number[] {
  const identityIn = (path: string) => pidIn(readJsonSafely(path)?.['identity']);
  switch (victim) {
    case 'client':
      return runs.map(({ pid }) => pid);
    case 'child':
      return claimsOf(stage).flatMap((claim) => pidIn(claim['child']) ?? []);
    case 'supervisor': {
      const stacks = join(stage.home, 'stacks');
      const slots = existsSync(stacks) ? readdirSync(stacks) : [];
      return slots.flatMap((slot) => identityIn(join(stacks, slot, 'supervisor.json')) ?? []);
    }
    case 'helper':
      return [identityIn(join(stage.home, 'helper.json'))].filter((pid) => pid !== null);
    case 'coordinator':
      return [identityIn(join(stage.home, 'coordinator.json'))].filter((pid) => pid !== null);
  }
}

function readJsonSafely(path: string): Record<string, unknown> | null {
  try {
    return readJson(path);
  } catch {
    return null;
  }
}

function kill(pid: number): boolean {
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch {
    return false;
  }
}

async function leasesOf(stage: Stage): Promise<string[]> {
  const { receipt } = await stage.botbuddy(stage.root, ['stack', 'list']);
  return (receipt?.['leases'] as { lease_id: string }[] | undefined)?.map(({ lease_id }) => lease_id) ?? ['unknown'];
}

async function round(stage: Stage, worktrees: readonly string[], draw: () => number): Promise<string[]> {
  const runs = worktrees.map((path) => stage.start(path, ['stack', 'run', '--reap', '--', 'sleep', '0.5']));
  const killed: string[] = [];
  const victims = draw() < 0.3 ? 2 : 1;
  for (let i = 0; i < victims; i += 1) {
    await Bun.sleep(draw() * 1_500);
    const victim = VICTIMS[Math.floor(draw() * VICTIMS.length)] as Victim;
    const pids = pidsOf(stage, victim, runs);
    const pid = pids[Math.floor(draw() * pids.length)];
    if (pid !== undefined && kill(pid)) killed.push(victim);
  }
  const finished = await Promise.all(runs.map((run) => run.finished));
  const ends = finished.map(({ exitCode, signal, receipt }) => `${exitCode ?? signal}/${receipt?.['code'] ?? '-'}`);
  const what = `killed ${killed.join(' and ') || 'nobody'}, ends ${ends.join(' ')}`;
  const violations = finished
    .filter(({ exitCode, receipt }) => exitCode !== null && receipt === null)
    .map(({ stderr }) => `${what}: a client ended without a receipt: ${stderr.trim().split('\n').at(-1)}`);
  const ids = finished.flatMap(({ receipt }) =>
    typeof receipt?.['lease_id'] === 'string' ? [receipt['lease_id']] : [],
  );
  try {
    await eventually('no lease is left', async () => (await leasesOf(stage)).length === 0, {
      withinMs: SETTLE_MS,
      everyMs: 200,
    });
    await eventually('no claim is left', () => claimsOf(stage).every(isUnboundRemain), { withinMs: SETTLE_MS });
    const alive = ids.flatMap((id) => findMarked('BOTBUDDY_REAP_MARK', id));
    if (alive.length > 0) violations.push(`${what}: ${alive.length} processes are left`);
  } catch (error) {
    const leases = await leasesOf(stage);
    violations.push(
      `${what}: ${(error as Error).message}; leases ${leases.join(' ')}, ${claimsOf(stage).length} claims`,
    );
  }
  return violations;
}

export async function soakKills(rounds: number, seed: number): Promise<string[]> {
  const draw = lots(seed);
  const violations: string[] = [];
  await using stage = await makeStage({ BOTBUDDY_LEASE_TTL_SECS: '2', BOTBUDDY_BEACON_SECS: '1' });
  const worktrees = ['alice', 'bob', 'carol'].map((name) => stage.worktree({ config: WEB_STACK, name }));
  for (let i = 1; i <= rounds; i += 1) {
    const found = await round(stage, worktrees, draw);
    violations.push(...found.map((violation) => `round ${i}: ${violation}`));
    if (i % 10 === 0) console.log(`${i} rounds, ${violations.length} violations`);
    if (violations.length > 5) break;
  }
  return violations;
}

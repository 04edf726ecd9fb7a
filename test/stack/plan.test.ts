import { describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../src/platform/failure.ts';
import type { StackPlan } from '../../src/protocol/stack-plan.ts';
import { parseStackConfig } from '../../src/stack/config-file.ts';
import {
  installedPlan,
  installPlan,
  loadPlan,
  makePlan,
  planDigest,
  stackEnvironment,
  writeRequestedPlan,
} from '../../src/stack/plan.ts';
import { slotDirOf, slotOf, slotPaths } from '../../src/stack/slot.ts';
import { makeTempDir } from '../support/temp-home.ts';

const slot = slotOf({ tenant: 'local', gitCommonDir: '/r/.git', worktreeRoot: '/r' });
const blocks = [
  { port_base: 20_000, size: 4 },
  { port_base: 20_040, size: 4 },
];

function planIn(home: string, toml = 'ports = ["a"]', of = blocks): StackPlan {
  const config = parseStackConfig(`[stack]\ndriver = "process"\n${toml}`, 'f');
  const slotDir = slotDirOf(home, slot.slot_dir_name);
  return makePlan({ config, slot, slotDir, worktreeRoot: '/r', stackDir: '/r', blocks: of });
}

const codeOf = (action: () => unknown): string | null => {
  try {
    action();
    return null;
  } catch (error) {
    return error instanceof Failure ? error.code : String(error);
  }
};

describe('a plan', () => {
  test('gives ports in the order of the file and leaves the last of each block to the guard', () => {
    const plan = planIn('/h', 'ports = ["d", "c", "b", "a"]');
    expect(plan.ports).toEqual({ d: 20_000, c: 20_001, b: 20_002, a: 20_040 });
    expect(plan.guard_ports).toEqual([20_003, 20_043]);
  });

  test('has the same digest for the same stack, and another one for another', () => {
    const digest = (plan: StackPlan) => planDigest(JSON.stringify(plan));
    expect(digest(planIn('/h'))).toBe(digest(planIn('/h')));
    expect(digest(planIn('/h', 'ports = ["b"]'))).not.toBe(digest(planIn('/h')));
    expect(digest(planIn('/h', 'ports = ["a"]', blocks.slice(1)))).not.toBe(digest(planIn('/h')));
  });

  test('does not change with units and TTLs, which are the lease’s', () => {
    expect(planIn('/h', 'ports = ["a"]\nunits = 2\nidle_ttl = 5\nhard_ttl = 5\non_idle = "stop"')).toEqual(
      planIn('/h'),
    );
  });
});

describe('a requested plan', () => {
  test('is found by its digest, with its environment, and is private', () => {
    using temp = makeTempDir();
    const { plan, digest } = writeRequestedPlan(planIn(temp.path), { PATH: '/bin' });
    expect(loadPlan(plan.slot_dir, digest)).toMatchObject({ plan, environment: { PATH: '/bin' } });
    const { requestedPlans } = slotPaths(plan.slot_dir);
    for (const name of readdirSync(requestedPlans))
      expect(statSync(join(requestedPlans, name)).mode & 0o777).toBe(0o600);
  });

  test('of one invocation does not replace that of another', () => {
    using temp = makeTempDir();
    const first = writeRequestedPlan(planIn(temp.path), {});
    const second = writeRequestedPlan(planIn(temp.path, 'ports = ["a"]', blocks.slice(1)), {});
    expect(loadPlan(first.plan.slot_dir, first.digest).plan).toEqual(first.plan);
    expect(loadPlan(second.plan.slot_dir, second.digest).plan).toEqual(second.plan);
  });

  test('that was changed afterwards is refused', () => {
    using temp = makeTempDir();
    const { plan, digest } = writeRequestedPlan(planIn(temp.path), {});
    const { requestedPlans } = slotPaths(plan.slot_dir);
    const name = readdirSync(requestedPlans).find((file) => file.endsWith('.plan.json')) ?? '';
    const file = join(requestedPlans, name);
    writeFileSync(file, readFileSync(file, 'utf8').replace('20000', '20001'));
    expect(codeOf(() => loadPlan(plan.slot_dir, digest))).toBe('plan_mismatch');
    expect(codeOf(() => installPlan(plan.slot_dir, digest))).toBe('plan_mismatch');
    expect(existsSync(slotPaths(plan.slot_dir).plan)).toBe(false);
  });

  test('of another slot is refused', () => {
    using temp = makeTempDir();
    const { digest, text, plan } = writeRequestedPlan({ ...planIn(temp.path) }, {});
    const other = slotDirOf(temp.path, 'otherotherot');
    const { requestedPlans } = slotPaths(other);
    writeRequestedPlan({ ...plan, slot_dir: other }, {});
    writeFileSync(join(requestedPlans, `0-${digest}.plan.json`), text);
    expect(codeOf(() => loadPlan(other, digest))).toBe('plan_mismatch');
  });

  test('becomes the stack’s own when it is installed', () => {
    using temp = makeTempDir();
    const { plan, digest } = writeRequestedPlan(planIn(temp.path), { A: '1' });
    expect(installedPlan(plan.slot_dir)).toBeNull();
    installPlan(plan.slot_dir, digest);
    writeRequestedPlan(planIn(temp.path, 'ports = ["b"]'), {});
    expect(installedPlan(plan.slot_dir)).toMatchObject({ digest, plan });
  });

  test('that nobody took goes when many newer ones have come', () => {
    using temp = makeTempDir();
    for (let port = 0; port < 40; port += 1) {
      writeRequestedPlan(planIn(temp.path, 'ports = ["a"]', [{ port_base: 30_000 + port, size: 4 }]), {});
    }
    const { requestedPlans } = slotPaths(slotDirOf(temp.path, slot.slot_dir_name));
    expect(readdirSync(requestedPlans)).toHaveLength(32);
  });
});

test('only named variables are passed on to a stack', () => {
  const around = {
    PATH: '/bin',
    HOME: '/h',
    LC_ALL: 'C',
    TMPDIR: '/t',
    PGUSER: 'me',
    SECRET: 'x',
    BOTBUDDY_HOME: '/b',
  };
  expect(stackEnvironment(around, ['PGUSER', 'MISSING'])).toEqual({
    PATH: '/bin',
    HOME: '/h',
    LC_ALL: 'C',
    TMPDIR: '/t',
    PGUSER: 'me',
  });
});

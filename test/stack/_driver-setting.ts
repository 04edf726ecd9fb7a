/** A slot with a plan made from TOML, and a driver whose supervisors are real processes. */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../src/platform/failure.ts';
import { endProcessTree, findMarked } from '../../src/platform/processes.ts';
import type { StackPlan } from '../../src/protocol/stack-plan.ts';
import { parseStackConfig } from '../../src/stack/config-file.ts';
import type { DriverContext, LookedFor, StackDriver } from '../../src/stack/driver.ts';
import { makePlan, stackEnvironment, writeRequestedPlan } from '../../src/stack/plan.ts';
import { createProcessDriver } from '../../src/stack/process-driver.ts';
import { type SlotPaths, slotDirOf, slotOf, slotPaths } from '../../src/stack/slot.ts';
import { REAP_MARK } from '../../src/stack/variables.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { freeRange } from './_claim-setting.ts';

const SIZE = 6;
const FIXTURES = join(import.meta.dir, 'fixtures');

/** A command line of a config for a service of `fixtures/service.ts`. */
export function fixture(...argv: string[]): string {
  return JSON.stringify([process.execPath, join(FIXTURES, 'service.ts'), ...argv]);
}

/** A command line of a config that runs a script in the stack's data directory, whatever that is called. */
export function script(text: string): string {
  return JSON.stringify(['sh', '-c', `cd "$1" && ${text}`, 'sh', '{dir}']);
}

export interface DriverSetting extends AsyncDisposable {
  readonly home: string;
  readonly root: string;
  readonly paths: SlotPaths;
  readonly driver: StackDriver;
  readonly plan: StackPlan;
  context(change?: Partial<DriverContext>): DriverContext;
  /** Another plan for the same slot and the same ports. */
  replan(toml: string): Pick<DriverContext, 'plan' | 'planDigest'>;
  state(): Record<string, unknown>;
  supervisorPid(): number;
  log(service: string): string;
  marked(): number[];
}

export function driverSetting(
  toml: string,
  {
    limitMs = 60_000,
    environment = {},
    homeName = 'a "home" of\n🙂',
  }: { limitMs?: number; environment?: Record<string, string>; homeName?: string } = {},
): DriverSetting {
  const temp = makeTempDir();
  const home = join(temp.path, homeName);
  const root = join(temp.path, "work tree 'ü'");
  mkdirSync(root, { recursive: true });
  mkdirSync(home, { mode: 0o700 });
  const leaseId = crypto.randomUUID();
  const slot = slotOf({ tenant: 'local', gitCommonDir: join(root, '.git'), worktreeRoot: root });
  const slotDir = slotDirOf(home, slot.slot_dir_name);
  const { first } = freeRange(1, SIZE);
  const blocks = [{ port_base: first, size: SIZE }];
  const write = (text: string) => {
    const config = parseStackConfig(`[stack]\ndriver = "process"\n${text}`, 'botbuddy.toml');
    const plan = makePlan({ config, slot, slotDir, worktreeRoot: root, stackDir: root, blocks });
    return writeRequestedPlan(
      plan,
      stackEnvironment({ ...process.env, ...environment } as Record<string, string>, config.pass_env),
    );
  };
  const { plan, digest } = write(toml);
  const driver = createProcessDriver({
    superviseArgv: (directory) => [process.execPath, join(FIXTURES, 'supervise.ts'), directory],
    limitOf: () => limitMs,
  });
  const paths = slotPaths(slotDir);
  const marked = () => findMarked(REAP_MARK, leaseId).map(({ pid }) => pid);
  const context: DriverSetting['context'] = (change = {}) => {
    return { home, slotDir, plan, planDigest: digest, leaseId, fencingToken: 1, ttlMs: 1_000, ...change };
  };
  const state = () => JSON.parse(readFileSync(paths.supervisor, 'utf8'));
  return {
    home,
    root,
    paths,
    driver,
    plan,
    context,
    replan: (text) => {
      const written = write(text);
      return { plan: written.plan, planDigest: written.digest };
    },
    state,
    supervisorPid: () => state().identity.pid,
    log: (service) => readFileSync(join(paths.logs, `${service}.log`), 'utf8'),
    marked,
    [Symbol.asyncDispose]: async () => {
      if (existsSync(paths.supervisor)) await endProcessTree({ groups: [state().identity], graceMs: 0 });
      await endProcessTree({ groups: [], mark: { name: REAP_MARK, value: leaseId }, graceMs: 0 });
      temp[Symbol.dispose]();
    },
  };
}

export async function started(setting: DriverSetting, change: Partial<DriverContext> = {}) {
  await setting.driver.prepare(setting.context(change));
  return setting.driver.up(setting.context(change));
}

export const ONE_SERVICE = `ports = ["db"]
[stack.service.db]
command = ${fixture('listen', '{port.db}')}
ready = { tcp = "db", timeout = "20s" }
stop = { grace = "5s" }`;

/** The code with which a call is refused; null when it is not. */
export const codeOf = (promise: Promise<unknown>): Promise<string | null> =>
  promise.then(
    () => null,
    (error: unknown) => (error instanceof Failure ? error.code : String(error)),
  );

export const kindsOf = (looks: readonly LookedFor[]): string[] => [...new Set(looks.map(({ kind }) => kind))].sort();
export const stillThere = (looks: readonly LookedFor[]): LookedFor[] => looks.filter(({ after }) => after !== 'absent');

/** The process of a service, or 0. */
export function pidOf(setting: DriverSetting, name: string): number {
  const groups = setting.state()['groups'] as { name: string; identity: { pid: number } }[];
  return groups.find((group) => group.name === name)?.identity.pid ?? 0;
}

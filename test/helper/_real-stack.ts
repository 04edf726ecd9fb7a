/** A worktree with a claimed block and a plan, hands with a real driver, and a scripted coordinator around them. */
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { StatementStore } from '../../src/helper/attest.ts';
import { ClaimUpkeep } from '../../src/helper/claim-upkeep.ts';
import { openHostIdentity } from '../../src/helper/host-identity.ts';
import { HostSupervisors } from '../../src/helper/host-supervisors.ts';
import { JobLoop } from '../../src/helper/job-loop.ts';
import { HostHands } from '../../src/helper/stack-hands.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { endProcessTree, findMarked, ownIdentity, type ProcessIdentity } from '../../src/platform/processes.ts';
import { newId } from '../../src/platform/random.ts';
import type { Job } from '../../src/protocol/records.ts';
import type { SupervisorState } from '../../src/protocol/stack-records.ts';
import type { LeaseForHelper, StatementBody } from '../../src/protocol/tool-calls.ts';
import { claimBlocks } from '../../src/stack/claim-registry.ts';
import { parseStackConfig } from '../../src/stack/config-file.ts';
import { makePlan, writeRequestedPlan } from '../../src/stack/plan.ts';
import { createProcessDriver } from '../../src/stack/process-driver.ts';
import { slotDirOf, slotOf, slotPaths } from '../../src/stack/slot.ts';
import { freeRange } from '../stack/_claim-setting.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { leaseForHelper } from './_leases.ts';
import { ScriptedCoordinator } from './_scripted-coordinator.ts';

const SIZE = 6;
const HOST = 'this-host';
const FIXTURES = join(import.meta.dir, '../stack/fixtures');
const DEAD_OWNER: ProcessIdentity = { ...ownIdentity(), started_at: '1' };

export const service = (...argv: string[]): string =>
  JSON.stringify([process.execPath, join(FIXTURES, 'service.ts'), ...argv]);

export const ONE_SERVICE = `ports = ["db"]
[stack.service.db]
prepare = [["sh", "-c", "mkdir -p '{dir}' && echo kept > '{dir}/note'"]]
command = ${service('listen', '{port.db}')}
ready = { tcp = "db", timeout = "20s" }
stop = { grace = "5s" }`;

async function claimedWorktree(owner: ProcessIdentity) {
  const temp = makeTempDir('bb-helper-');
  const home = join(temp.path, 'home');
  const root = join(temp.path, 'worktree');
  mkdirSync(root);
  const slot = slotOf({ tenant: 'local', gitCommonDir: join(root, '.git'), worktreeRoot: root });
  const slotDir = slotDirOf(home, slot.slot_dir_name);
  const hold = await claimBlocks({
    home,
    slot,
    host: HOST,
    stackDir: root,
    portsNeeded: 1,
    owner,
    invocationToken: 'token-1',
    leaseViewOf: async () => 'no_answer',
    range: freeRange(1, SIZE),
    size: SIZE,
  });
  const blocks = [...hold.blocks];
  /** Leaves a plan for the slot and answers with its digest. */
  const plan = (toml: string): string => {
    const config = parseStackConfig(`[stack]\ndriver = "process"\n${toml}`, 'botbuddy.toml');
    const made = makePlan({ config, slot, slotDir, worktreeRoot: root, stackDir: root, blocks });
    return writeRequestedPlan(made, { PATH: process.env['PATH'] ?? '/usr/bin:/bin' }).digest;
  };
  return { temp, home, root, slot, blocks, plan, paths: slotPaths(slotDir) };
}

function partsOf(home: string, coordinator: ScriptedCoordinator) {
  const driver = createProcessDriver({
    superviseArgv: (directory) => [process.execPath, join(FIXTURES, 'supervise.ts'), directory],
  });
  const identity = openHostIdentity(home);
  const statements = new StatementStore(home);
  const newHands = () => new HostHands({ home, hostKey: HOST, driver, clock: systemClock });
  const hands = newHands();
  const claims = new ClaimUpkeep({
    home,
    hostKey: HOST,
    calls: coordinator,
    statements,
    clock: systemClock,
    forget: (gone) => hands.forget(gone),
  });
  /** As after a restart of the Helper: nothing of what was in hand is known. */
  const newLoop = () =>
    new JobLoop({
      calls: coordinator,
      hands: newHands(),
      identity,
      statements,
      clock: systemClock,
      reported: (report) => claims.reported(report),
      askForRegistration: () => {},
    });
  return { identity, statements, hands, claims, newLoop, supervisors: new HostSupervisors({ home, driver }) };
}

export async function realStack(toml = ONE_SERVICE, { owner = DEAD_OWNER }: { owner?: ProcessIdentity } = {}) {
  const { temp, slot, ...place } = await claimedWorktree(owner);
  const coordinator = new ScriptedCoordinator();
  const parts = partsOf(place.home, coordinator);
  const lease = leaseForHelper({
    lease_id: newId(),
    state: 'provisioning',
    slot: slot.slot,
    project: slot.project,
    blocks: place.blocks,
    worktree_root: place.root,
    plan_digest: place.plan(toml),
  });
  const { lease_id } = lease;
  coordinator.leases.set(lease_id, lease);
  const mark = { name: 'BOTBUDDY_REAP_MARK', value: lease_id };
  const supervisor = (): SupervisorState => JSON.parse(readFileSync(place.paths.supervisor, 'utf8')) as SupervisorState;
  const idle = (loop: JobLoop) =>
    eventually('no job is in hand', () => loop.inFlight().length === 0, { withinMs: 30_000 });
  let jobs = 0;
  /** Offers a job to a loop and waits until it is done with. */
  const work = async (kind: Job['kind'], over: Partial<LeaseForHelper> = {}, loop = parts.newLoop()) => {
    coordinator.leases.set(lease_id, { ...(coordinator.leases.get(lease_id) ?? lease), ...over });
    coordinator.addJob({ job_id: `${lease_id}.${++jobs}`, kind, lease_id, opened_at: systemClock.wallMs() });
    loop.follow([...coordinator.jobs.values()], [...coordinator.leases.values()]);
    await idle(loop);
  };
  return {
    ...place,
    ...parts,
    lease,
    coordinator,
    work,
    idle,
    supervisor,
    marked: (id = lease_id) => findMarked(mark.name, id).map(({ pid }) => pid),
    reap: () => work('reap_stack', { state: 'reaping' }),
    [Symbol.asyncDispose]: async () => {
      const groups = existsSync(place.paths.supervisor) ? [supervisor().identity] : [];
      await endProcessTree({ groups, mark, graceMs: 0 });
      temp[Symbol.dispose]();
    },
  };
}

export type RealStack = Awaited<ReturnType<typeof realStack>>;

/** What the last report of a kind said it had seen. */
export function lastStatement(
  { coordinator }: RealStack,
  tool: 'complete_job' | 'fail_job' | 'defer_job' = 'complete_job',
): StatementBody {
  const signed = coordinator.toldOf(tool).at(-1)?.statement;
  return JSON.parse(signed?.statement ?? '{}') as StatementBody;
}

export const afters = ({ looked_for }: StatementBody): string[] => [...new Set(looked_for.map(({ after }) => after))];

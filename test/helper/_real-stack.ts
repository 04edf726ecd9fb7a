/** A worktree with a claimed block and a plan, hands with a real driver, and a scripted coordinator around them. */
import { mkdirSync, readFileSync } from 'node:fs';
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
import { type ClaimHold, claimBlocks } from '../../src/stack/claim-registry.ts';
import { parseStackConfig } from '../../src/stack/config-file.ts';
import { makePlan, writeRequestedPlan } from '../../src/stack/plan.ts';
import { createProcessDriver } from '../../src/stack/process-driver.ts';
import { type SlotPaths, slotDirOf, slotOf, slotPaths } from '../../src/stack/slot.ts';
import { freeRange } from '../stack/_claim-setting.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { leaseForHelper } from './_leases.ts';
import { ScriptedCoordinator } from './_scripted-coordinator.ts';

const SIZE = 6;
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

export async function realStack(toml = ONE_SERVICE, { owner = DEAD_OWNER }: { owner?: ProcessIdentity } = {}) {
  const temp = makeTempDir('bb-helper-');
  const home = join(temp.path, 'home');
  const root = join(temp.path, 'worktree');
  mkdirSync(root);
  const slot = slotOf({ tenant: 'local', gitCommonDir: join(root, '.git'), worktreeRoot: root });
  const slotDir = slotDirOf(home, slot.slot_dir_name);
  const paths: SlotPaths = slotPaths(slotDir);
  const hold: ClaimHold = await claimBlocks({
    home,
    slot,
    host: 'this-host',
    stackDir: root,
    portsNeeded: 1,
    owner,
    invocationToken: 'token-1',
    leaseViewOf: async () => 'no_answer',
    range: freeRange(1, SIZE),
    size: SIZE,
  });
  const blocks = [...hold.blocks];
  const plan = (text: string) => {
    const config = parseStackConfig(`[stack]\ndriver = "process"\n${text}`, 'botbuddy.toml');
    const made = makePlan({ config, slot, slotDir, worktreeRoot: root, stackDir: root, blocks });
    return writeRequestedPlan(made, { PATH: process.env['PATH'] ?? '/usr/bin:/bin' }).digest;
  };
  const coordinator = new ScriptedCoordinator();
  const lease = leaseForHelper({
    lease_id: newId(),
    state: 'provisioning',
    slot: slot.slot,
    project: slot.project,
    blocks,
    worktree_root: root,
    plan_digest: plan(toml),
  });
  coordinator.leases.set(lease.lease_id, lease);
  const driver = createProcessDriver({
    superviseArgv: (directory) => [process.execPath, join(FIXTURES, 'supervise.ts'), directory],
  });
  const identity = openHostIdentity(home);
  const statements = new StatementStore(home);
  const hands = new HostHands({ home, hostKey: 'this-host', driver, clock: systemClock });
  const claims = new ClaimUpkeep({
    home,
    hostKey: 'this-host',
    calls: coordinator,
    statements,
    clock: systemClock,
    forget: (gone) => hands.forget(gone),
  });
  const newLoop = () =>
    new JobLoop({
      calls: coordinator,
      hands: new HostHands({ home, hostKey: 'this-host', driver, clock: systemClock }),
      identity,
      statements,
      clock: systemClock,
      reported: (report) => claims.reported(report),
      askForRegistration: () => {},
    });
  let jobs = 0;
  const idle = (loop: JobLoop) =>
    eventually('no job is in hand', () => loop.inFlight().length === 0, { withinMs: 30_000 });
  /** Offers a job to a loop and waits until it is done with. */
  const work = async (kind: Job['kind'], over: Partial<LeaseForHelper> = {}, loop = newLoop()) => {
    const now = { ...(coordinator.leases.get(lease.lease_id) ?? lease), ...over };
    coordinator.leases.set(lease.lease_id, now);
    coordinator.addJob({
      job_id: `${lease.lease_id}.${++jobs}`,
      kind,
      lease_id: lease.lease_id,
      opened_at: systemClock.wallMs(),
    });
    loop.follow([...coordinator.jobs.values()], [...coordinator.leases.values()]);
    await idle(loop);
  };
  const supervisor = (): SupervisorState => JSON.parse(readFileSync(paths.supervisor, 'utf8')) as SupervisorState;
  return {
    home,
    root,
    paths,
    lease,
    blocks,
    coordinator,
    statements,
    claims,
    hands,
    identity,
    hold,
    plan,
    newLoop,
    work,
    idle,
    supervisor,
    supervisors: new HostSupervisors({ home, driver }),
    marked: (leaseId = lease.lease_id) => findMarked('BOTBUDDY_REAP_MARK', leaseId).map(({ pid }) => pid),
    reap: () => work('reap_stack', { state: 'reaping' }),
    [Symbol.asyncDispose]: async () => {
      try {
        await endProcessTree({ groups: [supervisor().identity], graceMs: 0 });
      } catch {
        // None was ever started.
      }
      await endProcessTree({ groups: [], mark: { name: 'BOTBUDDY_REAP_MARK', value: lease.lease_id }, graceMs: 0 });
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

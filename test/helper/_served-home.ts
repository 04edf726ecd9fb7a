/** A home with a real coordinator and its real Helper, and worktrees that ask for leases without a command line. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { CoordinatorClient } from '../../src/client/calls.ts';
import { openClient } from '../../src/client/open-client.ts';
import { hostKey, machineId } from '../../src/platform/machine.ts';
import {
  endProcessTree,
  findMarked,
  isAlive,
  ownIdentity,
  type ProcessIdentity,
} from '../../src/platform/processes.ts';
import { newId } from '../../src/platform/random.ts';
import type { LeaseView } from '../../src/protocol/records.ts';
import type { RequestStackLeaseArgs } from '../../src/protocol/tool-calls.ts';
import { claimBlocks, claimsOfLease } from '../../src/stack/claim-registry.ts';
import { parseStackConfig } from '../../src/stack/config-file.ts';
import { makePlan, writeRequestedPlan } from '../../src/stack/plan.ts';
import { slotDirOf, slotOf, slotPaths } from '../../src/stack/slot.ts';
import { freeRange } from '../stack/_claim-setting.ts';
import { eventually } from '../support/eventually.ts';
import { readJson } from '../support/stage.ts';
import { makeTempDir } from '../support/temp-home.ts';

const SIZE = 6;
const DEAD_OWNER: ProcessIdentity = { ...ownIdentity(), started_at: '1' };

export type ServedHome = Awaited<ReturnType<typeof servedHome>>;

export async function servedHome(settings: Record<string, string> = {}) {
  const temp = makeTempDir('bb-served-');
  const home = join(temp.path, 'home');
  mkdirSync(home, { mode: 0o700 });
  const environment = {
    PATH: process.env['PATH'] ?? '/usr/bin:/bin',
    HOME: temp.path,
    BOTBUDDY_HOME: home,
    BOTBUDDY_HOST_UNITS: '2',
    BOTBUDDY_BEACON_SECS: '1',
    ...settings,
  };
  const client = await openClient({ home, environment });
  const leaseIds: string[] = [];
  const identityIn = (file: string) =>
    (readJson(join(home, file)) as { identity?: ProcessIdentity } | null)?.identity ?? null;
  const coordinator = () => identityIn('coordinator.json');
  const helper = () => identityIn('helper.json');
  const lease = async (id: string): Promise<LeaseView> =>
    (await client.call('get_stack_lease', { lease_id: id })).lease;
  return {
    root: temp.path,
    home,
    client,
    coordinator,
    helper,
    lease,
    leaseIs: (id: string, state: LeaseView['state'], withinMs = 30_000) =>
      eventually(`lease ${id} is ${state}`, async () => (await lease(id)).state === state, { withinMs }),
    /** Another process than `before` is the Helper now. */
    nextHelper: (before: ProcessIdentity | null) =>
      eventually('another Helper serves', () => {
        const now = helper();
        return now !== null && now.pid !== before?.pid && isAlive(now) ? now : null;
      }),
    ask: (options: AskOptions) => ask({ home, root: temp.path, client, leaseIds }, options),
    [Symbol.asyncDispose]: async () => {
      for (const identity of [coordinator(), helper()]) {
        if (identity !== null && isAlive(identity)) await endProcessTree({ groups: [identity], graceMs: 3_000 });
      }
      for (const name of leaseIds) {
        await endProcessTree({ groups: [], mark: { name: 'BOTBUDDY_REAP_MARK', value: name }, graceMs: 0 });
      }
      for (const identity of supervisorsIn(home)) await endProcessTree({ groups: [identity], graceMs: 0 });
      temp[Symbol.dispose]();
    },
  };
}

export interface AskOptions {
  toml: string;
  name?: string;
  owner?: ProcessIdentity;
  over?: Partial<RequestStackLeaseArgs>;
}

interface Around {
  home: string;
  root: string;
  client: CoordinatorClient;
  leaseIds: string[];
}

/** Claims, plans and asks, as a client does, in the name of an owner that is dead unless said otherwise. */
async function ask({ home, root, client, leaseIds }: Around, { toml, name = 'one', owner, over }: AskOptions) {
  const worktree = join(root, name);
  mkdirSync(worktree, { recursive: true });
  const slot = slotOf({ tenant: 'local', gitCommonDir: join(worktree, '.git'), worktreeRoot: worktree });
  const slotDir = slotDirOf(home, slot.slot_dir_name);
  const token = newId();
  const hold = await claimBlocks({
    home,
    slot,
    host: hostKey(),
    stackDir: worktree,
    portsNeeded: 1,
    owner: owner ?? DEAD_OWNER,
    invocationToken: token,
    leaseViewOf: async () => 'no_answer',
    range: freeRange(1, SIZE),
    size: SIZE,
  });
  const blocks = [...hold.blocks];
  const config = parseStackConfig(`[stack]\ndriver = "process"\n${toml}`, 'botbuddy.toml');
  const plan = makePlan({ config, slot, slotDir, worktreeRoot: worktree, stackDir: worktree, blocks });
  const { digest } = writeRequestedPlan(plan, { PATH: process.env['PATH'] ?? '/usr/bin:/bin' });
  const args: RequestStackLeaseArgs = {
    agent: worktree,
    slot: slot.slot,
    project: slot.project,
    host_key: hostKey(),
    machine_id: machineId(),
    worktree_root: worktree,
    stack_path: '.',
    mode: 'detached',
    units: 1,
    priority: 0,
    blocks,
    claim_token: token,
    plan_digest: digest,
    ttl_ms: 60_000,
    idle_ttl_ms: 1_800_000,
    hard_ttl_ms: null,
    queue_timeout_ms: 60_000,
    labels: {},
    idempotency_key: newId(),
    ...over,
  };
  const { lease } = await client.call('request_stack_lease', args);
  leaseIds.push(lease.lease_id);
  return {
    id: lease.lease_id,
    args,
    worktree,
    paths: slotPaths(slotDir),
    marked: () => findMarked('BOTBUDDY_REAP_MARK', lease.lease_id),
    claims: () => claimsOfLease(home, lease.lease_id),
    release: (how: 'idle' | 'reap' = 'reap') =>
      client.call('release_stack_lease', {
        lease_id: lease.lease_id,
        claim_token: null,
        how,
        disposition: 'destroy',
        idle_ttl_ms: null,
        reason: 'test',
        idempotency_key: newId(),
      }),
  };
}

function supervisorsIn(home: string): ProcessIdentity[] {
  return [...new Bun.Glob('stacks/*/supervisor.json').scanSync(home)].flatMap((file) => {
    const state = readJson(join(home, file)) as { identity?: ProcessIdentity } | null;
    return state?.identity ?? [];
  });
}

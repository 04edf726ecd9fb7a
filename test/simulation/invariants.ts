/**
 * What must hold in the true world, one promise a function. Some are asked when something begins or ends, some after
 * every turn, some at the end, when all faults are over and time has passed. The core's own stand in the core.
 */
import type { Claim, PortBlock } from '../../src/protocol/claim.ts';
import { ownerOf } from '../../src/protocol/claim.ts';
import { blocksOverlap, judgeTakeover } from '../../src/stack/claim-rules.ts';
import type { Sim } from './sim.ts';
import type { Command, SimHost, Stack } from './world.ts';

const share = (a: readonly PortBlock[], b: readonly PortBlock[]): boolean =>
  a.some((block) => b.some((other) => blocksOverlap(block, other)));

// When a stack begins to run.

export function checkStart(sim: Sim, host: SimHost, stack: Stack): void {
  portsAreFreeOfCommands(sim, host, stack);
  capacityIsNeverExceeded(sim, host, stack);
  grantIsTheNewest(sim, stack);
  slotIsFree(sim, host, stack);
}

function slotIsFree(sim: Sim, host: SimHost, { slot, leaseId }: Stack): void {
  const before = host.stacks.get(slot);
  if (before?.services && before.leaseId !== leaseId) {
    sim.violate('no two holders', `slot ${slot} still runs ${before.leaseId} and starts ${leaseId}`);
  }
}

function portsAreFreeOfCommands(sim: Sim, host: SimHost, { leaseId, blocks }: Stack): void {
  for (const command of host.commands) {
    if (!command.life.alive || command.leaseId === leaseId || !share(blocks, command.blocks)) continue;
    sim.violate('no two holders', `the command of ${command.leaseId} lives on the ports that ${leaseId} starts on`);
  }
}

/** A host that shrank runs more than it has until its leases end: what was granted counts, or what it has now. */
function capacityIsNeverExceeded(sim: Sim, host: SimHost, { leaseId, units }: Stack): void {
  const others = [...host.stacks.values()].filter((other) => other.services && other.leaseId !== leaseId);
  const running = others.reduce((sum, other) => sum + other.units, units);
  const granted = [leaseId, ...others.map((other) => other.leaseId)].map(
    (id) => sim.watch.grantedCapacity.get(id) ?? 0,
  );
  const allowed = Math.max(sim.watch.shadow.hosts.get(host.id)?.capacity_units ?? 0, ...granted);
  if (running > allowed) {
    sim.violate('capacity is never exceeded', `${host.id} really runs ${running} of ${allowed} units with ${leaseId}`);
  }
}

function grantIsTheNewest(sim: Sim, { leaseId, token }: Stack): void {
  const known = sim.watch.model.lease(leaseId);
  if (known !== undefined && known.token > token) {
    sim.violate('a stack runs under the newest grant', `${leaseId} starts under ${token} of ${known.token}`);
  }
  if (known === undefined && !sim.profile.locksFail) {
    sim.violate('a stack runs under the newest grant', `${leaseId} starts, and no such lease lives`);
  }
}

// When a command begins or a run ends.

/** An answer on its way may be this old. */
const NEWS_MS_MAX = 15_000;

export function checkCommand(sim: Sim, host: SimHost, command: Command): void {
  const stack = host.stacks.get(command.slot);
  if (stack?.services && stack.leaseId !== command.leaseId) {
    sim.violate('no two holders', `the command of ${command.leaseId} starts on the stack of ${stack.leaseId}`);
  }
  const active = sim.watch.activeUnder.get(command.leaseId);
  if (active === undefined || active.token !== command.token || active.until < sim.timeline.now - NEWS_MS_MAX) {
    const since = active === undefined ? 'never' : `under ${active.token} until ${active.until}`;
    sim.violate(
      'only a held stack is used',
      `a command of ${command.leaseId} starts under ${command.token}; active ${since}`,
    );
  }
  for (const other of host.commands) {
    if (other === command || !other.life.alive || other.slot !== command.slot) continue;
    sim.violate('no two holders', `commands of grants ${other.token} and ${command.token} run on slot ${command.slot}`);
  }
}

export function checkRunEnd(
  sim: Sim,
  host: SimHost,
  run: { leaseId: string | null; proven: boolean; command: Command | null },
): void {
  if (run.command?.life.alive) sim.violate('a run ends its command', `the command of ${run.leaseId} outlives its run`);
  const remains = run.leaseId === null || !run.proven ? [] : host.remainsOf(run.leaseId);
  if (remains.length > 0 && !sim.profile.locksFail)
    sim.violate('clean means clean', `${run.leaseId} counts as proven, with ${remains.join(', ')}`);
}

export function checkClaimGoes(sim: Sim, host: SimHost, claim: Claim, leaseId: string): void {
  const remains = host.remainsOf(leaseId);
  if (remains.length === 0 || sim.profile.locksFail) return;
  sim.violate(
    'no free block while it is used',
    `${claim.port_base} of ${leaseId} is released, with ${remains.join(', ')}`,
  );
}

/** Judged by the rules before; judged here once more by what is true. */
/** Leases that were asked for after the coordinator answered are not its fault: it refuses their ports by itself. */
export function checkTakeover(sim: Sim, host: SimHost, claim: Claim, askedAt: number): void {
  const of = `${claim.port_base} of ${claim.lease_id ?? claim.invocation_token}`;
  const taken = (what: string) => sim.violate('takeover', `the claim ${of} is taken ${what}`);
  if (claim.idle === null && host.isAlive(ownerOf(claim))) taken('from a living owner');
  if (claim.child !== null && host.isAlive(claim.child)) taken('from a living command');
  if (host.machine.clock.wallMs() <= claim.retain_until) taken('before its time');
  for (const lease of sim.watch.shadow.leases.values()) {
    if ((sim.watch.bornAt.get(lease.lease_id) ?? 0) > askedAt) continue;
    if (lease.lease_id === claim.lease_id || lease.claim_token === claim.invocation_token) {
      taken(`from lease ${lease.lease_id}, which is ${lease.state}`);
    }
  }
}

const AWAY_MS = 120_000;

/**
 * Whoever lives and is awake beside the coordinator keeps what it holds, however often that one goes away. Lost calls,
 * and connections between machines that break without a sign, are another matter.
 */
export function checkSilence(sim: Sim, leaseId: string): void {
  const holder = sim.clients.holderOf(leaseId);
  if (holder === null || sim.profile.lossy) return;
  const { standsUntil, machine } = holder.life;
  if (machine !== sim.hosts[0]?.machine) return;
  const wasAway = standsUntil > sim.timeline.now - AWAY_MS;
  if (!wasAway) sim.violate('a blip is no outcome', `${holder.life.name} lost ${leaseId} in ${holder.standing}`);
}

const ENDS_WITHOUT_FAULTS: readonly number[] = [0, 1, 2, 5];

/**
 * Without faults no run loses its lease, and every cleanup is proven. One race is left: an idle claim is offered, and
 * released by the proof of its old lease before it is bound. The Helper turns that start down, and proves it.
 */
export function checkCalmEnd(sim: Sim, run: { name: string; leaseId: string | null; exitCode: number }): void {
  if (sim.profile.name !== 'calm' || ENDS_WITHOUT_FAULTS.includes(run.exitCode)) return;
  if (sim.watch.reapErrors.get(run.leaseId ?? '') === 'STACK_CONTEXT_BIND_FAILED') return;
  sim.violate('without faults nothing goes wrong', `${run.name} ends with ${run.exitCode}`);
}

// After every turn.

export type Promised = (sim: Sim) => string[];

const runningStacksAreDisjoint: Promised = ({ hosts }) => {
  const violations: string[] = [];
  for (const host of hosts) {
    const running = [...host.stacks.values()].filter((stack) => stack.services);
    for (const [index, a] of running.entries()) {
      for (const b of running.slice(index + 1)) {
        if (a.leaseId !== b.leaseId && share(a.blocks, b.blocks))
          violations.push(`${a.leaseId} and ${b.leaseId} run on the same ports`);
      }
    }
  }
  return violations;
};

/** Ports in use are claimed, unless somebody took the file away by hand. */
const runningStacksAreClaimed: Promised = ({ hosts, watch }) => {
  const violations: string[] = [];
  for (const host of hosts) {
    for (const stack of host.stacks.values()) {
      const lease = watch.shadow.leases.get(stack.leaseId);
      if (!stack.services || lease === undefined) continue;
      for (const block of stack.blocks) {
        const claim = host.claims.get(block.port_base);
        const known = claim === 'unreadable' || host.lostClaims.some((lost) => blocksOverlap(lost, block));
        if (known) continue;
        const held =
          claim !== undefined && (claim.lease_id === stack.leaseId || claim.invocation_token === lease.claim_token);
        if (!held)
          violations.push(
            `${stack.leaseId} (${lease.state}) runs on ${block.port_base}, claimed by ${claim?.lease_id ?? 'nobody'}`,
          );
      }
    }
  }
  return violations;
};

export const ALWAYS: Readonly<Record<string, Promised>> = {
  'no two holders': runningStacksAreDisjoint,
  'ports in use are claimed': runningStacksAreClaimed,
};

// When everything is over.

const noLeaseStays: Promised = ({ watch }) =>
  [...watch.shadow.leases.values()].map((lease) => `lease ${lease.lease_id} is still ${lease.state}`);

const noJobOrWaitStays: Promised = ({ watch }) => [
  ...[...watch.shadow.jobs.values()].map((job) => `job ${job.job_id} is still ${job.state}`),
  ...[...watch.shadow.waits.values()].map((wait) => `wait ${wait.wait_session_id} is still open`),
];

const nothingRuns: Promised = ({ hosts }) =>
  hosts.flatMap((host) => [
    ...[...host.stacks.values()]
      .filter((stack) => stack.services || stack.supervisor.alive)
      .map((stack) => `the stack of ${stack.leaseId} still runs`),
    ...[...host.commands]
      .filter(({ life }) => life.alive)
      .map((command) => `the command of ${command.leaseId} still runs`),
  ]);

/**
 * A later command took the directory's marker, or adopted the lease and then lost its claim: the proof names another
 * invocation than the file does, and only a takeover frees that one.
 */
const isOvertaken = (sim: Sim, host: SimHost, claim: Claim): boolean => {
  const marker = host.markers.get(claim.stack_dir);
  const remarked = marker?.released_at === null && marker.invocation_token !== claim.invocation_token;
  return remarked || (claim.lease_id !== null && sim.watch.claimTokens.get(claim.lease_id) !== claim.invocation_token);
};

/** A claim of a lease that ended is gone; what is left can be taken over once its time is up. */
const noClaimStays: Promised = (sim) =>
  sim.hosts.flatMap((host) =>
    host
      .claimsWhere((claim) => {
        const owner = host.isAlive(ownerOf(claim)) ? 'alive' : 'dead';
        const lease = { live: false, lease_id: claim.lease_id, state: null };
        const verdict = judgeTakeover({ claim, owner, child: 'dead', now: claim.retain_until + 1, lease });
        return verdict !== 'take' || (claim.lease_id !== null && !isOvertaken(sim, host, claim));
      })
      .map((claim) => `claim ${claim.port_base} of ${claim.lease_id ?? claim.invocation_token} stays`),
  );

const everyClientHasEnded: Promised = ({ clients }) =>
  clients.all.filter(({ life }) => life.alive).map((client) => `${client.life.name} never ended: ${client.standing}`);

const noStatementStays: Promised = (sim) =>
  sim.hosts.flatMap((host) =>
    [...host.statements.values()]
      .filter(({ lease_id, lease }) => {
        const claims = host.claimsWhere(
          (claim) => claim.lease_id === lease_id || claim.invocation_token === lease.claim_token,
        );
        return !claims.some((claim) => isOvertaken(sim, host, claim));
      })
      .map((kept) => `a statement about ${kept.lease_id} stays, ${kept.state}`),
  );

export const AT_THE_END: Readonly<Record<string, Promised>> = {
  'no lease stays': noLeaseStays,
  'no job or wait stays': noJobOrWaitStays,
  'nothing runs': nothingRuns,
  'no claim stays': noClaimStays,
  'every client has ended': everyClientHasEnded,
  'no statement stays': noStatementStays,
};

export function check(sim: Sim, promises: Readonly<Record<string, Promised>>): void {
  for (const [promise, holds] of Object.entries(promises)) {
    for (const violation of holds(sim)) sim.violate(promise, violation);
  }
}

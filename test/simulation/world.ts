/**
 * The true world of a simulation: hosts with registries, records, running stacks and commands. It remembers who really
 * runs what, whatever coordinator, Helpers and clients believe, and tells when two hold one thing.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';
import type { RecordFacts } from '../../src/helper/job-progress.ts';
import type { Claim, Marker, ReleaseProof } from '../../src/protocol/claim.ts';
import type { PortBlock } from '../../src/protocol/records.ts';
import type { LeaseForHelper, SignedStatement } from '../../src/protocol/tool-calls.ts';
import { blocksOverlap } from '../../src/stack/claim-rules.ts';
import { Life, Machine, type Timeline } from './timeline.ts';

/** A stack as it really is, under its supervisor. */
export interface Stack {
  readonly slot: string;
  readonly leaseId: string;
  readonly planDigest: string;
  readonly units: number;
  readonly blocks: readonly PortBlock[];
  /** Of the grant that made it. */
  readonly token: number;
  /** The highest that its supervisor has seen. */
  highestToken: number;
  phase: 'starting' | 'running' | 'failed';
  supervisor: Life;
  /** Groups that live, supervised or not. */
  services: boolean;
  data: boolean;
  /** Until then something of it survives every kill. */
  sticksUntil: number;
  /** On the machine's monotonic clock. */
  limitAt: number;
}

/** The command of a `stack run`, in a group of its own. */
export interface Command {
  readonly life: Life;
  readonly slot: string;
  readonly leaseId: string;
  readonly token: number;
  readonly blocks: readonly PortBlock[];
  readonly ignoresTerm: boolean;
}

export interface CreationRecord extends RecordFacts {
  blocks: readonly PortBlock[];
  created_at: number;
}

/** What a Helper keeps on the disk until the coordinator took it. */
export interface KeptLook {
  name: string;
  state: 'pending' | 'accepted';
  lease_id: string;
  fencing_token: number;
  disposition: 'destroy' | 'stop';
  kind: 'reap' | 'rollback' | 'pre_driver';
  verdict: 'absent' | 'present' | 'unknown';
  proof: ReleaseProof | null;
  lease: LeaseForHelper;
  signed: SignedStatement;
}

const PKCS8_ED25519 = '302e020100300506032b657004220420';

export class SimHost {
  readonly id: string;
  readonly key: string;
  readonly machine: Machine;
  capacity: number;
  readonly claims = new Map<number, Claim | 'unreadable'>();
  readonly markers = new Map<string, Marker>();
  /** Plans that were written for a slot, by digest. */
  readonly plans = new Map<string, Set<string>>();
  readonly records = new Map<string, CreationRecord>();
  readonly stacks = new Map<string, Stack>();
  readonly commands = new Set<Command>();
  readonly statements = new Map<string, KeptLook>();
  /** Every process that ever was, by pid: how anybody tells the dead from the living. */
  readonly lives = new Map<number, Life>();
  /** Blocks whose file somebody removed by hand. */
  readonly lostClaims: PortBlock[] = [];
  readonly #key: KeyObject;

  constructor(timeline: Timeline, index: number, capacity: number) {
    this.id = `host-${index}`;
    this.key = `machine-${index}`;
    this.machine = new Machine(timeline, this.key);
    this.capacity = capacity;
    const seed = index.toString(16).padStart(64, '0');
    this.#key = createPrivateKey({ key: Buffer.from(PKCS8_ED25519 + seed, 'hex'), format: 'der', type: 'pkcs8' });
  }

  get publicKey(): string {
    return createPublicKey(this.#key).export({ format: 'der', type: 'spki' }).toString('base64');
  }

  sign(statement: string): SignedStatement {
    const signature = sign(null, Buffer.from(statement, 'utf8'), this.#key).toString('base64');
    return { statement, key_id: 'key-1', signature };
  }

  spawn(timeline: Timeline, name: string): Life {
    const life = new Life(timeline, this.machine, name);
    this.lives.set(life.pid, life);
    return life;
  }

  isAlive(identity: { pid: number; started_at: string; boot_id: string }): boolean {
    const life = this.lives.get(identity.pid);
    return life?.alive === true && life.startedAt === identity.started_at && identity.boot_id === this.machine.bootId;
  }

  claimsWhere(test: (claim: Claim) => boolean): Claim[] {
    const found: Claim[] = [];
    for (const claim of this.claims.values()) if (claim !== 'unreadable' && test(claim)) found.push(claim);
    return found;
  }

  commandsOf(leaseId: string): Command[] {
    return [...this.commands].filter((command) => command.leaseId === leaseId && command.life.alive);
  }

  /** What really runs for a lease on this host, in words; empty when there is nothing. */
  remainsOf(leaseId: string): string[] {
    const remains: string[] = [];
    for (const stack of this.stacks.values()) {
      if (stack.leaseId !== leaseId) continue;
      if (stack.supervisor.alive) remains.push('supervisor');
      if (stack.services) remains.push('services', 'ports');
    }
    for (const command of this.commandsOf(leaseId)) remains.push(`command ${command.life.pid}`);
    return remains;
  }

  portsInUse(block: PortBlock): boolean {
    return [...this.stacks.values()].some(
      (stack) => (stack.services || stack.supervisor.alive) && stack.blocks.some((held) => blocksOverlap(held, block)),
    );
  }
}

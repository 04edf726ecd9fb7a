/**
 * The claims of this host as far as they are the Helper's: kept while their lease lives, released for a dead owner
 * once the coordinator took the proof. A statement leaves the disk only after its claim is settled.
 */
import { resolve } from 'node:path';
import type { Clock } from '../platform/clock.ts';
import { logger } from '../platform/logging.ts';
import type { Claim, ReleaseProof } from '../protocol/claim.ts';
import { ownerOf } from '../protocol/claim.ts';
import type { LeaseView } from '../protocol/records.ts';
import type { LeaseForHelper } from '../protocol/tool-calls.ts';
import { renewClaims } from '../stack/claim-binding.ts';
import { readInventory } from '../stack/claim-files.ts';
import { lifeOf } from '../stack/claim-registry.ts';
import { releaseClaims } from '../stack/claim-release.ts';
import { slotDirNameOf } from '../stack/slot.ts';
import type { KeptStatement, StatementStore } from './attest.ts';
import { failureOf } from './failure-words.ts';
import { judgeStatementFile, judgeStrayClaim, type StatementLease } from './host-rules.ts';
import type { Calls, Reported } from './job-ports.ts';

const log = logger('helper.claims');
const RENEW_CLAIMS_MS = 60_000;
const LOCK_WAIT_MS = 1_000;

export interface UpkeepOptions {
  readonly home: string;
  readonly hostKey: string;
  readonly calls: Calls;
  readonly statements: StatementStore;
  readonly clock: Clock;
  /** The lease is proven gone: what was recorded of it on this host may go. */
  readonly forget: (lease: LeaseForHelper) => void;
}

type ClaimedLease = Pick<
  LeaseForHelper,
  'lease_id' | 'claim_token' | 'project' | 'slot' | 'worktree_root' | 'stack_path'
>;

export class ClaimUpkeep {
  readonly #options: UpkeepOptions;
  #renewedAt: number | null = null;
  /** Leases of which the coordinator has no record: nothing will ever prove them. */
  readonly #unknown = new Set<string>();
  #leases: readonly LeaseForHelper[] = [];
  #turn: Promise<void> = Promise.resolve();

  constructor(options: UpkeepOptions) {
    this.#options = options;
  }

  /** A report was taken: what it proved is settled at once. */
  async reported({ view, statement }: Reported): Promise<void> {
    if (statement === null) return;
    const { statements } = this.#options;
    const proof = proofIn(view);
    if (proof === null) statements.archive(statement);
    else await this.#inTurn(() => this.#settle(this.#accept(statement, proof)));
  }

  /** For the leases that a beacon's answer lists. */
  async follow(leases: readonly LeaseForHelper[]): Promise<void> {
    this.#leases = leases;
    for (const statement of this.#options.statements.all()) await this.#inTurn(() => this.#settle(statement));
    await this.#inTurn(() => this.#releaseStrays());
    const now = this.#options.clock.monotonicMs();
    if (this.#renewedAt !== null && now - this.#renewedAt < RENEW_CLAIMS_MS) return;
    this.#renewedAt = now;
    for (const { lease_id, idle_ttl_ms } of leases) {
      await renewClaims({ home: this.#options.home, leaseId: lease_id, idleTtlMs: idle_ttl_ms });
    }
  }

  #accept(statement: KeptStatement, proof: ReleaseProof | null): KeptStatement {
    if (proof !== null) this.#options.forget(statement.lease);
    return this.#options.statements.accept(statement, proof);
  }

  /** Two rounds never settle at once: each reads the files afresh when its turn comes. */
  #inTurn(action: () => Promise<void>): Promise<void> {
    const turn = this.#turn.then(action).catch((error: unknown) => log.warn('a statement is not settled', { error }));
    this.#turn = turn;
    return turn;
  }

  async #settle(statement: KeptStatement): Promise<void> {
    const { statements } = this.#options;
    const now = statements.all().find(({ name }) => name === statement.name);
    if (now === undefined) return;
    const lease = now.state === 'pending' ? await this.#leaseOf(now) : { view: null, judged: 'proven_gone' as const };
    const claims = this.#claimsOf(now);
    const step = judgeStatementFile(
      { state: now.state, frees_claim: now.proof !== null },
      lease.judged,
      ownerIn(claims),
    );
    switch (step) {
      case 'keep':
        return;
      case 'accept':
        return this.#settle(this.#accept(now, lease.view === null ? null : proofIn(lease.view)));
      case 'archive':
        statements.archive(now);
        return;
      case 'release_claim':
        if (now.proof !== null && (await this.#release(now.lease, now.proof, claims))) statements.archive(now);
    }
  }

  async #leaseOf({ lease }: KeptStatement): Promise<{ view: LeaseView | null; judged: StatementLease }> {
    if (this.#leases.some(({ lease_id }) => lease_id === lease.lease_id)) return { view: null, judged: 'live' };
    try {
      const { lease: view } = await this.#options.calls.call('get_stack_lease', { lease_id: lease.lease_id });
      if (view.state !== 'reaped') return { view, judged: 'live' };
      return { view, judged: proofIn(view) === null ? 'gone' : 'proven_gone' };
    } catch (error) {
      return { view: null, judged: failureOf(error).error_class === 'LEASE_NOT_FOUND' ? 'gone' : 'no_answer' };
    }
  }

  /** Claims of dead owners whose lease ended without a look of this Helper: in the queue, say. */
  async #releaseStrays(): Promise<void> {
    const { home, calls } = this.#options;
    const byLease = Map.groupBy(readInventory(home).claims, ({ lease_id }) => lease_id);
    for (const [leaseId, claims] of byLease) {
      if (leaseId === null || this.#unknown.has(leaseId)) continue;
      const listed = this.#leases.some(({ lease_id }) => lease_id === leaseId);
      if (judgeStrayClaim(ownerIn(claims), listed) === 'leave') continue;
      try {
        const { lease } = await calls.call('get_stack_lease', { lease_id: leaseId });
        const proof = proofIn(lease);
        if (proof !== null) await this.#release(lease, proof, claims);
      } catch (error) {
        if (failureOf(error).error_class === 'LEASE_NOT_FOUND') this.#unknown.add(leaseId);
        else throw error;
      }
    }
  }

  #claimsOf({ lease }: KeptStatement): Claim[] {
    return readInventory(this.#options.home).claims.filter(
      (claim) =>
        claim.lease_id === lease.lease_id || (claim.lease_id === null && claim.invocation_token === lease.claim_token),
    );
  }

  async #release(lease: ClaimedLease, proof: ReleaseProof, claims: readonly Claim[]): Promise<boolean> {
    const { home, hostKey } = this.#options;
    const answer = await releaseClaims({
      home,
      slotDirName: slotDirNameOf(lease.slot),
      lease: {
        lease_id: lease.lease_id,
        state: proof.state,
        claim_token: lease.claim_token,
        project: lease.project,
        slot: lease.slot,
        // The machine may have another name by now: the registry is this host's in any case.
        host: claims[0]?.host ?? hostKey,
        worktree_root: resolve(lease.worktree_root),
        stack_path: lease.stack_path,
      },
      proof,
      otherLeaseOnSlot: this.#leases.some((other) => other.slot === lease.slot && other.lease_id !== lease.lease_id),
      caller: { kind: 'helper' },
      lockWaitMs: LOCK_WAIT_MS,
    });
    log.info('claim of a dead owner', { lease_id: lease.lease_id, released: answer.released, reason: answer.reason });
    return answer.released;
  }
}

function ownerIn(claims: readonly Claim[]): 'alive' | 'dead' | 'no_claim' {
  if (claims.length === 0) return 'no_claim';
  return claims.some((claim) => claim.idle === null && lifeOf(ownerOf(claim)) === 'alive') ? 'alive' : 'dead';
}

/** The lease as its own proof of cleanup; null while it is none. */
export function proofIn(view: LeaseView): ReleaseProof | null {
  if (view.state !== 'reaped' || view.cleanup_verified !== true || view.cleanup_proof === null) return null;
  return {
    lease_id: view.lease_id,
    state: view.state,
    cleanup_verified: view.cleanup_verified,
    cleanup_proof: view.cleanup_proof,
    cleanup_receipt_id: view.cleanup_receipt_id,
  };
}

/** A home, a stack directory and the usual request for the claim tests. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../src/platform/clock.ts';
import { portIsFree } from '../../src/platform/port-probe.ts';
import { ownIdentity, type ProcessIdentity } from '../../src/platform/processes.ts';
import type { LeaseFacts, ReleaseProof } from '../../src/protocol/claim.ts';
import type { ClaimRequest } from '../../src/stack/claim-registry.ts';
import type { ReleasedLease } from '../../src/stack/claim-release.ts';
import { slotOf } from '../../src/stack/slot.ts';
import { makeTempDir } from '../support/temp-home.ts';

export const SIZE = 4;
export const ENDED: LeaseFacts = { live: false, lease_id: null, state: null };
/** Alive never: no process of this boot starts at that time. */
export const DEAD_OWNER: ProcessIdentity = { ...ownIdentity(), started_at: '1' };

export interface ClaimSetting extends Disposable {
  readonly home: string;
  readonly root: string;
  readonly range: { first: number; last: number };
  request(change?: Partial<ClaimRequest>): ClaimRequest;
}

export function clockAt(ms: number): Clock {
  return { wallMs: () => ms, monotonicMs: () => ms, uptimeMs: () => ms };
}

/** `blocks` neighbouring blocks of free ports, at a place that no other test process uses at this moment. */
export function freeRange(blocks: number, size = SIZE): { first: number; last: number } {
  for (let attempt = 0; attempt < 200; attempt += 1) {
    const first = 10_000 + Math.floor(Math.random() * 9_000);
    const ports = Array.from({ length: blocks * size }, (_, index) => first + index);
    if (ports.every(portIsFree)) return { first, last: first + (blocks - 1) * size };
  }
  throw new Error('no free range of ports');
}

export function claimSetting(blocks = 4): ClaimSetting {
  const temp = makeTempDir();
  const home = join(temp.path, 'home');
  const root = join(temp.path, 'work tree "ü"\n🙂');
  mkdirSync(root, { recursive: true });
  const range = freeRange(blocks);
  return {
    home,
    root,
    range,
    request: (change = {}) => ({
      home,
      slot: slotOf({ tenant: 'local', gitCommonDir: join(root, '.git'), worktreeRoot: root }),
      host: 'host',
      stackDir: root,
      portsNeeded: 1,
      owner: ownIdentity(),
      invocationToken: 'token',
      leaseViewOf: async () => ENDED,
      range,
      size: SIZE,
      preferred: range.first,
      ...change,
    }),
    [Symbol.dispose]: () => temp[Symbol.dispose](),
  };
}

export function leaseOf(setting: ClaimSetting, change: Partial<ReleasedLease> = {}): ReleasedLease {
  const { slot } = setting.request();
  return {
    lease_id: 'L',
    state: 'reaped',
    claim_token: 'token',
    project: slot.project,
    slot: slot.slot,
    host: 'host',
    worktree_root: setting.root,
    stack_path: '.',
    ...change,
  };
}

export const proofOf = (leaseId: string): ReleaseProof => ({
  lease_id: leaseId,
  state: 'reaped',
  cleanup_verified: true,
  cleanup_proof: 'signed_reap',
  cleanup_receipt_id: 'R',
});

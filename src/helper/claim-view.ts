/** The claims of a lease on this host, as one word for the rules. The worst block decides. */
import { resolve } from 'node:path';
import type { Claim } from '../protocol/claim.ts';
import type { LeaseForHelper } from '../protocol/tool-calls.ts';
import { readClaim } from '../stack/claim-files.ts';
import { type Asker, judgeBind } from '../stack/claim-rules.ts';
import type { ClaimView } from './job-progress.ts';

const WORST_FIRST: readonly ClaimView[] = ['unreadable', 'foreign', 'absent', 'unbound', 'bound'];

export function claimViewOf(home: string, hostKey: string, lease: LeaseForHelper): ClaimView {
  const asker = askerOf(home, hostKey, lease);
  const views = lease.blocks.map((block) => viewOf(readClaim(home, block.port_base), block.size, asker, lease));
  return WORST_FIRST.find((view) => views.includes(view)) ?? 'bound';
}

/** Whoever asks for the lease. The machine may have another name by now: the registry is this host's in any case. */
export function askerOf(home: string, hostKey: string, lease: LeaseForHelper): Asker {
  const [block] = lease.blocks;
  const claim = block === undefined ? 'absent' : readClaim(home, block.port_base);
  return {
    invocation_token: lease.claim_token,
    slot: lease.slot,
    project_id: lease.project,
    host: typeof claim === 'string' ? hostKey : claim.host,
    stack_dir: resolve(lease.worktree_root, lease.stack_path),
  };
}

function viewOf(
  claim: Claim | 'absent' | 'unreadable',
  size: number,
  asker: Asker,
  { lease_id }: LeaseForHelper,
): ClaimView {
  if (typeof claim === 'string') return claim;
  const verdict = judgeBind({ claim, asker, lease_id, seen_token: null, binder: 'helper' });
  if (verdict.bind === 'refused' || claim.size !== size) return 'foreign';
  const bound = claim.lease_id === lease_id && claim.invocation_token === asker.invocation_token;
  return bound && claim.idle === null ? 'bound' : 'unbound';
}

/**
 * What the Helper saw, as signed bytes that stay on the disk until the coordinator took them.
 * The signed text is stored and shipped as it is and never serialised again. A file here is the only memory of a look:
 * it goes to `archive/` when it was accepted or has become void, and only there are old ones removed.
 */
import { join } from 'node:path';
import {
  ensurePrivateDir,
  listDir,
  readTextIfPresent,
  removeDurable,
  writeFileDurable,
} from '../platform/durable-files.ts';
import { logger } from '../platform/logging.ts';
import { homePaths } from '../platform/paths.ts';
import { newId, sha256Hex } from '../platform/random.ts';
import type { ReleaseProof } from '../protocol/claim.ts';
import type { Disposition, StatementKind } from '../protocol/records.ts';
import type { LeaseForHelper, SignedStatement, StatementBody } from '../protocol/tool-calls.ts';
import { VERSION } from '../protocol/version.ts';
import type { HostIdentity } from './host-identity.ts';
import type { StatementState } from './host-rules.ts';
import { type LookVerdict, verdictOf } from './job-progress.ts';

const ARCHIVED_MAX = 1_000;
const log = logger('helper.attest');

export type LookedForEntry = StatementBody['looked_for'][number];

export interface KeptStatement {
  schema_version: 1;
  /** Follows from the signed bytes. The coordinator's receipt has an id of its own. */
  name: string;
  state: StatementState;
  lease: LeaseForHelper;
  kind: StatementKind;
  disposition: Disposition;
  verdict: LookVerdict;
  /** Set when its acceptance ended the lease: what a claim is released for. */
  proof: ReleaseProof | null;
  signed: SignedStatement;
}

export interface Sighting {
  kind: StatementKind;
  lease: LeaseForHelper;
  disposition: Disposition;
  lookedFor: LookedForEntry[];
  lookedAtMs: number;
}

/** Signs what was seen; nothing is written yet. */
export function attest(identity: HostIdentity, sighting: Sighting): KeptStatement {
  const { lease } = sighting;
  const body: StatementBody = {
    schema_version: 1,
    kind: sighting.kind,
    lease_id: lease.lease_id,
    slot: lease.slot,
    tenant: lease.tenant,
    host_id: identity.host_id,
    fencing_token: lease.fencing_token ?? 0,
    plan_digest: lease.plan_digest,
    disposition: sighting.disposition,
    looked_for: sighting.lookedFor,
    looked_at: new Date(sighting.lookedAtMs).toISOString(),
    helper_version: VERSION,
    nonce: newId(),
  };
  const statement = JSON.stringify(body);
  const { key } = identity;
  return {
    schema_version: 1,
    name: nameOf(statement),
    state: 'pending',
    lease,
    kind: sighting.kind,
    disposition: sighting.disposition,
    verdict: verdictOf(sighting.lookedFor),
    proof: null,
    signed: { statement, key_id: key.key_id, signature: key.sign(statement) },
  };
}

export class StatementStore {
  readonly #directory: string;
  readonly #archive: string;

  constructor(home: string) {
    this.#directory = homePaths(home).statements;
    this.#archive = join(this.#directory, 'archive');
  }

  keep(statement: KeptStatement): void {
    ensurePrivateDir(this.#directory);
    writeFileDurable(this.#fileOf(statement), `${JSON.stringify(statement)}\n`);
  }

  all(): KeptStatement[] {
    return listDir(this.#directory).flatMap((name) => {
      if (!name.endsWith('.json') || name.startsWith('.')) return [];
      const statement = parse(readTextIfPresent(join(this.#directory, name)));
      if (statement === null) log.warn('a file among the statements is none', { name });
      return statement ?? [];
    });
  }

  accept(statement: KeptStatement, proof: ReleaseProof | null): KeptStatement {
    const accepted: KeptStatement = { ...statement, state: 'accepted', proof };
    this.keep(accepted);
    return accepted;
  }

  archive(statement: KeptStatement): void {
    ensurePrivateDir(this.#archive);
    const name = `${lookedAt(statement)}-${statement.name}.json`;
    writeFileDurable(join(this.#archive, name), `${JSON.stringify(statement)}\n`);
    removeDurable(this.#fileOf(statement));
    for (const old of listDir(this.#archive).slice(0, -ARCHIVED_MAX)) removeDurable(join(this.#archive, old));
  }

  /** A proof of exactly this grant and disposition that the coordinator has not taken yet. */
  usableFor(lease: LeaseForHelper, kinds: readonly StatementKind[]): KeptStatement | null {
    return (
      this.all().find(
        (kept) =>
          kept.state === 'pending' &&
          kept.verdict === 'absent' &&
          kinds.includes(kept.kind) &&
          kept.lease.lease_id === lease.lease_id &&
          kept.lease.fencing_token === lease.fencing_token &&
          kept.lease.plan_digest === lease.plan_digest &&
          kept.disposition === lease.reap_disposition,
      ) ?? null
    );
  }

  /** Before anything of the lease is started again: what was seen gone is no longer so. */
  voidPending(leaseId: string): void {
    for (const kept of this.all()) {
      if (kept.lease.lease_id === leaseId && kept.state === 'pending') this.archive(kept);
    }
  }

  #fileOf({ name }: KeptStatement): string {
    return join(this.#directory, `${name}.json`);
  }
}

function nameOf(statement: string): string {
  return sha256Hex(statement).slice(0, 32);
}

function lookedAt({ signed }: KeptStatement): string {
  const body = JSON.parse(signed.statement) as StatementBody;
  return body.looked_at.replaceAll(/[^0-9T]/g, '');
}

function parse(text: string | null): KeptStatement | null {
  try {
    const value = JSON.parse(text ?? '') as KeptStatement;
    const signed = typeof value.signed.statement === 'string' && typeof value.signed.signature === 'string';
    if (!signed || nameOf(value.signed.statement) !== value.name) return null;
    return value;
  } catch {
    return null;
  }
}

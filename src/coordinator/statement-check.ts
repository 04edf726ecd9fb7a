/**
 * From a Helper's signed statement to facts that the machines may judge: the signature is checked over the very bytes
 * that were sent, against the keys that this host registered. A statement that cannot be verified still becomes facts,
 * with `signature_valid: false`: it proves nothing, and the refusal is the machines' to make.
 */
import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import type { StatementFacts } from '../core/inputs.ts';
import type { Host } from '../core/model.ts';
import type { StatementRow } from '../log/event-log.ts';
import { Failure } from '../platform/failure.ts';
import { newId } from '../platform/random.ts';
import { statementBodySchema } from '../protocol/statement-body.ts';
import type { SignedStatement, StatementBody } from '../protocol/tool-calls.ts';

export interface CheckedStatement {
  facts: StatementFacts;
  row: StatementRow;
}

export function checkStatement(signed: SignedStatement, host: Host | undefined): CheckedStatement {
  const body = parseBody(signed.statement);
  const receiptId = newId();
  const { schema_version, looked_at, helper_version, nonce, ...told } = body;
  const facts = { receipt_id: receiptId, signature_valid: isSignedBy(signed, host), ...told };
  const { statement, key_id, signature } = signed;
  const kept = { statement, key_id, signature, host_id: host?.host_id ?? body.host_id, lease_id: body.lease_id };
  return { facts, row: { kind: 'statement', id: receiptId, body: kept } };
}

function parseBody(text: string): StatementBody {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw new Failure('invalid_arguments', 'the statement is not JSON', { cause, fields: { key: 'statement' } });
  }
  const result = statementBodySchema.safeParse(parsed);
  if (result.success) return result.data;
  const path = result.error.issues[0]?.path.join('.') ?? '';
  throw new Failure('invalid_arguments', `the statement has no valid '${path}'`, {
    fields: { key: 'statement', path },
  });
}

/** True when the key that the statement names is one of the host's and its signature holds. */
export function isSignedBy({ statement, key_id, signature }: SignedStatement, host: Host | undefined): boolean {
  const encoded = host !== undefined && Object.hasOwn(host.keys, key_id) ? host.keys[key_id] : undefined;
  const key = encoded === undefined ? null : ed25519Key(encoded);
  if (key === null) return false;
  return verify(null, Buffer.from(statement, 'utf8'), key, Buffer.from(signature, 'base64'));
}

/** The key of a base64 SPKI text; null when it is none of Ed25519. */
export function ed25519Key(spkiBase64: string): KeyObject | null {
  try {
    const key = createPublicKey({ key: Buffer.from(spkiBase64, 'base64'), format: 'der', type: 'spki' });
    return key.asymmetricKeyType === 'ed25519' ? key : null;
  } catch {
    return null;
  }
}

/**
 * Who this Helper is: the host (machine and home), its key pair, and this one life of it.
 * The private key never leaves its file and this process.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import { createExclusive, readTextIfPresent } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { hostKey, machineId } from '../platform/machine.ts';
import { homePaths } from '../platform/paths.ts';
import { newId, sha256Hex } from '../platform/random.ts';
import { hostIdOf } from '../protocol/host-id.ts';

export interface HelperKey {
  readonly key_id: string;
  /** Ed25519, SPKI, base64. */
  readonly public_key: string;
  /** Signature of the text's UTF-8 bytes, base64. */
  sign(text: string): string;
}

export interface HostIdentity {
  readonly host_id: string;
  readonly host_key: string;
  readonly machine_id: string | null;
  /** New with every start: the coordinator serves the last one only. */
  readonly incarnation: string;
  readonly key: HelperKey;
}

export function openHostIdentity(home: string): HostIdentity {
  const host_key = hostKey();
  const machine_id = machineId();
  return {
    host_id: hostIdOf({ machine_id, host_key, home }, sha256Hex),
    host_key,
    machine_id,
    incarnation: newId(),
    key: openHelperKey(homePaths(home).helperKey),
  };
}

/** The key of this home, made at the first start. A file that is no key is never replaced: old proofs hang on it. */
export function openHelperKey(path: string): HelperKey {
  const text = readTextIfPresent(path) ?? makeKeyFile(path);
  const privateText = privateKeyIn(text);
  if (privateText === null) {
    throw new Failure('state_unwritable', `${path} holds no key of a Helper: move it away to get a new one`, {
      fields: { path, errno: 'EINVAL' },
    });
  }
  const privateKey = createPrivateKey({ key: Buffer.from(privateText, 'base64'), format: 'der', type: 'pkcs8' });
  const public_key = createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).toString('base64');
  return {
    key_id: keyIdOf(public_key),
    public_key,
    sign: (message) => sign(null, Buffer.from(message, 'utf8'), privateKey).toString('base64'),
  };
}

export function keyIdOf(publicKey: string): string {
  return `key-${sha256Hex(Buffer.from(publicKey, 'base64')).slice(0, 32)}`;
}

function makeKeyFile(path: string): string {
  const { privateKey } = generateKeyPairSync('ed25519');
  const private_key = privateKey.export({ format: 'der', type: 'pkcs8' }).toString('base64');
  const text = `${JSON.stringify({ schema_version: 1, algorithm: 'Ed25519', private_key })}\n`;
  return createExclusive(path, text) ? text : (readTextIfPresent(path) ?? text);
}

function privateKeyIn(text: string): string | null {
  try {
    const file: unknown = JSON.parse(text);
    if (typeof file !== 'object' || file === null || !('private_key' in file)) return null;
    createPrivateKey({ key: Buffer.from(String(file.private_key), 'base64'), format: 'der', type: 'pkcs8' });
    return String(file.private_key);
  } catch {
    return null;
  }
}

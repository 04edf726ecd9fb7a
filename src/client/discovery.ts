/** Where the embedded coordinator of a home listens, as it left word: a hint that is believed only while its process lives. */
import { readTextIfPresent } from '../platform/durable-files.ts';
import { homePaths } from '../platform/paths.ts';
import { isAlive } from '../platform/processes.ts';
import type { DiscoveryFile } from '../protocol/discovery.ts';

/** The coordinator that the home's discovery file names, when that very process still runs. */
export function findCoordinator(home: string): DiscoveryFile | null {
  const text = readTextIfPresent(homePaths(home).discovery);
  const file = text === null ? null : parseDiscovery(text);
  return file !== null && isAlive(file.identity) ? file : null;
}

export function parseDiscovery(text: string): DiscoveryFile | null {
  const file = parsedObject(text);
  const identity = file?.['identity'];
  const settings = file?.['settings'];
  if (file === null || !isObject(identity) || !isObject(settings)) return null;
  const texts = [file['url'], file['socket'], file['version'], file['started_at'], identity['started_at']];
  const isKnown = file['schema_version'] === 1 && texts.every((value) => typeof value === 'string');
  if (!isKnown || typeof identity['pid'] !== 'number' || typeof identity['boot_id'] !== 'string') return null;
  return file as unknown as DiscoveryFile;
}

function parsedObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

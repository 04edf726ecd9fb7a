/** The marker in a stack directory, `.botbuddy/stack.json`: which lease and claim the directory is bound to. */
import { join } from 'node:path';
import {
  ensurePrivateDir,
  pathExists,
  readTextIfPresent,
  realPath,
  writeFileDurable,
} from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { type Marker, markerSchema } from '../protocol/claim.ts';
import { jsonOf } from './claim-files.ts';

export const MARKER_DIR = '.botbuddy';

export function markerFile(stackDir: string): string {
  return join(stackDir, MARKER_DIR, 'stack.json');
}

/** A directory that is a link leads elsewhere, so its marker is no statement about this one. */
export function readMarker(stackDir: string): Marker | 'absent' | 'unreadable' {
  const directory = join(stackDir, MARKER_DIR);
  try {
    if (!pathExists(directory)) return 'absent';
    if (realPath(directory) !== join(realPath(stackDir), MARKER_DIR)) return 'unreadable';
    const text = readTextIfPresent(markerFile(stackDir));
    if (text === null) return 'absent';
    const parsed = markerSchema.safeParse(jsonOf(text));
    return parsed.success ? parsed.data : 'unreadable';
  } catch (error) {
    if (error instanceof Failure) return 'unreadable';
    throw error;
  }
}

export function writeMarker(marker: Marker): void {
  const directory = join(marker.stack_dir, MARKER_DIR);
  ensurePrivateDir(directory);
  const ignore = join(directory, '.gitignore');
  if (!pathExists(ignore)) writeFileDurable(ignore, '*\n');
  writeFileDurable(markerFile(marker.stack_dir), `${JSON.stringify(marker)}\n`);
}

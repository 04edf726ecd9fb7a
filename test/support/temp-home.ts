import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface TempDir extends Disposable {
  readonly path: string;
}

/** A fresh directory (real path, 0700) that goes away with its scope. */
export function makeTempDir(prefix = 'bb-test-'): TempDir {
  const path = realpathSync(mkdtempSync(join(tmpdir(), prefix)));
  return {
    path,
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}

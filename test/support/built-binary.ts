import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { BINARY, hostTarget } from './stage.ts';

const REPOSITORY = join(import.meta.dir, '../..');

/** The compiled binary of this machine; built first where it is not there. */
export async function builtBinary(): Promise<string> {
  if (existsSync(BINARY)) return BINARY;
  const build = Bun.spawn([process.execPath, 'build.ts', '--target', hostTarget()], {
    cwd: REPOSITORY,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if ((await build.exited) !== 0) throw new Error('the build failed');
  return BINARY;
}

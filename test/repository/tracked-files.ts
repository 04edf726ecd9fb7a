import { lstatSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSource, type SourceFile } from './source-file.ts';

export const ROOT = join(import.meta.dirname, '../..');

/** What is in the repository, or would be with the next commit. */
export function trackedPaths(): string[] {
  const argv = ['git', '-C', ROOT, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const result = Bun.spawnSync(argv);
  if (result.exitCode !== 0) throw new Error(`git ls-files: ${result.stderr}`);
  return [...new Set(result.stdout.toString().split('\0'))]
    .filter((path) => path !== '' && lstatSync(join(ROOT, path), { throwIfNoEntry: false })?.isFile() === true)
    .sort();
}

export function readTracked(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

export function readSources(paths: readonly string[]): SourceFile[] {
  return paths.filter((path) => path.endsWith('.ts')).map((path) => parseSource(path, readTracked(path)));
}

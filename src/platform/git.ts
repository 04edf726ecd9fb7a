/**
 * Finds the worktree of a directory by reading git's own files: no program is started, so no hook, monitor or
 * configured command of a hostile checkout can run. Where the files belong to somebody else, git itself is asked,
 * so that its `safe.directory` rule holds.
 */
import { lstatSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { effectiveUserId, unwritable } from './durable-files.ts';
import { readEnvironment, scrubEnvironment } from './environment.ts';
import { errnoOf, Failure } from './failure.ts';

export interface Worktree {
  worktree_root: string;
  git_common_dir: string;
}

/** Real paths of the worktree that holds `path` and of the repository's common directory; null outside of any. */
export function worktreeOf(path: string): Worktree | null {
  for (let directory = startOf(path); directory !== null; directory = parentOf(directory)) {
    const gitDir = gitDirOf(directory);
    if (gitDir === null) continue;
    if (![directory, join(directory, '.git'), gitDir].every(isOurs)) requireGitsConsent(directory);
    const common = textOf(join(gitDir, 'commondir'))?.trim();
    return {
      worktree_root: directory,
      git_common_dir: realpathSync(common === undefined ? gitDir : resolve(gitDir, common)),
    };
  }
  return null;
}

function startOf(path: string): string | null {
  try {
    const real = realpathSync(path);
    return statSync(real).isDirectory() ? real : dirname(real);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw unwritable(path, 'resolve', error);
  }
}

function parentOf(directory: string): string | null {
  const parent = dirname(directory);
  return parent === directory ? null : parent;
}

function gitDirOf(directory: string): string | null {
  const entry = join(directory, '.git');
  const stats = statSync(entry, { throwIfNoEntry: false });
  if (stats === undefined) return null;
  if (stats.isDirectory()) return isGitDir(entry) ? realpathSync(entry) : null;
  const target = /^gitdir: (.+)$/m.exec(textOf(entry) ?? '')?.[1]?.trim();
  if (target === undefined) return null;
  const gitDir = isAbsolute(target) ? target : resolve(directory, target);
  return isGitDir(gitDir) ? realpathSync(gitDir) : null;
}

function isGitDir(path: string): boolean {
  const has = (name: string) => lstatSync(join(path, name), { throwIfNoEntry: false }) !== undefined;
  return has('HEAD') && (has('commondir') || (has('objects') && has('refs')));
}

function isOurs(path: string): boolean {
  return lstatSync(path).uid === effectiveUserId();
}

function requireGitsConsent(directory: string): void {
  const env = Object.fromEntries(
    Object.entries(scrubEnvironment(readEnvironment())).filter(([name]) => !name.startsWith('GIT_')),
  );
  const argv = ['-c', 'core.fsmonitor=false', '-c', 'core.hooksPath=/dev/null', 'rev-parse', '--git-dir'];
  const refused = (reason: string) =>
    new Failure('not_a_repository', `${directory} belongs to another user and git refuses it: ${reason}`, {
      fields: { path: directory },
    });
  if (Bun.which('git', { PATH: env['PATH'] ?? '' }) === null) throw refused('git is not installed to ask');
  const result = Bun.spawnSync(['git', ...argv], { cwd: directory, env: { ...env, LC_ALL: 'C' }, stdin: 'ignore' });
  if (result.exitCode !== 0) throw refused(firstLine(result.stderr.toString()));
}

function firstLine(text: string): string {
  return text.trim().split('\n')[0] ?? '';
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw unwritable(path, 'read', error);
  }
}

import { expect, test } from 'bun:test';
import { chmodSync, chownSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../src/platform/failure.ts';
import { worktreeOf } from '../../src/platform/git.ts';
import { makeTempDir } from '../support/temp-home.ts';

test('a repository is found from its root, from below, from a file and through a link', () => {
  using directory = makeTempDir();
  const repository = makeRepository(directory.path);
  const deep = join(repository, 'a', 'b');
  mkdirSync(deep, { recursive: true });
  writeFileSync(join(deep, 'file'), '');
  symlinkSync(deep, join(directory.path, 'link'));
  const expected = { worktree_root: repository, git_common_dir: join(repository, '.git') };
  for (const path of [repository, deep, join(deep, 'file'), join(directory.path, 'link')]) {
    expect(worktreeOf(path)).toEqual(expected);
  }
});

test('worktrees have their own root and one common directory, as git itself says', () => {
  using directory = makeTempDir();
  const repository = makeRepository(directory.path);
  const worktree = join(directory.path, 'second');
  git(repository, 'worktree', 'add', '-q', worktree);
  expect(worktreeOf(worktree)).toEqual({ worktree_root: worktree, git_common_dir: join(repository, '.git') });
  expect(worktreeOf(worktree)?.worktree_root).toBe(git(worktree, 'rev-parse', '--show-toplevel'));
  expect(worktreeOf(worktree)?.git_common_dir).toBe(git(worktree, 'rev-parse', '--git-common-dir'));
});

test('a worktree of a bare repository is found', () => {
  using directory = makeTempDir();
  const bare = join(directory.path, 'bare.git');
  git(directory.path, 'clone', '-q', '--bare', makeRepository(directory.path), bare);
  const worktree = join(directory.path, 'tree');
  git(bare, 'worktree', 'add', '-q', worktree);
  expect(worktreeOf(worktree)).toEqual({ worktree_root: worktree, git_common_dir: bare });
});

test('a repository inside of another is the nearer one', () => {
  using directory = makeTempDir();
  const outer = makeRepository(directory.path);
  const inner = makeRepository(outer, 'inner');
  expect(worktreeOf(inner)?.worktree_root).toBe(inner);
});

test('outside of a repository, at a missing path and at an empty .git there is none', () => {
  using directory = makeTempDir();
  mkdirSync(join(directory.path, 'x', '.git'), { recursive: true });
  mkdirSync(join(directory.path, 'y'));
  writeFileSync(join(directory.path, 'y', '.git'), 'gitdir: /nowhere/at/all\n');
  for (const name of ['.', 'x', 'y', 'missing']) expect(worktreeOf(join(directory.path, name))).toBeNull();
});

test('nothing that the repository configures is run', () => {
  using directory = makeTempDir();
  const repository = makeRepository(directory.path);
  const trap = join(directory.path, 'trap');
  const evidence = join(directory.path, 'ran');
  writeFileSync(trap, `#!/bin/sh\n: >'${evidence}'\n`);
  chmodSync(trap, 0o755);
  for (const name of ['core.fsmonitor', 'core.pager', 'core.sshCommand', 'alias.rev-parse'])
    git(repository, 'config', name, trap);
  expect(worktreeOf(repository)).not.toBeNull();
  expect(existsSync(evidence)).toBeFalse();
});

test.if(process.geteuid?.() === 0)(
  'a repository of another user is refused as git refuses it, unless it is declared safe',
  () => {
    using directory = makeTempDir();
    const repository = makeRepository(directory.path);
    chownSync(repository, 65_534, 65_534);
    const before = { ...process.env };
    try {
      process.env['HOME'] = directory.path;
      delete process.env['XDG_CONFIG_HOME'];
      const sudo = process.env['SUDO_UID'];
      if (sudo !== undefined) delete process.env['SUDO_UID'];
      expect(codeOf(() => worktreeOf(repository))).toBe('not_a_repository');
      writeFileSync(join(directory.path, '.gitconfig'), `[safe]\n  directory = ${repository}\n`);
      expect(worktreeOf(repository)?.worktree_root).toBe(repository);
    } finally {
      process.env = before;
    }
  },
);

function makeRepository(parent: string, name = 'repository'): string {
  const path = join(parent, name);
  mkdirSync(path);
  git(path, 'init', '-q');
  const author = ['-c', 'user.name=t', '-c', 'user.email=t@example.invalid'];
  git(path, ...author, 'commit', '-q', '--allow-empty', '-m', 'first');
  return path;
}

function git(cwd: string, ...argv: string[]): string {
  const result = Bun.spawnSync(['git', ...argv], { cwd, env: { PATH: process.env['PATH'], HOME: cwd } });
  if (result.exitCode !== 0) throw new Error(`git ${argv.join(' ')}: ${result.stderr}`);
  return result.stdout.toString().trim();
}

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    return error instanceof Failure ? error.code : String(error);
  }
  return 'nothing thrown';
}

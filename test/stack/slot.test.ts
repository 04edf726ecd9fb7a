import { describe, expect, test } from 'bun:test';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../src/platform/failure.ts';
import { slotOf, stackPlaceOf } from '../../src/stack/slot.ts';
import { makeTempDir } from '../support/temp-home.ts';

const codeOf = (action: () => unknown): string | null => {
  try {
    action();
    return null;
  } catch (error) {
    return error instanceof Failure ? error.code : String(error);
  }
};

function repository(path: string): void {
  mkdirSync(join(path, '.git', 'objects'), { recursive: true });
  mkdirSync(join(path, '.git', 'refs'));
  writeFileSync(join(path, '.git', 'HEAD'), 'ref: refs/heads/main\n');
}

const question = { tenant: 'local', gitCommonDir: '/r/.git', worktreeRoot: '/r' };

describe('a slot', () => {
  test('is the same each time', () => expect(slotOf(question)).toEqual(slotOf({ ...question })));

  test.each([
    ['tenants', { tenant: 'other' }],
    ['repositories', { gitCommonDir: '/s/.git' }],
    ['worktrees', { worktreeRoot: '/r2' }],
    ['names', { override: 'e2e' }],
  ])('differs between %s', (_what, change) => {
    const [a, b] = [slotOf(question), slotOf({ ...question, ...change })];
    expect(a.slot).not.toBe(b.slot);
    expect(a.project).not.toBe(b.project);
    expect(a.slot_dir_name).not.toBe(b.slot_dir_name);
  });

  test('by name is shared by the worktrees of one repository and by nobody else', () => {
    const named = { ...question, override: 'e2e' };
    expect(slotOf(named)).toEqual(slotOf({ ...named, worktreeRoot: '/r2' }));
    expect(slotOf(named).slot).not.toBe(slotOf({ ...named, gitCommonDir: '/s/.git' }).slot);
    expect(slotOf(named).slot).toStartWith('e2e-');
  });

  test.each(['local', 'Team Ü 1', '---', 'a-very-long-tenant-name-that-goes-on-and-on'])(
    'of tenant %p has a project name that every engine takes',
    (tenant) => expect(slotOf({ ...question, tenant }).project).toMatch(/^bb-[a-z0-9][a-z0-9-]{0,36}$/),
  );

  test.each(['', '../x', 'a b', '-x', 'x'.repeat(65)])('is not named %p', (override) => {
    expect(codeOf(() => slotOf({ ...question, override }))).toBe('invalid_arguments');
  });
});

describe('the place of a stack', () => {
  test('is the same through a link to the worktree', () => {
    using temp = makeTempDir();
    const root = join(temp.path, 'a "b"\n🙂');
    repository(root);
    symlinkSync(root, join(temp.path, 'link'));
    expect(stackPlaceOf(join(temp.path, 'link'))).toEqual({
      worktree_root: root,
      git_common_dir: join(root, '.git'),
      stack_dir: root,
      stack_path: '.',
    });
  });

  test('is found from a directory below', () => {
    using temp = makeTempDir();
    repository(temp.path);
    mkdirSync(join(temp.path, 'a', 'b'), { recursive: true });
    expect(stackPlaceOf(join(temp.path, 'a', 'b'), 'a')).toMatchObject({
      stack_dir: join(temp.path, 'a'),
      stack_path: 'a',
    });
  });

  test('outside of a repository is refused', () => {
    using temp = makeTempDir();
    expect(codeOf(() => stackPlaceOf(temp.path))).toBe('not_a_repository');
  });

  test.each(['..', '../x', '/', 'link', 'missing', 'a/../..'])('is refused at %p', (path) => {
    using temp = makeTempDir();
    repository(join(temp.path, 'r'));
    mkdirSync(join(temp.path, 'r', 'a'));
    mkdirSync(join(temp.path, 'x'));
    symlinkSync(join(temp.path, 'x'), join(temp.path, 'r', 'link'));
    expect(codeOf(() => stackPlaceOf(join(temp.path, 'r'), path))).toBe('stack_path_outside');
  });
});

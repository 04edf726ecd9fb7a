/**
 * Who a stack is: the slot (tenant, repository, worktree, or a name given with --slot) and the project name and
 * directory that follow from it. The same worktree always gives the same answer, by real paths.
 */
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { realPath } from '../platform/durable-files.ts';
import { errnoOf, Failure } from '../platform/failure.ts';
import { worktreeOf } from '../platform/git.ts';
import { homePaths } from '../platform/paths.ts';
import { shortHash } from '../platform/random.ts';

export interface SlotQuestion {
  readonly tenant: string;
  readonly gitCommonDir: string;
  readonly worktreeRoot: string;
  /** `--slot`: worktrees of one repository that name the same slot share it. */
  readonly override?: string;
}

export interface SlotIdentity {
  readonly slot: string;
  /** Names everything that belongs to the stack: `bb-<tenant>-<hash>`, short enough for every engine. */
  readonly project: string;
  /** A short hash: fits into socket paths and is no secret. */
  readonly slot_dir_name: string;
}

export interface StackPlace {
  readonly worktree_root: string;
  readonly git_common_dir: string;
  /** Whose files are driven; inside the worktree. */
  readonly stack_dir: string;
  /** The same, relative to the worktree; `.` for its root. */
  readonly stack_path: string;
}

const OVERRIDE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const TENANT_CHARS_MAX = 20;

export function slotOf({ tenant, gitCommonDir, worktreeRoot, override }: SlotQuestion): SlotIdentity {
  if (override !== undefined && !OVERRIDE.test(override)) {
    throw new Failure('invalid_arguments', `--slot ${JSON.stringify(override)}: letters, digits, '.', '_', '-' only`, {
      fields: { slot: override },
    });
  }
  const last = override === undefined ? ['worktree', worktreeRoot] : ['named', override];
  const hash = shortHash(JSON.stringify([tenant, gitCommonDir, ...last]));
  const name = tenant
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, TENANT_CHARS_MAX);
  return {
    slot: override === undefined ? hash : `${override}-${hash}`,
    project: `bb-${name || 'tenant'}-${hash}`,
    slot_dir_name: hash,
  };
}

/** Real paths of the worktree around `directory` and of the stack directory in it. */
export function stackPlaceOf(directory: string, stackPath = '.'): StackPlace {
  const worktree = worktreeOf(directory);
  if (worktree === null) {
    throw new Failure('not_a_repository', `${directory} is in no git worktree`, { fields: { path: directory } });
  }
  const root = worktree.worktree_root;
  const wanted = resolve(root, stackPath);
  const stackDir = realStackDir(wanted);
  const inside = relative(root, stackDir);
  if (isAbsolute(stackPath) || !isInside(inside) || !isInside(relative(root, wanted))) {
    throw new Failure('stack_path_outside', `--stack-path ${stackPath} must be a directory inside ${root}`, {
      fields: { path: stackPath, worktree_root: root },
    });
  }
  return { ...worktree, stack_dir: stackDir, stack_path: inside === '' ? '.' : inside };
}

export interface SlotPaths {
  readonly dir: string;
  readonly lock: string;
  readonly plan: string;
  readonly env: string;
  /** Plans that a client asked for and no Helper has started yet, by digest. */
  readonly requestedPlans: string;
  readonly connection: string;
  readonly creation: string;
  readonly before: string;
  readonly supervisor: string;
  readonly supervisorLock: string;
  readonly stamp: string;
  readonly data: string;
  readonly logs: string;
}

export function slotDirOf(home: string, slotDirName: string): string {
  return join(homePaths(home).stacks, slotDirName);
}

export function slotPaths(slotDir: string): SlotPaths {
  return {
    dir: slotDir,
    lock: `${slotDir}.lock`,
    plan: join(slotDir, 'plan.json'),
    env: join(slotDir, 'env.json'),
    requestedPlans: join(slotDir, 'requested'),
    connection: join(slotDir, 'connection.json'),
    creation: join(slotDir, 'creation.json'),
    before: join(slotDir, 'before.json'),
    supervisor: join(slotDir, 'supervisor.json'),
    supervisorLock: join(slotDir, 'supervisor.lock'),
    stamp: join(slotDir, 'stamp.json'),
    data: join(slotDir, 'data'),
    logs: join(slotDir, 'logs'),
  };
}

function realStackDir(path: string): string {
  try {
    return realPath(path);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno !== 'ENOENT' && errno !== 'ENOTDIR') throw error;
    throw new Failure('stack_path_outside', `${path} is not there`, { cause: error, fields: { path } });
  }
}

function isInside(path: string): boolean {
  return path !== '..' && !path.startsWith(`..${sep}`) && !isAbsolute(path);
}

/** The name of a slot's directory, from the slot alone: its hash, which holds no dash. */
export function slotDirNameOf(slot: string): string {
  return slot.split('-').at(-1) ?? slot;
}

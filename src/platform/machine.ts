import { readFileSync } from 'node:fs';
import { availableParallelism, hostname, totalmem } from 'node:os';
import { Failure } from './failure.ts';

const onMac = process.platform === 'darwin';
const BYTES_PER_GIB = 1024 ** 3;
/** What the system itself needs, and what a stack of one unit is expected to take. */
const RESERVED_GIB = 2;
const GIB_PER_UNIT = 2;

let knownBoot: string | undefined;

/** Changes with every start of the machine. */
export function bootId(): string {
  knownBoot ??= onMac
    ? outputOf('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid'])?.toLowerCase()
    : textOf('/proc/sys/kernel/random/boot_id');
  if (knownBoot === undefined || knownBoot === '') throw new Failure('internal', 'the system tells no boot id');
  return knownBoot;
}

/** The installation's own id, where the system has one. */
export function machineId(): string | null {
  if (onMac) {
    const text = outputOf('/usr/sbin/ioreg', ['-rd1', '-c', 'IOPlatformExpertDevice']) ?? '';
    return /"IOPlatformUUID"\s*=\s*"([0-9A-Fa-f-]+)"/.exec(text)?.[1]?.toLowerCase() ?? null;
  }
  const id = textOf('/etc/machine-id') || textOf('/var/lib/dbus/machine-id');
  return id === undefined || !/^[0-9a-f]{32}$/.test(id) ? null : id;
}

/** The name under which people know this machine. */
export function hostKey(): string {
  const local = onMac ? outputOf('/usr/sbin/scutil', ['--get', 'LocalHostName']) : undefined;
  return (local ? `${local}.local` : hostname()).trim().toLowerCase();
}

/** What this process may use: the machine's memory, or the control group's limit when that is lower. */
export function memoryGiB(): number {
  const limit = Number(textOf('/sys/fs/cgroup/memory.max') ?? Number.NaN);
  const bytes = Number.isFinite(limit) && limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return bytes / BYTES_PER_GIB;
}

export function coreCount(): number {
  return availableParallelism();
}

/** How many units of stacks this machine takes when nobody says. */
export function defaultUnits(cores = coreCount(), memory = memoryGiB()): number {
  return Math.max(1, Math.min(cores, Math.floor((memory - RESERVED_GIB) / GIB_PER_UNIT)));
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}

function outputOf(command: string, argv: string[]): string | undefined {
  try {
    const result = Bun.spawnSync([command, ...argv], { env: { LC_ALL: 'C' }, stdin: 'ignore', stderr: 'ignore' });
    return result.exitCode === 0 ? result.stdout.toString().trim() : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Who listens on a port, by the inodes of sockets. Linux tells it without help; elsewhere, and for processes of other
 * users, the answer is unknown, which is no reason to call a port foreign.
 */
import { listDir, readTextIfPresent } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';

const TABLES = ['/proc/net/tcp', '/proc/net/tcp6'];
const LISTENING = '0A';

export type PortOwner = 'nobody' | 'ours' | 'foreign' | 'unknown';

/** Whether what listens on `port` belongs to one of the processes `pids`. */
export function ownerOfPort(port: number, pids: readonly number[]): PortOwner {
  const tables = TABLES.map(textOf).filter((text) => text !== null);
  if (tables.length === 0) return 'unknown';
  const listening = tables.flatMap((text) => listeningInodes(text, port));
  if (listening.length === 0) return 'nobody';
  let everythingSeen = true;
  for (const pid of pids) {
    const inodes = socketInodesOf(pid);
    if (inodes === null) everythingSeen = false;
    else if (listening.some((inode) => inodes.has(inode))) return 'ours';
  }
  return everythingSeen ? 'foreign' : 'unknown';
}

/** Lines of /proc/net/tcp: `sl local_address rem_address st ... inode`. */
export function listeningInodes(text: string, port: number): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return text.split('\n').flatMap((line) => {
    const fields = line.trim().split(/\s+/);
    const inode = fields[9];
    return fields[1]?.endsWith(suffix) && fields[3] === LISTENING && inode !== undefined ? [inode] : [];
  });
}

/** Null where the system does not show them. */
function socketInodesOf(pid: number): Set<string> | null {
  const inodes = new Set<string>();
  let shown = false;
  for (const name of namesIn(`/proc/${pid}/fdinfo`) ?? []) {
    const inode = /^ino:\s*(\d+)$/m.exec(textOf(`/proc/${pid}/fdinfo/${name}`) ?? '')?.[1];
    if (inode === undefined) continue;
    shown = true;
    inodes.add(inode);
  }
  return shown ? inodes : null;
}

function textOf(path: string): string | null {
  return orNull(() => readTextIfPresent(path));
}

function namesIn(path: string): string[] | null {
  return orNull(() => listDir(path));
}

function orNull<T>(action: () => T): T | null {
  try {
    return action();
  } catch (error) {
    if (error instanceof Failure) return null;
    throw error;
  }
}

/** Whether a TCP port can be bound on this machine right now, and a way to keep one bound. */
import { Failure } from './failure.ts';

const PROBED_ADDRESSES = ['0.0.0.0', '127.0.0.1', '::', '::1'];
const GUARD_ADDRESS = '127.0.0.1';
/** The machine has no such address, or no such family. */
const ADDRESS_MISSING: ReadonlySet<string> = new Set(['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EPROTONOSUPPORT']);

export interface HeldPort extends Disposable {
  readonly port: number;
  release(): void;
}

/** True when nobody listens on the port under any local address. */
export function portIsFree(port: number): boolean {
  return PROBED_ADDRESSES.every((address) => {
    const bound = bind(address, port);
    if (bound === 'missing') return true;
    if (bound === 'taken') return false;
    bound.stop(true);
    return true;
  });
}

/** Keeps the port bound on loopback; whoever connects is hung up on. Null when it is taken. */
export function holdPort(port: number): HeldPort | null {
  const bound = bind(GUARD_ADDRESS, port);
  if (bound === 'missing' || bound === 'taken') return null;
  const release = () => bound.stop(true);
  return { port: bound.port, release, [Symbol.dispose]: release };
}

function bind(hostname: string, port: number): Bun.TCPSocketListener<undefined> | 'missing' | 'taken' {
  try {
    return Bun.listen({
      hostname,
      port,
      exclusive: true,
      socket: { open: (socket) => void socket.terminate(), data() {} },
    });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (ADDRESS_MISSING.has(code)) return 'missing';
    if (code === 'EADDRINUSE' || code === 'EACCES' || code === 'EPERM') return 'taken';
    throw new Failure('internal', `cannot probe port ${port} on ${hostname} (${code || 'unknown'})`, { cause: error });
  }
}

/** The listening sockets: TCP on loopback for everybody on this machine, a Unix socket for our own clients. */
import { isIP } from 'node:net';
import { removeDurable } from '../platform/durable-files.ts';
import { Failure } from '../platform/failure.ts';
import { BODY_BYTES_MAX } from './_request-checks.ts';
import type { HttpApp } from './http-server.ts';

export interface Listening {
  readonly url: string;
  readonly socket: string;
  /** Ends what is open, answers nothing more, and removes the socket. */
  stop(): Promise<void>;
}

export interface ListenOptions {
  app: HttpApp;
  address: string;
  socket: string;
}

/** Room for the headers of a body that is just too large, so that it is refused by us and not cut off. */
const SERVER_BODY_BYTES_MAX = BODY_BYTES_MAX + 64 * 1024;
const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['127.0.0.1', '::1', 'localhost']);

/** Only the holder of the database's lock may call this: a socket that is there already is a dead one's. */
export function listen({ app, address, socket }: ListenOptions): Listening {
  const { hostname, port } = parseAddress(address);
  // A silent stream must stay open; the types know of no time-out on Unix sockets, the runtime does.
  const shared: object = { idleTimeout: 0, maxRequestBodySize: SERVER_BODY_BYTES_MAX, development: false };
  const tcp = attempt(address, () =>
    Bun.serve({
      ...shared,
      hostname,
      port,
      fetch: (request, server) => app.answer(request, { port: server.port ?? port }),
    }),
  );
  removeDurable(socket);
  const unix = attempt(socket, () =>
    Bun.serve({ ...shared, unix: socket, fetch: (request) => app.answer(request, { port: null }) }),
  );
  const host = isIP(hostname) === 6 ? `[${hostname}]` : hostname;
  return {
    url: `http://${host}:${tcp.port}`,
    socket,
    stop: async () => {
      await Promise.all([tcp.stop(true), unix.stop(true)]);
      removeDurable(socket);
    },
  };
}

/** `127.0.0.1:0`, `[::1]:8080`, `localhost:8080`: there is no other door than the owner's credential, so loopback only. */
export function parseAddress(address: string): { hostname: string; port: number } {
  const match = /^(\[[0-9a-fA-F:.]+\]|[^:[\]]+):(\d{1,5})$/.exec(address);
  const hostname = match?.[1]?.replace(/^\[(.*)\]$/, '$1') ?? '';
  const port = Number(match?.[2]);
  if (match === null || port > 65_535 || !LOOPBACK_NAMES.has(hostname)) {
    throw new Failure('setting_invalid', `BOTBUDDY_LISTEN: '${address}' is no loopback address such as 127.0.0.1:0`, {
      fields: { setting: 'listen' },
    });
  }
  return { hostname, port };
}

function attempt<T>(where: string, action: () => T): T {
  try {
    return action();
  } catch (cause) {
    throw new Failure('embedded_start_failed', `cannot listen on ${where}`, { cause, fields: { address: where } });
  }
}

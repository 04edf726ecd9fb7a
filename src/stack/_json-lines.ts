/** One JSON value a line over a Unix socket, both ways. Knows nothing of what the values mean. */
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { removeDurable } from '../platform/durable-files.ts';
import { errnoOf, Failure } from '../platform/failure.ts';

const LINE_BYTES_MAX = 1024 * 1024;

export interface LineChannel {
  send(value: unknown): void;
  close(): void;
}

export interface LineServer {
  /** Ends every connection too. */
  close(): void;
}

/** Serves on a path that this process owns by other means: what lies there from before is removed. */
export function serveLines(path: string, onLine: (value: unknown, channel: LineChannel) => void): Promise<LineServer> {
  removeDurable(path);
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    const channel = channelOf(socket);
    socket.on('close', () => open.delete(socket));
    socket.on('error', () => socket.destroy());
    readLines(socket, (value) => onLine(value, channel));
  });
  return new Promise((resolve, reject) => {
    server.once('error', (cause) => {
      const errno = errnoOf(cause) ?? 'unknown';
      reject(
        new Failure('state_unwritable', `cannot listen at ${path} (${errno})`, { cause, fields: { path, errno } }),
      );
    });
    server.listen(path, () => resolve({ close: () => closeServer(server, open) }));
  });
}

/** Null when nobody listens there. */
export function connectLines(
  path: string,
  { onLine, onClose }: { onLine: (value: unknown) => void; onClose: () => void },
): Promise<LineChannel | null> {
  return new Promise((resolve) => {
    const socket = createConnection(path);
    let connected = false;
    socket.on('connect', () => {
      connected = true;
      resolve(channelOf(socket));
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => (connected ? onClose() : resolve(null)));
    readLines(socket, onLine);
  });
}

function channelOf(socket: Socket): LineChannel {
  return {
    send: (value) => {
      if (!socket.destroyed) socket.write(`${JSON.stringify(value)}\n`);
    },
    close: () => socket.end(),
  };
}

function readLines(socket: Socket, onLine: (value: unknown) => void): void {
  let pending = '';
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    const lines = (pending + chunk).split('\n');
    pending = lines.pop() ?? '';
    if (pending.length > LINE_BYTES_MAX) socket.destroy();
    for (const line of lines) {
      const value = parsed(line);
      if (value === undefined) socket.destroy();
      else onLine(value);
    }
  });
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function closeServer(server: Server, open: ReadonlySet<Socket>): void {
  server.close();
  for (const socket of open) socket.end();
}

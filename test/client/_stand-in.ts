/** A coordinator that does what a test tells it: answers from a list, hangs, cuts, or talks nonsense. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CoordinatorClient } from '../../src/client/calls.ts';
import { openClient } from '../../src/client/open-client.ts';
import { ownIdentity } from '../../src/platform/processes.ts';
import type { DiscoveryFile } from '../../src/protocol/discovery.ts';
import type { Frame } from '../../src/protocol/stream-frames.ts';
import { VERSION, VERSION_HEADER } from '../../src/protocol/version.ts';
import { makeTempDir } from '../support/temp-home.ts';

export interface Seen {
  path: string;
  search: string;
  headers: Headers;
  args: Record<string, unknown>;
}

export type Reply = (seen: Seen, signal: AbortSignal) => Response | Promise<Response>;

const HEADERS = { 'content-type': 'application/json', [VERSION_HEADER]: VERSION };

export const ok =
  (result: unknown, seq = 1): Reply =>
  () =>
    new Response(JSON.stringify({ ok: true, seq, result }), { headers: HEADERS });

export const refuse =
  (status: number, code: string, fields: Record<string, unknown> = {}): Reply =>
  () =>
    new Response(JSON.stringify({ ok: false, seq: 1, error: { code, message: `no: ${code}`, fields } }), {
      status,
      headers: HEADERS,
    });

/** Answers never; the connection stays. */
export const hang: Reply = () => new Promise(() => {});

/** Ends in the middle of the body. */
export const halfABody: Reply = () =>
  new Response(
    new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"ok": true, "seq"'));
        controller.close();
      },
    }),
    { headers: HEADERS },
  );

/** Sends the first bytes of a body and then nothing. */
export const endlessBody: Reply = () =>
  new Response(
    new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode('{"ok": true')) }),
    { headers: HEADERS },
  );

export const nonsense: Reply = () => new Response('<html>proxy</html>', { status: 502 });

export interface StreamPen {
  send(frame: Frame): void;
  raw(text: string): void;
  end(): void;
}

/** A stream that the test writes to. */
export function streamTo(onOpen: (pen: StreamPen, seen: Seen) => void): Reply {
  return (seen) => {
    const encoder = new TextEncoder();
    const body = new ReadableStream({
      start(controller) {
        const raw = (text: string) => controller.enqueue(encoder.encode(text));
        onOpen(
          {
            raw,
            send: ({ id, type, data }) =>
              raw(`${id === null ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`),
            end: () => controller.close(),
          },
          seen,
        );
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream', [VERSION_HEADER]: VERSION } });
  };
}

export interface StandIn extends AsyncDisposable {
  readonly home: string;
  readonly client: CoordinatorClient;
  readonly seen: Seen[];
  readonly url: string;
  /** Calls of a tool (or of `stream`, `healthz`) get these replies in turn; the last one stays. */
  script(name: string, ...replies: Reply[]): void;
  calls(name: string): Seen[];
  discovery(changes?: Partial<DiscoveryFile>): void;
  /** Ends the server with every open connection; the discovery file stays. */
  stop(): Promise<void>;
}

export async function makeStandIn({ socket = false }: { socket?: boolean } = {}): Promise<StandIn> {
  const directory = makeTempDir();
  const home = directory.path;
  const scripts = new Map<string, Reply[]>([['healthz', [ok({})]]]);
  const seen: Seen[] = [];
  const answer = async (request: Request): Promise<Response> => {
    const url = new URL(request.url);
    const name = url.pathname.split('/').at(-1) ?? '';
    const args = request.method === 'POST' ? ((await request.json()) as Record<string, unknown>) : {};
    const entry = { path: url.pathname, search: url.search, headers: request.headers, args };
    seen.push(entry);
    const replies = scripts.get(name) ?? [refuse(404, 'not_found')];
    const reply = replies.length > 1 ? replies.shift() : replies[0];
    return (reply ?? hang)(entry, request.signal);
  };
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', idleTimeout: 0, development: false, fetch: answer });
  const path = join(home, 'c.sock');
  const unix = socket ? Bun.serve({ unix: path, fetch: answer, development: false }) : null;
  const url = `http://127.0.0.1:${server.port}`;
  const discovery = (changes: Partial<DiscoveryFile> = {}) => {
    const file: DiscoveryFile = {
      schema_version: 1,
      url,
      socket: path,
      identity: ownIdentity(),
      version: VERSION,
      settings: {},
      started_at: new Date().toISOString(),
      ...changes,
    };
    writeFileSync(join(home, 'coordinator.json'), JSON.stringify(file));
  };
  const stop = async () => {
    await Promise.all([server.stop(true), unix?.stop(true)]);
  };
  discovery();
  writeOwner(home, 'bbo_first');
  return {
    home,
    url,
    seen,
    discovery,
    client: await openClient({ home, environment: {}, mayStart: () => false }),
    script: (name, ...replies) => scripts.set(name, replies),
    calls: (name) => seen.filter(({ path: called }) => called.endsWith(`/${name}`)),
    stop,
    [Symbol.asyncDispose]: async () => {
      await stop();
      directory[Symbol.dispose]();
    },
  };
}

export function writeOwner(home: string, token: string, server = 'embedded'): void {
  mkdirSync(home, { recursive: true });
  const file = { schema_version: 1, token, server, created_at: new Date().toISOString() };
  writeFileSync(join(home, 'owner.json'), JSON.stringify(file));
}

/**
 * The only door: tools as `POST /v1/tools/NAME`, the stream, and two probes, on TCP loopback and on a Unix socket.
 * Checks who asks and parses once; what a call means is the tool's. Catches broadly: nothing thrown inside may leave
 * a caller without a typed answer.
 */
import type { Principal } from '../core/inputs.ts';
import { Failure } from '../platform/failure.ts';
import { logger } from '../platform/logging.ts';
import { outcomeOf } from '../protocol/outcomes.ts';
import type { ToolAnswer, ToolCalls, ToolName } from '../protocol/tool-calls.ts';
import type { ArgsSchema } from '../protocol/tool-schemas.ts';
import { SEEN_SEQ_HEADER, VERSION_HEADER } from '../protocol/version.ts';
import { checkHost, checkMethod, checkOrigin, type Door, readJsonBody } from './_request-checks.ts';
import type { Opened, StreamHub } from './event-stream.ts';
import type { Authenticator } from './local-owner.ts';
import type { Coordinator, Tool } from './tool.ts';
import { TOOLS } from './tool-table.ts';

export interface HttpOptions {
  coordinator: Coordinator;
  hub: StreamHub;
  authenticator: Authenticator;
  /** Told of every call that is not a Helper's own traffic. */
  onCall: () => void;
  /** Set once the coordinator ends: calls are then refused as retryable. */
  isEnding: () => boolean;
}

const TOOL_PATH = '/v1/tools/';
const log = logger('http');

export class HttpApp {
  readonly #options: HttpOptions;

  constructor(options: HttpOptions) {
    this.#options = options;
  }

  /** Answers one request that came through the given door. */
  async answer(request: Request, door: Door): Promise<Response> {
    try {
      checkHost(request, door);
      checkOrigin(request, door);
      return await this.#route(request);
    } catch (error) {
      return this.#failed(error);
    }
  }

  async #route(request: Request): Promise<Response> {
    const url = new URL(request.url);
    if (url.pathname === '/healthz') return this.#probe(request);
    const caller = this.#authenticate(request);
    if (this.#options.isEnding()) throw new Failure('coordinator_ending', 'this coordinator is about to end');
    if (url.pathname === '/readyz') return this.#ready(request);
    if (url.pathname === '/v1/stream') return this.#stream(request, url, caller);
    if (url.pathname.startsWith(TOOL_PATH)) return this.#tool(request, url.pathname.slice(TOOL_PATH.length), caller);
    throw new Failure('not_found', `there is nothing at ${url.pathname}`);
  }

  #authenticate(request: Request): Principal {
    const caller = this.#options.authenticator.authenticate(request.headers.get('authorization'));
    if (caller === null) throw new Failure('unauthenticated', 'the credential is missing or not known here');
    return caller;
  }

  #probe(request: Request): Response {
    checkMethod(request, 'GET');
    return this.#json(200, { ok: true });
  }

  /** Ready means that the log can be read now. */
  async #ready(request: Request): Promise<Response> {
    checkMethod(request, 'GET');
    await this.#options.coordinator.log.readMeta('owner_token_sha256');
    return this.#json(200, { ok: true, seq: await this.#options.coordinator.engine.look((state) => state.seq) });
  }

  async #tool(request: Request, name: string, caller: Principal): Promise<Response> {
    if (!isToolName(name)) throw new Failure('not_found', `there is no tool ${name}`);
    checkMethod(request, 'POST');
    const tool = TOOLS[name] as Tool<ToolName>;
    const args = parseArgs(tool.schema, await readJsonBody(request));
    if (tool.fromHelper === undefined) this.#options.onCall();
    const answer = await tool.handle(args, { ...this.#options.coordinator, caller, seenSeq: seenSeqOf(request) });
    if (answer.ok) return this.#json(200, { ok: true, seq: answer.seq, result: answer.reply });
    const { code, message, fields } = answer.refusal;
    return this.#json(outcomeOf(code).status, { ok: false, seq: answer.seq, error: { code, message, fields } });
  }

  #openStream(
    kind: 'wait' | 'lease' | 'host',
    id: string,
    caller: Principal,
    lastEventId: string | null,
  ): Promise<Opened> {
    const { hub } = this.#options;
    switch (kind) {
      case 'wait':
        return hub.openWait(id, caller, lastEventId);
      case 'lease':
        return hub.openLease(id, caller, lastEventId);
      case 'host':
        return hub.openHost(id, lastEventId);
    }
  }

  async #stream(request: Request, url: URL, caller: Principal): Promise<Response> {
    checkMethod(request, 'GET');
    const followed = (['wait', 'lease', 'host'] as const).filter((kind) => url.searchParams.has(kind));
    const [kind] = followed;
    if (kind === undefined || followed.length > 1) {
      throw new Failure('invalid_arguments', 'a stream follows wait=ID, lease=ID or host=ID', {
        fields: { key: 'wait' },
      });
    }
    if (kind !== 'host') this.#options.onCall();
    const opened = await this.#openStream(
      kind,
      url.searchParams.get(kind) ?? '',
      caller,
      request.headers.get('last-event-id'),
    );
    if (!opened.ok) throw new Failure(opened.refusal.code, opened.refusal.message, { fields: opened.refusal.fields });
    const headers = {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
      [VERSION_HEADER]: this.#options.coordinator.version,
    };
    return new Response(opened.body, { headers });
  }

  #failed(error: unknown): Response {
    const failure = error instanceof Failure ? error : new Failure('internal', 'the coordinator ran into a bug');
    if (failure !== error) log.error('a request failed', { error, stack: error instanceof Error ? error.stack : null });
    const { code, message, fields } = failure;
    const seq = this.#options.coordinator.engine.state.seq;
    return this.#json(outcomeOf(code).status, { ok: false, seq, error: { code, message, fields } });
  }

  #json(status: number, body: ToolAnswer | Record<string, unknown>): Response {
    const headers = {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      [VERSION_HEADER]: this.#options.coordinator.version,
    };
    return new Response(JSON.stringify(body), { status, headers });
  }
}

const isToolName = (name: string): name is ToolName => Object.hasOwn(TOOLS, name);

function seenSeqOf(request: Request): number {
  const text = request.headers.get(SEEN_SEQ_HEADER) ?? '';
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

function parseArgs<N extends ToolName>(schema: ArgsSchema<N>, body: unknown): ToolCalls[N]['args'] {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const path = issue?.path.join('.') ?? '';
  if (issue?.code === 'unrecognized_keys') {
    const key = [path, issue.keys[0]].filter(Boolean).join('.');
    throw new Failure('invalid_arguments', `unknown key '${key}'`, { fields: { key } });
  }
  throw new Failure('invalid_arguments', `'${path}': ${issue?.message ?? 'invalid'}`, { fields: { key: path } });
}

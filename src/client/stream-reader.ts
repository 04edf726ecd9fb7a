/**
 * Reads the coordinator's event stream: one connection, resumed after a given frame, with a deadline on every silence
 * and a typed end, whatever happened to it. When to connect again is decided by who reads (park-rules.ts).
 */
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { errnoOf } from '../platform/failure.ts';
import { after, deadlineIn } from '../platform/timers.ts';
import { type Frame, STREAM_SILENCE_MS } from '../protocol/stream-frames.ts';
import { VERSION_HEADER } from '../protocol/version.ts';
import type { CoordinatorClient } from './calls.ts';
import type { Address } from './http-exchange.ts';
import { NoAnswer, noAnswer } from './http-exchange.ts';
import type { Trouble } from './incident-rules.ts';

export interface StreamOptions {
  /** `{wait: ID}`, `{host: ID}`, `{lease: ID}`. */
  query: Record<string, string>;
  lastEventId: string | null;
  signal: AbortSignal;
  onFrame: (frame: Frame) => void;
  onOpen?: () => void;
  /** How long nothing at all, not even a comment, may come. */
  silenceMs?: number;
}

export type StreamEnd =
  | { type: 'aborted'; lastEventId: string | null }
  /** It never opened: an answer with a status, or none. */
  | { type: 'failed'; trouble: Trouble; lastEventId: string | null }
  /** It was open and is no more: ended by the coordinator, silent for too long, or cut. */
  | { type: 'closed'; reason: 'ended' | 'silent' | 'cut'; message: string; lastEventId: string | null };

const FIND_MS = 1_000;
const FRAME_CHARS_MAX = 8 * 1024 * 1024;

export async function readStream(client: CoordinatorClient, options: StreamOptions): Promise<StreamEnd> {
  const reading = new Reading(client, options);
  try {
    return await reading.run();
  } finally {
    reading.stop();
  }
}

class Reading {
  readonly #client: CoordinatorClient;
  readonly #options: StreamOptions;
  readonly #abort = new AbortController();
  readonly #onAbort = () => this.#abort.abort();
  #lastEventId: string | null;
  #silent = false;
  #cancelTimer: () => void = () => {};

  constructor(client: CoordinatorClient, options: StreamOptions) {
    this.#client = client;
    this.#options = options;
    this.#lastEventId = options.lastEventId;
    options.signal.addEventListener('abort', this.#onAbort, { once: true });
    if (options.signal.aborted) this.#abort.abort();
  }

  stop(): void {
    this.#cancelTimer();
    this.#options.signal.removeEventListener('abort', this.#onAbort);
    this.#abort.abort();
  }

  async run(): Promise<StreamEnd> {
    const found = await this.#client.finder.find(deadlineIn(FIND_MS), false);
    if (this.#options.signal.aborted) return this.#aborted();
    if (found === null) return this.#failed({ status: null, code: null, message: 'no coordinator runs here' });
    this.#heard();
    let response: Response;
    try {
      response = await this.#connect(found);
    } catch (error) {
      if (this.#options.signal.aborted) return this.#aborted();
      this.#client.finder.lookAgain(found);
      const { message, errno } = error instanceof NoAnswer ? error : noAnswer(error, found.url, this.#abort.signal);
      return this.#failed({ status: null, code: errno, message });
    }
    const refusal = await refusalOf(this.#client, response);
    if (refusal !== null) return this.#failed(refusal);
    this.#options.onOpen?.();
    const end = await this.#readAll(response);
    if (end.type === 'closed') this.#client.finder.lookAgain(found);
    return end;
  }

  async #connect(address: Address): Promise<Response> {
    if (address.socket === null) return this.#fetch(address.url, null);
    try {
      return await this.#fetch(address.url, address.socket);
    } catch (error) {
      const first = noAnswer(error, address.socket, this.#abort.signal);
      if (first.sent !== 'no') throw first;
      return await this.#fetch(address.url, null).catch((error: unknown) => {
        const second = noAnswer(error, address.url, this.#abort.signal);
        throw second.sent === 'no' ? first : second;
      });
    }
  }

  #fetch(base: string, socket: string | null): Promise<Response> {
    const url = new URL('/v1/stream', base);
    for (const [name, value] of Object.entries(this.#options.query)) url.searchParams.set(name, value);
    const resume = this.#lastEventId === null ? {} : { 'last-event-id': this.#lastEventId };
    return fetch(url, {
      headers: { ...this.#client.headers(), accept: 'text/event-stream', ...resume },
      signal: this.#abort.signal,
      redirect: 'manual',
      timeout: false,
      ...(socket === null ? {} : { unix: socket }),
    } as RequestInit);
  }

  async #readAll(response: Response): Promise<StreamEnd> {
    const parser = createParser({ onEvent: (event) => this.#onEvent(event), maxBufferSize: FRAME_CHARS_MAX });
    const decoder = new TextDecoder();
    try {
      for await (const chunk of response.body ?? []) {
        this.#heard();
        parser.feed(decoder.decode(chunk, { stream: true }));
      }
    } catch (error) {
      if (this.#options.signal.aborted) return this.#aborted();
      if (this.#silent) return this.#closed('silent', 'the event stream was silent for too long');
      const why = error instanceof SyntaxError ? 'a frame is no JSON' : (errnoOf(error) ?? 'the connection was lost');
      return this.#closed('cut', `the event stream was cut (${why})`);
    }
    if (this.#options.signal.aborted) return this.#aborted();
    if (this.#silent) return this.#closed('silent', 'the event stream was silent for too long');
    return this.#closed('ended', 'the event stream ended without a terminal event');
  }

  #onEvent({ id, event, data }: EventSourceMessage): void {
    if (this.#abort.signal.aborted || event === undefined) return;
    const parsed: unknown = JSON.parse(data);
    if (id !== undefined) {
      this.#lastEventId = id;
      const seq = Number(id.slice(id.lastIndexOf('.') + 1));
      if (Number.isSafeInteger(seq)) this.#client.sawSeq(seq);
    }
    this.#options.onFrame({ id: id ?? null, type: event, data: parsed } as Frame);
  }

  /** Bytes came: the silence is counted anew. */
  #heard(): void {
    this.#cancelTimer();
    this.#cancelTimer = after(this.#options.silenceMs ?? STREAM_SILENCE_MS, () => {
      this.#silent = true;
      this.#abort.abort();
    });
  }

  #aborted = (): StreamEnd => ({ type: 'aborted', lastEventId: this.#lastEventId });
  #failed = (trouble: Trouble): StreamEnd => ({ type: 'failed', trouble, lastEventId: this.#lastEventId });
  #closed = (reason: 'ended' | 'silent' | 'cut', message: string): StreamEnd => ({
    type: 'closed',
    reason,
    message,
    lastEventId: this.#lastEventId,
  });
}

/** Null for a stream of a coordinator that we understand. */
async function refusalOf(client: CoordinatorClient, response: Response): Promise<Trouble | null> {
  const version = response.headers.get(VERSION_HEADER);
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  if (version !== null && response.status === 200 && isStream) return client.mismatchWith(version);
  const body: unknown = await response.json().catch(() => null);
  if (version === null) {
    return { status: null, code: null, message: `what answered (${response.status}) is no coordinator` };
  }
  const error = typeof body === 'object' && body !== null && 'error' in body ? body.error : null;
  const isTyped = typeof error === 'object' && error !== null && 'code' in error && 'message' in error;
  const { code, message } = isTyped ? error : { code: null, message: `the stream was refused (${response.status})` };
  return { status: response.status, code: typeof code === 'string' ? code : null, message: String(message) };
}

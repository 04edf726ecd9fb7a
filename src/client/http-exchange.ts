/** One request and its whole answer, through the Unix socket where there is one, else over TCP. Retries nothing. */
import { errnoOf } from '../platform/failure.ts';

export interface Address {
  url: string;
  socket: string | null;
}

export interface Exchange {
  method: 'GET' | 'POST';
  path: string;
  headers: Record<string, string>;
  body?: unknown;
  signal: AbortSignal;
}

export interface Exchanged {
  status: number;
  headers: Headers;
  body: unknown;
}

/** There was no answer. `sent: 'no'` is certain: no coordinator can have acted on it. */
export class NoAnswer extends Error {
  readonly sent: 'no' | 'maybe';
  readonly errno: string | null;
  constructor(message: string, sent: 'no' | 'maybe', cause: unknown) {
    super(message, { cause });
    this.sent = sent;
    this.errno = errnoOf(cause);
  }
}

/** What a connection that never came about ends with; a full backlog of a Unix socket is `EAGAIN`. */
const NEVER_SENT: ReadonlySet<string> = new Set([
  'ENOENT',
  'ECONNREFUSED',
  'ENOTSOCK',
  'EACCES',
  'EPERM',
  'EAGAIN',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
]);

export async function exchange(address: Address, request: Exchange): Promise<Exchanged> {
  if (address.socket === null) return exchangeThrough(address.url, null, request);
  try {
    return await exchangeThrough(address.url, address.socket, request);
  } catch (error) {
    if (!(error instanceof NoAnswer) || error.sent !== 'no') throw error;
    return exchangeThrough(address.url, null, request).catch((second: unknown) => {
      throw second instanceof NoAnswer && second.sent === 'no' ? error : second;
    });
  }
}

async function exchangeThrough(url: string, socket: string | null, request: Exchange): Promise<Exchanged> {
  const { ofetch } = await import('ofetch');
  const unix = socket === null ? {} : { unix: socket };
  try {
    const response = await ofetch.raw<unknown>(new URL(request.path, url).href, {
      method: request.method,
      headers: request.headers,
      ...(request.body === undefined ? {} : { body: request.body as Record<string, unknown> }),
      signal: request.signal,
      retry: 0,
      ignoreResponseError: true,
      parseResponse: parseJson,
      redirect: 'manual',
      ...unix,
    });
    return { status: response.status, headers: response.headers, body: response._data };
  } catch (error) {
    throw noAnswer(error, socket ?? url, request.signal);
  }
}

/** Our answers are JSON; what is not comes from something that is no coordinator. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function noAnswer(error: unknown, where: string, signal: AbortSignal): NoAnswer {
  if (signal.aborted) return new NoAnswer(`no answer from ${where} in time`, 'maybe', error);
  const errno = errnoOf(error);
  const sent = errno !== null && NEVER_SENT.has(errno) ? 'no' : 'maybe';
  return new NoAnswer(`no answer from ${where} (${errno ?? 'the connection was lost'})`, sent, error);
}

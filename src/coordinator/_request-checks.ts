/**
 * What every request is held against before anything of ours looks at it: the name it was sent to (a page of another
 * origin may have rebound its name to the loopback address), where it comes from, its size and its kind.
 */
import { Failure } from '../platform/failure.ts';

export const BODY_BYTES_MAX = 1024 * 1024;

export interface Door {
  /** The port on TCP; null on the Unix socket, which no browser reaches. */
  readonly port: number | null;
}

export function checkHost(request: Request, { port }: Door): void {
  if (port === null) return;
  const host = request.headers.get('host')?.toLowerCase() ?? '';
  if (loopbackNames(port).includes(host)) return;
  throw new Failure('forbidden_origin', `this coordinator is not called '${host}'`, { fields: { host } });
}

export function checkOrigin(request: Request, { port }: Door): void {
  const origin = request.headers.get('origin');
  if (origin === null) return;
  if (port !== null && loopbackNames(port).some((name) => origin.toLowerCase() === `http://${name}`)) return;
  throw new Failure('forbidden_origin', `calls from ${origin} are not taken`, { fields: { origin } });
}

const loopbackNames = (port: number): string[] => [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`];

export function checkMethod(request: Request, method: 'GET' | 'POST'): void {
  if (request.method === method) return;
  throw new Failure('method_not_allowed', `this address takes ${method} only`, { fields: { method: request.method } });
}

export async function readJsonBody(request: Request): Promise<unknown> {
  const kind = request.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (kind !== 'application/json') {
    throw new Failure('unsupported_media_type', 'the body must be application/json', {
      fields: { content_type: kind },
    });
  }
  const announced = Number(request.headers.get('content-length') ?? 0);
  if (announced > BODY_BYTES_MAX) throw tooLarge(announced);
  const bytes = await request.arrayBuffer();
  if (bytes.byteLength > BODY_BYTES_MAX) throw tooLarge(bytes.byteLength);
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new Failure('invalid_arguments', 'the body is not JSON', { cause, fields: { key: '' } });
  }
}

function tooLarge(bytes: number): Failure {
  return new Failure('body_too_large', `a body has at most ${BODY_BYTES_MAX} bytes`, {
    fields: { bytes, bytes_max: BODY_BYTES_MAX },
  });
}

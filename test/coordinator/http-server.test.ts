import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { BODY_BYTES_MAX } from '../../src/coordinator/_request-checks.ts';
import { TOOLS } from '../../src/coordinator/tool-table.ts';
import { OUTCOMES } from '../../src/protocol/outcomes.ts';
import type { ToolName } from '../../src/protocol/tool-calls.ts';
import { type Harness, leaseArgs, makeHarness } from './harness.ts';

let harness: Harness;

beforeAll(async () => {
  harness = await makeHarness();
});

afterAll(async () => {
  await harness[Symbol.asyncDispose]();
});

const STATUS = '/v1/tools/coordinator_status';
const JSON_TYPE = { 'content-type': 'application/json' };

interface Refused {
  ok: boolean;
  error: { code: string; message: string; fields: Record<string, unknown> };
}

const post = (path: string, body: NonNullable<RequestInit['body']>, headers: Record<string, string> = JSON_TYPE) =>
  harness.fetch(path, { method: 'POST', body, headers });

const portOf = (): string => new URL(harness.listening.url).port;

const overSocket = (path: string, init: RequestInit = {}) =>
  fetch(`http://anything${path}`, {
    ...init,
    unix: harness.listening.socket,
    headers: { authorization: `Bearer ${harness.token}`, ...init.headers },
  });

async function expectRefused(response: Response, status: number, code: string): Promise<Refused['error']> {
  const body = (await response.json()) as Refused;
  expect({ status: response.status, code: body.error.code, ok: body.ok }).toEqual({ status, code, ok: false });
  expect(response.headers.get('x-botbuddy-version')).toBe('9.9.9');
  expect(response.headers.get('content-type')).toBe('application/json');
  return body.error;
}

describe('who may call', () => {
  test.each([
    ['no Authorization', null],
    ['another scheme', 'Basic b3duZXI6b3duZXI='],
    ['an empty token', 'Bearer '],
    ['a token of the right shape', 'Bearer bbo_0000000000000000000000000000000000000000000000000'],
    ['two tokens', 'Bearer a b'],
  ])('%s is not enough', async (_what, authorization) => {
    for (const path of [STATUS, '/v1/stream?wait=w', '/readyz', '/nothing']) {
      const headers = { ...JSON_TYPE, ...(authorization === null ? {} : { authorization }) };
      const response = await fetch(`${harness.listening.url}${path}`, { method: 'POST', body: '{}', headers });
      await expectRefused(response, 401, 'unauthenticated');
    }
  });

  test('the token one character off is refused and the right one is taken, on both doors', async () => {
    const last = harness.token.at(-1) === 'a' ? 'b' : 'a';
    const wrong = { authorization: `Bearer ${harness.token.slice(0, -1)}${last}`, ...JSON_TYPE };
    await expectRefused(
      await harness.fetch(STATUS, { method: 'POST', body: '{}', headers: wrong }),
      401,
      'unauthenticated',
    );
    await expectRefused(
      await overSocket(STATUS, { method: 'POST', body: '{}', headers: wrong }),
      401,
      'unauthenticated',
    );
    expect((await post(STATUS, '{}')).status).toBe(200);
    expect((await overSocket(STATUS, { method: 'POST', body: '{}', headers: JSON_TYPE })).status).toBe(200);
  });

  test('whoever asks whether it is alive needs no credential', async () => {
    const response = await fetch(`${harness.listening.url}/healthz`);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ ok: true });
  });

  test('ready means that the log answers', async () => {
    expect(await (await harness.fetch('/readyz')).json()).toMatchObject({ ok: true });
  });
});

describe('from where', () => {
  test.each([
    ['a rebound name', 'evil.example', 403],
    ['a rebound name with our port', 'evil.example:PORT', 403],
    ['our address with another port', '127.0.0.1:1', 403],
    ['our address without a port', '127.0.0.1', 403],
    ['a name that begins like ours', 'localhost:PORT.evil.example', 403],
    ['127.0.0.1', '127.0.0.1:PORT', 200],
    ['localhost', 'localhost:PORT', 200],
    ['LOCALHOST', 'LOCALHOST:PORT', 200],
    ['[::1]', '[::1]:PORT', 200],
  ])('Host: %s', async (_what, host, status) => {
    const headers = { ...JSON_TYPE, host: host.replace('PORT', portOf()) };
    for (const path of [STATUS, '/healthz']) {
      const method = path === STATUS ? 'POST' : 'GET';
      const response = await harness.fetch(path, { method, headers, ...(method === 'POST' ? { body: '{}' } : {}) });
      if (status === 200) expect(response.status).toBe(200);
      else await expectRefused(response, 403, 'forbidden_origin');
    }
  });

  test.each([
    ['another site', 'https://evil.example', 403],
    ['our name over TLS', 'https://127.0.0.1:PORT', 403],
    ['our name with another port', 'http://127.0.0.1:1', 403],
    ['a sandboxed page', 'null', 403],
    ['an empty one', '', 403],
    ['our own page', 'http://127.0.0.1:PORT', 200],
    ['our own page by name', 'http://localhost:PORT', 200],
  ])('Origin: %s', async (_what, origin, status) => {
    const headers = { ...JSON_TYPE, origin: origin.replace('PORT', portOf()) };
    const response = await post(STATUS, '{}', headers);
    if (status === 200) expect(response.status).toBe(200);
    else await expectRefused(response, 403, 'forbidden_origin');
  });

  test('the Unix socket takes any Host but no Origin', async () => {
    const init = { method: 'POST', body: '{}' };
    expect((await overSocket(STATUS, { ...init, headers: { ...JSON_TYPE, host: 'evil.example' } })).status).toBe(200);
    const origin = `http://127.0.0.1:${portOf()}`;
    await expectRefused(
      await overSocket(STATUS, { ...init, headers: { ...JSON_TYPE, origin } }),
      403,
      'forbidden_origin',
    );
  });
});

describe('what is taken', () => {
  test.each(['GET', 'PUT', 'DELETE', 'PATCH'])('%s is no way to call a tool', async (method) => {
    await expectRefused(await harness.fetch(STATUS, { method }), 405, 'method_not_allowed');
  });

  test('a stream, and the probes, are read with GET only', async () => {
    for (const path of ['/v1/stream?wait=w', '/healthz', '/readyz']) {
      await expectRefused(await post(path, '{}'), 405, 'method_not_allowed');
    }
  });

  test.each([
    ['text/plain', { 'content-type': 'text/plain' }],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['something that only begins like JSON', { 'content-type': 'application/json-patch+json' }],
  ])('a body of %s is refused', async (_what, headers) => {
    await expectRefused(await post(STATUS, '{}', headers), 415, 'unsupported_media_type');
  });

  test('a JSON body with a charset is taken', async () => {
    expect((await post(STATUS, '{}', { 'content-type': 'Application/JSON; charset=utf-8' })).status).toBe(200);
  });

  test.each([
    ['no JSON', '{'],
    ['nothing', ''],
    ['no UTF-8', new Uint8Array([0x22, 0xff, 0x22])],
    ['an array', '[]'],
    ['null', 'null'],
  ])('a body that is %s is refused', async (_what, body) => {
    await expectRefused(await post(STATUS, body), 400, 'invalid_arguments');
  });

  test('a body above the bound is refused, whether it announces itself or not', async () => {
    const large = JSON.stringify({ padding: 'x'.repeat(BODY_BYTES_MAX) });
    await expectRefused(await post(STATUS, large), 413, 'body_too_large');
    const chunks = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(large));
        controller.close();
      },
    });
    await expectRefused(await post(STATUS, chunks), 413, 'body_too_large');
  });

  test('a body at the bound is read', async () => {
    const body = `{}${' '.repeat(BODY_BYTES_MAX - 2)}`;
    expect((await post(STATUS, body)).status).toBe(200);
  });

  test.each(['nothing', 'constructor', '__proto__', 'toString', 'coordinator_status/', '', '%2e%2e'])(
    'there is no tool called %p',
    async (name) => {
      await expectRefused(await post(`/v1/tools/${name}`, '{}'), 404, 'not_found');
    },
  );

  test('an address that is none is refused as such', async () => {
    await expectRefused(await harness.fetch('/'), 404, 'not_found');
    await expectRefused(await harness.fetch('/v1/streams'), 404, 'not_found');
  });

  test.each([
    ['a stream of nothing', '/v1/stream', 400, 'invalid_arguments'],
    ['a stream of two things', '/v1/stream?wait=w&host=h', 400, 'invalid_arguments'],
    ['a stream of an unknown wait', '/v1/stream?wait=w', 404, 'WAIT_NOT_FOUND'],
    ['a stream of an unknown host', '/v1/stream?host=h', 404, 'HOST_NOT_FOUND'],
  ])('%s is refused', async (_what, path, status, code) => {
    await expectRefused(await harness.fetch(path), status, code);
  });
});

describe('arguments', () => {
  const name = 'request_stack_lease';

  test.each([
    ['an unknown key', { surprise: 1 }, 'surprise'],
    ['an unknown key inside', { blocks: [{ port_base: 1, size: 1, colour: 'red' }] }, 'blocks.0.colour'],
    ['a wrong type', { units: 'two' }, 'units'],
    ['a value that is none of the choices', { mode: 'floating' }, 'mode'],
    ['a fraction where a whole number is due', { priority: 0.5 }, 'priority'],
    ['a negative duration', { ttl_ms: -1 }, 'ttl_ms'],
    ['a label that is too long', { labels: { a: 'x'.repeat(300) } }, 'labels.a'],
    ['no idempotency key', { idempotency_key: '' }, 'idempotency_key'],
  ])('%s is named', async (_what, changes, key) => {
    const error = await harness.refused(name, { ...leaseArgs('args'), ...(changes as object) });
    expect(error).toMatchObject({ code: 'invalid_arguments', fields: { key } });
    expect(error.message).toContain(key);
  });

  test('a missing one is named', async () => {
    const { slot, ...rest } = leaseArgs('args');
    expect(slot).toBe('args');
    expect(await harness.refused(name, rest as never)).toMatchObject({ fields: { key: 'slot' } });
  });

  test('no tool takes what it does not know', async () => {
    for (const tool of Object.keys(TOOLS)) {
      const response = await post(`/v1/tools/${tool}`, JSON.stringify({ surprise: 1 }));
      expect((await expectRefused(response, 400, 'invalid_arguments')).message.length).toBeGreaterThan(0);
    }
  });

  test('a bound of the machines keeps its own outcome', async () => {
    expect(await harness.refused(name, leaseArgs('args', { units: 0 }))).toMatchObject({ code: 'INVALID_UNITS' });
    const blocks = Array.from({ length: 17 }, (_, n) => ({ port_base: 40_000 + n * 10, size: 5 }));
    expect(await harness.refused(name, leaseArgs('args', { blocks }))).toMatchObject({ code: 'TOO_MANY_PORT_BLOCKS' });
  });
});

describe('an ending coordinator', () => {
  test('refuses calls so that they are repeated elsewhere, and still says that it is alive', async () => {
    harness.ending = true;
    try {
      await expectRefused(await post(STATUS, '{}'), 503, 'coordinator_ending');
      expect(OUTCOMES.coordinator_ending.retryable).toBe(true);
      expect((await harness.fetch('/healthz')).status).toBe(200);
    } finally {
      harness.ending = false;
    }
  });
});

describe('calls that count', () => {
  test("a Helper's own traffic does not", async () => {
    const before = harness.calls;
    await harness.answer('host_beacon', { host_id: 'h', incarnation: 'i', capacity_units: 1 });
    await harness.answer('renew_job', { job_id: 'j', job_token: 1 });
    expect(harness.calls).toBe(before);
    await harness.call('coordinator_status', {});
    expect(harness.calls).toBe(before + 1);
  });

  test('only the tools of a Helper are marked as its own', () => {
    const marked = Object.keys(TOOLS).filter((name) => TOOLS[name as ToolName].fromHelper);
    expect(marked).toEqual([
      'claim_job',
      'complete_job',
      'defer_job',
      'fail_job',
      'host_beacon',
      'register_host',
      'renew_job',
      'report_stack_lost',
    ]);
  });
});

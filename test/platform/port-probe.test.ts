import { expect, test } from 'bun:test';
import { holdPort, portIsFree } from '../../src/platform/port-probe.ts';

test.each(['0.0.0.0', '127.0.0.1', '::', '::1'])(
  'a port that is bound on %s is not free, and free again afterwards',
  (hostname) => {
    const listener = listenOn(hostname);
    if (listener === null) return;
    expect(portIsFree(listener.port)).toBeFalse();
    listener.stop(true);
    expect(portIsFree(listener.port)).toBeTrue();
  },
);

test('a probe leaves nothing bound', () => {
  const port = freePort();
  for (let round = 0; round < 3; round += 1) expect(portIsFree(port)).toBeTrue();
});

test('a held port is taken until it is released', () => {
  const port = freePort();
  const held = holdPort(port);
  expect(held?.port).toBe(port);
  expect(portIsFree(port)).toBeFalse();
  expect(holdPort(port)).toBeNull();
  held?.release();
  expect(portIsFree(port)).toBeTrue();
});

test('who connects to a held port is hung up on', async () => {
  using held = holdPort(freePort());
  const { promise, resolve } = Promise.withResolvers<string>();
  await Bun.connect({
    hostname: '127.0.0.1',
    port: held?.port ?? 0,
    socket: { data: () => resolve('data'), close: () => resolve('closed'), error: () => resolve('closed') },
  });
  expect(await promise).toBe('closed');
});

function freePort(): number {
  const listener = listenOn('127.0.0.1');
  listener?.stop(true);
  return listener?.port ?? 0;
}

/** Null where the machine has no such address. */
function listenOn(hostname: string): Bun.TCPSocketListener<undefined> | null {
  try {
    return Bun.listen({ hostname, port: 0, socket: { data() {} } });
  } catch {
    return null;
  }
}

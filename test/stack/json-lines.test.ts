import { describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { connectLines, serveLines } from '../../src/stack/_json-lines.ts';
import { eventually } from '../support/eventually.ts';
import { makeTempDir } from '../support/temp-home.ts';

const ignore = { onLine: () => {}, onClose: () => {} };

describe('lines over a socket', () => {
  test('arrive whole, in order and in both directions, large ones too', async () => {
    using temp = makeTempDir();
    const path = join(temp.path, 's.sock');
    const server = await serveLines(path, (value, channel) => channel.send({ echo: value }));
    const seen: unknown[] = [];
    const channel = await connectLines(path, { onLine: (value) => seen.push(value), onClose: () => {} });
    const long = 'ü🙂'.repeat(50_000);
    for (const value of [1, { a: 'b\nc' }, long]) channel?.send(value);
    await eventually('three answers', () => seen.length === 3);
    expect(seen).toEqual([{ echo: 1 }, { echo: { a: 'b\nc' } }, { echo: long }]);
    channel?.close();
    server.close();
  });

  test('cannot be opened where nobody listens, where a file lies, or where nothing is', async () => {
    using temp = makeTempDir();
    writeFileSync(join(temp.path, 'file'), '');
    expect(await connectLines(join(temp.path, 'file'), ignore)).toBeNull();
    expect(await connectLines(join(temp.path, 'nothing'), ignore)).toBeNull();
  });

  test('are served where a killed server left its socket', async () => {
    using temp = makeTempDir();
    const path = join(temp.path, 's.sock');
    const script = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`;
    await Bun.spawn([process.execPath, '-e', script]).exited;
    expect(await connectLines(path, ignore)).toBeNull();
    const server = await serveLines(path, () => {});
    const channel = await connectLines(path, ignore);
    expect(channel).not.toBeNull();
    channel?.close();
    server.close();
  });

  test('that are no JSON end the connection, and only that one', async () => {
    using temp = makeTempDir();
    const path = join(temp.path, 's.sock');
    const server = await serveLines(path, (value, channel) => channel.send(value));
    const seen: unknown[] = [];
    const good = await connectLines(path, { onLine: (value) => seen.push(value), onClose: () => {} });
    const bad = createConnection(path);
    let ended = false;
    bad.on('close', () => {
      ended = true;
    });
    bad.write('no json\n');
    await eventually('the end of the bad connection', () => ended);
    good?.send('still here');
    await eventually('an answer', () => seen.length === 1);
    good?.close();
    server.close();
  });

  test('end for the client when the server closes', async () => {
    using temp = makeTempDir();
    const path = join(temp.path, 's.sock');
    const server = await serveLines(path, () => {});
    let closed = false;
    await connectLines(path, {
      onLine: () => {},
      onClose: () => {
        closed = true;
      },
    });
    server.close();
    await eventually('the close', () => closed);
  });
});

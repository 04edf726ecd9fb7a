import { describe, expect, test } from 'bun:test';
import { createServer } from 'node:net';
import { listeningInodes, ownerOfPort } from '../../src/stack/_port-owners.ts';
import { freeRange } from './_claim-setting.ts';

const TABLE = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:4E20 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 100 0 0 10 0
   2: 00000000000000000000000001000000:4E21 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1
`;

describe('the table of sockets', () => {
  test.each([
    [20_000, ['111']],
    [20_001, ['333']],
    [40_000, []],
  ])('names what listens on %p', (port, inodes) => expect(listeningInodes(TABLE, port)).toEqual(inodes as string[]));
});

test.skipIf(process.platform !== 'linux')('a port belongs to the process that listens on it', async () => {
  const { first } = freeRange(1);
  expect(ownerOfPort(first, [process.pid])).toBe('nobody');
  const server = createServer();
  await new Promise<void>((done) => server.listen(first, '127.0.0.1', done));
  try {
    expect(ownerOfPort(first, [process.pid])).toBe('ours');
    expect(ownerOfPort(first, [])).toBe('foreign');
  } finally {
    server.close();
  }
});

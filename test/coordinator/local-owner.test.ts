import { describe, expect, test } from 'bun:test';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ensureOwnerCredential } from '../../src/coordinator/local-owner.ts';
import { MemoryDisk, MemoryLog } from '../../src/log/memory-log.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { newId, randomToken, sha256Hex } from '../../src/platform/random.ts';
import { makeTempDir } from '../support/temp-home.ts';

const tokenIn = (path: string): string => (JSON.parse(readFileSync(path, 'utf8')) as { token: string }).token;

async function made(): Promise<{ path: string; log: MemoryLog; disk: MemoryDisk; dir: Disposable }> {
  const dir = makeTempDir();
  const path = join(dir.path, 'owner.json');
  const disk = new MemoryDisk(newId());
  const log = new MemoryLog(disk);
  await ensureOwnerCredential(log, path, systemClock);
  return { path, log, disk, dir };
}

describe("the owner's credential", () => {
  test('is made once, readable by its owner alone, and names the server it is for', async () => {
    const { path, dir } = await made();
    using _dir = dir;
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({
      schema_version: 1,
      token: expect.stringMatching(/^bbo_[0-9A-Za-z]{49}$/),
      server: 'embedded',
    });
  });

  test('is known to the log by its hash only', async () => {
    const { path, log, disk, dir } = await made();
    using _dir = dir;
    const token = tokenIn(path);
    expect(await log.readMeta('owner_token_sha256')).toBe(sha256Hex(token));
    expect(JSON.stringify([...disk.meta])).not.toContain(token);
  });

  test('stays when the coordinator starts again, though the database is a new one', async () => {
    const { path, dir } = await made();
    using _dir = dir;
    const token = tokenIn(path);
    const fresh = new MemoryLog(new MemoryDisk(newId()));
    const authenticator = await ensureOwnerCredential(fresh, path, systemClock);
    expect(tokenIn(path)).toBe(token);
    expect(authenticator.authenticate(`Bearer ${token}`)).toEqual({ principal: 'owner', tenant: 'local' });
  });

  test.each([
    ['nothing', ''],
    ['no JSON', '{'],
    ['a token that is none', JSON.stringify({ schema_version: 1, token: 'x', server: 'embedded', created_at: '' })],
    [
      'a credential for another server',
      JSON.stringify({ schema_version: 1, token: randomToken('bbo'), server: 'https://else', created_at: '' }),
    ],
  ])('is made anew when the file holds %s, which is set aside', async (_what, content) => {
    const { path, log, dir } = await made();
    using _dir = dir;
    const old = tokenIn(path);
    writeFileSync(path, content);
    const authenticator = await ensureOwnerCredential(log, path, systemClock);
    expect(tokenIn(path)).not.toBe(old);
    expect(readFileSync(`${path}.replaced`, 'utf8')).toBe(content);
    expect(authenticator.authenticate(`Bearer ${tokenIn(path)}`)).not.toBeNull();
    expect(authenticator.authenticate(`Bearer ${old}`)).toBeNull();
  });
});

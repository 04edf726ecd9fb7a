import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { ownIdentity } from '../../src/platform/processes.ts';
import { readInventory } from '../../src/stack/claim-files.ts';
import { abandonClaims, claimBlocks } from '../../src/stack/claim-registry.ts';
import { blocksOverlap } from '../../src/stack/claim-rules.ts';
import { slotOf } from '../../src/stack/slot.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { claimSetting, freeRange, SIZE } from './_claim-setting.ts';

const otherSlot = (name: string) =>
  slotOf({ tenant: 'local', gitCommonDir: `/${name}/.git`, worktreeRoot: `/${name}` });

test('32 processes that claim at once, half of them blocks of another size, get 32 disjoint blocks', async () => {
  using temp = makeTempDir();
  const home = join(temp.path, 'home');
  const count = 32;
  const { first, last } = freeRange(4 * count);
  const script = join(import.meta.dir, 'fixtures', 'claim-one.ts');
  const children = Array.from({ length: count }, (_, index) => {
    const size = index % 2 === 0 ? SIZE : SIZE + 2;
    const argv = [process.execPath, script, home, `r${index}`, ...[first, last, size].map(String)];
    return Bun.spawn(argv, { stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' });
  });
  try {
    const lines = children.map(({ stdout }) => linesOf(stdout));
    await Promise.all(lines.map(async (line) => expect((await line.next()).value).toBe('ready')));
    for (const { stdin } of children) stdin.write('go\n');
    const bases = await Promise.all(lines.map(async (line) => Number((await line.next()).value)));
    const { claims, unknown } = readInventory(home);
    expect(unknown).toEqual([]);
    expect(claims.map(({ port_base }) => port_base).sort()).toEqual(bases.sort());
    expect(claims).toHaveLength(count);
    for (const claim of claims) {
      expect(claims.filter((other) => blocksOverlap(claim, other))).toEqual([claim]);
    }
  } finally {
    for (const { stdin } of children) stdin.end();
    await Promise.all(children.map(({ exited }) => exited));
  }
}, 60_000);

test('200 rounds of claiming and giving back never hold a block twice', async () => {
  using setting = claimSetting(6);
  const held = new Map<string, number>();
  for (let round = 0; round < 200; round += 1) {
    const name = `w${(round * 7) % 5}`;
    if (held.has(name)) {
      await abandonClaims({ home: setting.home, token: name, answer: 'refused' });
      held.delete(name);
      continue;
    }
    const { preferred: _, ...request } = setting.request({
      slot: otherSlot(name),
      stackDir: `/${name}`,
      invocationToken: name,
    });
    held.set(name, (await claimBlocks({ ...request, owner: ownIdentity() })).got);
    expect(new Set(held.values()).size).toBe(held.size);
  }
}, 60_000);

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let pending = '';
  for await (const chunk of stream) {
    const lines = (pending + new TextDecoder().decode(chunk)).split('\n');
    pending = lines.pop() ?? '';
    yield* lines;
  }
}

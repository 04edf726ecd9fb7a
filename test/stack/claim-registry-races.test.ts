import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { ownIdentity } from '../../src/platform/processes.ts';
import { readInventory } from '../../src/stack/claim-files.ts';
import { abandonClaims, claimBlocks } from '../../src/stack/claim-registry.ts';
import { slotOf } from '../../src/stack/slot.ts';
import { makeTempDir } from '../support/temp-home.ts';
import { claimSetting, freeRange, SIZE } from './_claim-setting.ts';

const otherSlot = (name: string) =>
  slotOf({ tenant: 'local', gitCommonDir: `/${name}/.git`, worktreeRoot: `/${name}` });

test('32 processes of different repositories that claim at once get 32 disjoint blocks', async () => {
  using temp = makeTempDir();
  const count = 32;
  const range = freeRange(count + 8);
  const script = join(import.meta.dir, 'fixtures', 'claim-one.ts');
  const children = Array.from({ length: count }, (_, index) =>
    Bun.spawn(
      [process.execPath, script, join(temp.path, 'home'), `r${index}`, ...[range.first, range.last, SIZE].map(String)],
      { stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' },
    ),
  );
  try {
    const bases = await Promise.all(children.map(async (child) => Number(await firstLine(child.stdout))));
    expect(new Set(bases).size).toBe(count);
    for (const base of bases) expect((base - range.first) % SIZE).toBe(0);
    const inventory = readInventory(join(temp.path, 'home'));
    expect(inventory.unknown).toEqual([]);
    expect(inventory.claims.map(({ port_base }) => port_base).sort()).toEqual(bases.sort());
  } finally {
    for (const child of children) child.stdin.end();
    await Promise.all(children.map((child) => child.exited));
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

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = '';
  for await (const chunk of stream) {
    text += new TextDecoder().decode(chunk);
    if (text.includes('\n')) break;
  }
  return text.trim();
}

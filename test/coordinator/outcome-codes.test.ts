import { describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { OUTCOMES } from '../../src/protocol/outcomes.ts';

describe('the table of outcomes', () => {
  test('knows every refusal of the machines and every failure of this room', () => {
    const unknown: string[] = [];
    for (const room of ['core', 'coordinator', 'log']) {
      const dir = join(import.meta.dir, '../../src', room);
      for (const file of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
        if (!file.endsWith('.ts')) continue;
        const source = readFileSync(join(dir, file), 'utf8');
        for (const match of source.matchAll(/(?:refuse|refused|refusal|new Failure)\(\s*'([A-Za-z_]+)'/g)) {
          const code = match[1] ?? '';
          if (!Object.hasOwn(OUTCOMES, code)) unknown.push(`${room}/${file}: ${code}`);
        }
      }
    }
    expect(unknown).toEqual([]);
  });
});

import { describe, expect, test } from 'bun:test';
import { configureLogging } from '../../src/platform/logging.ts';
import { PROFILES } from './faults.ts';
import { seededRandom } from './random.ts';
import { simulate } from './simulation.ts';

configureLogging({ level: 'silent' });

const SEEDS_A_PROFILE = 3;

describe('a simulated day', () => {
  for (const { name } of PROFILES) {
    test(`under ${name} breaks no promise and comes to rest`, async () => {
      for (let seed = 1; seed <= SEEDS_A_PROFILE; seed += 1) {
        const { violations, operations } = await simulate({ seed, operations: 1_000, profile: name });
        expect(violations).toEqual([]);
        expect(operations).toBe(1_000);
      }
    }, 30_000);
  }

  test('is the same day again for the same seed, and another one for another seed', async () => {
    const [first, again, other] = [
      await simulate({ seed: 7, operations: 400 }),
      await simulate({ seed: 7, operations: 400 }),
      await simulate({ seed: 16, operations: 400 }),
    ];
    expect(again).toEqual(first);
    expect(other.profile).toBe(first.profile);
    expect(other.trace).not.toBe(first.trace);
  });

  test('has runs that end in every way there is', async () => {
    const ends = new Set<string>();
    for (let seed = 1; seed <= 27; seed += 1) {
      for (const end of Object.keys((await simulate({ seed, operations: 1_000 })).ends)) ends.add(end);
    }
    for (const end of [
      'run 0',
      'run 1',
      'run 2',
      'run 5',
      'run 6',
      'run 8',
      'run 143',
      'run killed',
      'up 0',
      'done 0',
      'wait 0',
    ]) {
      expect([...ends]).toContain(end);
    }
  }, 60_000);
});

describe('the command', () => {
  const run = (...args: string[]) => {
    const { stdout, exitCode } = Bun.spawnSync([process.execPath, `${import.meta.dir}/simulate.ts`, ...args]);
    return { lines: stdout.toString().trimEnd().split('\n'), exitCode };
  };

  test('ends with one line that counts, and gives the same trace for the same arguments', () => {
    const [first, again] = [
      run('--seeds', '3', '--seed', '5', '--ops', '200'),
      run('--seeds', '3', '--seed', '5', '--ops', '200'),
    ];
    expect(first.exitCode).toBe(0);
    expect(first.lines.at(-1)).toMatch(/^3 seeds, 600 operations, 0 violations, trace [0-9a-f]{16}$/);
    expect(again).toEqual(first);
  });

  test('refuses what is no number', () => {
    expect(run('--seeds', 'many').exitCode).not.toBe(0);
  });
});

describe('the seeded generator', () => {
  test('repeats itself for a seed and keeps to its bounds', () => {
    const [a, b] = [seededRandom(42), seededRandom(42)];
    for (let i = 0; i < 1_000; i += 1) {
      const value = a.between(3, 9);
      expect(b.between(3, 9)).toBe(value);
      expect(value >= 3 && value <= 9).toBe(true);
    }
    expect(seededRandom(1).uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
  });
});

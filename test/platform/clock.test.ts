import { expect, test } from 'bun:test';
import { systemClock } from '../../src/platform/clock.ts';

test('the wall clock tells milliseconds since the epoch', () => {
  expect(Math.abs(systemClock.wallMs() - Date.now())).toBeLessThan(1_000);
});

test('the monotonic clock never goes back', () => {
  let before = systemClock.monotonicMs();
  for (let index = 0; index < 1_000; index += 1) {
    const now = systemClock.monotonicMs();
    expect(now).toBeGreaterThanOrEqual(before);
    before = now;
  }
});

test('two processes of one boot read the same uptime', () => {
  const script = `import { systemClock } from ${JSON.stringify(require.resolve('../../src/platform/clock.ts'))};
    console.log(systemClock.uptimeMs());`;
  const before = systemClock.uptimeMs();
  const other = Number(Bun.spawnSync([process.execPath, '-e', script]).stdout.toString());
  expect(other).toBeGreaterThanOrEqual(before);
  expect(other).toBeLessThanOrEqual(systemClock.uptimeMs());
});

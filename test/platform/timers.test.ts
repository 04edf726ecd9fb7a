import { expect, test } from 'bun:test';
import { after, deadlineIn, every, sleepMs, withTimeout } from '../../src/platform/timers.ts';

test('a sleep ends by itself', async () => {
  expect(await sleepMs(1)).toBe('elapsed');
});

test('a sleep ends early when its signal aborts', async () => {
  const controller = new AbortController();
  const sleeping = sleepMs(3_600_000, controller.signal);
  controller.abort();
  expect(await sleeping).toBe('aborted');
});

test('a sleep does not begin under an aborted signal', async () => {
  expect(await sleepMs(3_600_000, AbortSignal.abort())).toBe('aborted');
});

test('a timer longer than the runtime can count does not fire at once', async () => {
  let fired = false;
  const cancel = after(90 * 24 * 3_600_000, () => {
    fired = true;
  });
  await sleepMs(20);
  cancel();
  expect(fired).toBeFalse();
});

test('a repeated action stops when told', async () => {
  let count = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = every(1, () => {
    count += 1;
    if (count === 3) {
      stop();
      resolve();
    }
  });
  await promise;
  await sleepMs(10);
  expect(count).toBe(3);
});

test('a deadline follows the monotonic clock that it was given', () => {
  let now = 500;
  const clock = { wallMs: () => 0, monotonicMs: () => now, uptimeMs: () => 0 };
  const deadline = deadlineIn(100, clock);
  expect(deadline.remainingMs()).toBe(100);
  now = 599;
  expect(deadline.expired()).toBeFalse();
  now = 600;
  expect(deadline.expired()).toBeTrue();
  now = 900;
  expect(deadline.remainingMs()).toBe(0);
});

test('a promise that takes too long is given up, one in time is not', async () => {
  expect(await withTimeout(new Promise(() => {}), 1)).toBe('timed_out');
  expect(await withTimeout(Promise.resolve(7), 10_000)).toBe(7);
  expect(withTimeout(Promise.reject(new Error('no')), 10_000)).rejects.toThrow('no');
});

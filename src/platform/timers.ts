import { type Clock, systemClock } from './clock.ts';

/** The runtime's own timers fire at once when asked for more than this. */
const LONGEST_TIMER_MS = 2_147_483_647;

/** Runs `action` once after `ms` (of any length); the returned function cancels it. */
export function after(ms: number, action: () => void): () => void {
  let remainingMs = Math.max(0, ms);
  let handle: ReturnType<typeof setTimeout>;
  const arm = () => {
    const stepMs = Math.min(remainingMs, LONGEST_TIMER_MS);
    remainingMs -= stepMs;
    handle = setTimeout(() => (remainingMs > 0 ? arm() : action()), stepMs);
  };
  arm();
  return () => clearTimeout(handle);
}

/** Runs `action` every `ms` until the returned function is called. */
export function every(ms: number, action: () => void): () => void {
  const handle = setInterval(action, ms);
  return () => clearInterval(handle);
}

/** Resolves after `ms`, or earlier when `signal` aborts; never rejects. */
export function sleepMs(ms: number, signal?: AbortSignal): Promise<'elapsed' | 'aborted'> {
  if (signal?.aborted) return Promise.resolve('aborted');
  return new Promise((resolve) => {
    const onAbort = () => {
      cancel();
      resolve('aborted');
    };
    const cancel = after(ms, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve('elapsed');
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

export interface Deadline {
  remainingMs(): number;
  expired(): boolean;
}

/** A point in awake time; never affected by the wall clock. */
export function deadlineIn(ms: number, clock: Clock = systemClock): Deadline {
  const at = clock.monotonicMs() + ms;
  return {
    remainingMs: () => Math.max(0, at - clock.monotonicMs()),
    expired: () => clock.monotonicMs() >= at,
  };
}

/** The promise's value, or `timed_out` when it takes longer; the promise itself goes on. */
export function withTimeout<T>(promise: Promise<T>, ms: number): Promise<T | 'timed_out'> {
  return new Promise((resolve, reject) => {
    const cancel = after(ms, () => resolve('timed_out'));
    promise.then(
      (value) => {
        cancel();
        resolve(value);
      },
      (error: unknown) => {
        cancel();
        reject(error);
      },
    );
  });
}

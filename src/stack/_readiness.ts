/** Whether a service answers yet: a connection, a response, or a command that ends with 0. One try each. */
import { createConnection } from 'node:net';
import { endProcessTree, type SpawnOptions, spawnChild } from '../platform/processes.ts';
import { deadlineIn, sleepMs, withTimeout } from '../platform/timers.ts';
import type { PlannedReady } from '../protocol/stack-plan.ts';

const PAUSE_MS_MIN = 20;
const PAUSE_MS_MAX = 250;
const TRY_MS_MAX = 5_000;

export interface ReadinessQuestion {
  /** With its templates filled in. */
  readonly ready: PlannedReady;
  readonly host: string;
  /** How an exec check is started; its argv is the check's. */
  readonly spawn: Omit<SpawnOptions, 'argv'>;
  readonly signal: AbortSignal;
}

/** Tries until the service answers, the time is over or the signal aborts. */
export async function waitUntilReady(question: ReadinessQuestion): Promise<'ready' | 'timeout' | 'aborted'> {
  const deadline = deadlineIn(question.ready.timeout_ms);
  let pauseMs = PAUSE_MS_MIN;
  for (;;) {
    if (question.signal.aborted) return 'aborted';
    if (await answersOnce(question, Math.max(1, deadline.remainingMs())))
      return question.signal.aborted ? 'aborted' : 'ready';
    if (deadline.expired()) return 'timeout';
    if ((await sleepMs(Math.min(pauseMs, deadline.remainingMs()), question.signal)) === 'aborted') return 'aborted';
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX);
  }
}

function answersOnce(question: ReadinessQuestion, remainingMs: number): Promise<boolean> {
  const { ready } = question;
  const tryMs = Math.min(TRY_MS_MAX, remainingMs);
  switch (ready.kind) {
    case 'tcp':
      return tcpAnswers(question.host, ready.port, tryMs);
    case 'http':
      return httpAnswers(ready.url, tryMs);
    case 'exec':
      return execEndsWell(question, ready.command, remainingMs);
  }
}

function tcpAnswers(host: string, port: number, tryMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ host, port });
    const end = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(tryMs, () => end(false));
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}

/** A status from 200 to 399. Spoken by hand: no proxy of the environment, no redirect, no kept connection. */
function httpAnswers(address: string, tryMs: number): Promise<boolean> {
  const url = URL.parse(address);
  if (url === null) return Promise.resolve(false);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve) => {
    let text = '';
    const socket = createConnection({ host, port: Number(url.port || 80) });
    const end = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setEncoding('latin1');
    socket.setTimeout(tryMs, () => end(false));
    socket.once('connect', () => {
      socket.write(`GET ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\nConnection: close\r\n\r\n`);
    });
    socket.on('data', (chunk: string) => {
      text += chunk;
      if (text.includes('\n') || text.length > 1_024) end(/^HTTP\/1\.[01] [23]\d\d\b/.test(text));
    });
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
  });
}

async function execEndsWell(question: ReadinessQuestion, argv: readonly string[], tryMs: number): Promise<boolean> {
  const child = spawnChild({ ...question.spawn, argv });
  const outcome = await withTimeout(raceAbort(child.exited, question.signal), tryMs);
  if (typeof outcome !== 'string') return outcome.exit_code === 0;
  await endProcessTree({ groups: [child.identity], graceMs: 0 });
  return false;
}

export function raceAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | 'aborted'> {
  return new Promise((resolve, reject) => {
    const onAbort = () => resolve('aborted');
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

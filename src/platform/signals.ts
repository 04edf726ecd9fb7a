import { readFileSync } from 'node:fs';
import { constants } from 'node:os';

export type TerminationSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

const TERMINATION_SIGNALS: readonly TerminationSignal[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/**
 * Calls `handler` for every signal that asks this process to end, until the returned function is called.
 * SIGHUP stays ignored where the process was started so (`nohup`).
 */
export function onTerminationSignals(handler: (signal: TerminationSignal) => void): () => void {
  const heard = TERMINATION_SIGNALS.filter((name) => name !== 'SIGHUP' || !ignoredAtStart(name));
  const listeners = heard.map((name) => ({ name, listener: () => handler(name) }));
  for (const { name, listener } of listeners) process.on(name, listener);
  return () => {
    for (const { name, listener } of listeners) process.off(name, listener);
  };
}

/** The exit code that a shell gives a process that this signal ended. */
export function exitCodeOfSignal(signal: string): number {
  const number = Object.entries(constants.signals).find(([name]) => name === signal)?.[1];
  return 128 + (number ?? Number(/^SIG(\d+)$/.exec(signal)?.[1] ?? 0));
}

function ignoredAtStart(name: TerminationSignal): boolean {
  try {
    const mask = /^SigIgn:\s*([0-9a-f]+)/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1] ?? '0';
    return ((BigInt(`0x${mask}`) >> BigInt(constants.signals[name] - 1)) & 1n) === 1n;
  } catch {
    return false;
  }
}

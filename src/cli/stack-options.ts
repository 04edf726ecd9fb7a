/** The options that `stack run`, `up` and `plan` share, and how they are read. */
import type { ArgsDef } from 'citty';
import type { StackWishes } from '../flows/stack-context.ts';
import { Failure } from '../platform/failure.ts';
import { parseDurationMs } from '../protocol/duration.ts';
import type { ParsedArgv } from './argv.ts';
import { textFlag } from './command.ts';

export const PLACE_ARGS: ArgsDef = {
  slot: { type: 'string', description: 'a name for the stack, instead of one by worktree', valueHint: 'NAME' },
  'stack-path': { type: 'string', description: 'directory of the stack inside the worktree (.)', valueHint: 'DIR' },
  units: { type: 'string', description: 'units of host capacity that the stack takes', valueHint: 'N' },
};

export const OUTPUT_ARGS: ArgsDef = {
  json: { type: 'boolean', description: 'pretty-print the receipt' },
  'receipt-file': { type: 'string', description: 'write the receipt to this file instead of stdout', valueHint: 'P' },
  'receipt-max-bytes': { type: 'string', description: 'cut the receipt to this size (10240)', valueHint: 'N' },
};

export const REQUEST_ARGS: ArgsDef = {
  ...PLACE_ARGS,
  timeout: { type: 'string', description: 'budget over all parks (30m)', valueHint: 'DUR' },
  'provision-timeout': { type: 'string', description: 'longest wait for the stack to get ready', valueHint: 'DUR' },
  'idle-ttl': { type: 'string', description: 'how long an idle stack is kept (30m)', valueHint: 'DUR' },
  priority: { type: 'string', description: 'rank in the queue, higher first (0)', valueHint: 'N' },
  'wait-slot': { type: 'boolean', description: "park until this slot's live lease ends, instead of a refusal" },
  purpose: { type: 'string', description: 'what the stack is for', valueHint: 'TEXT' },
  ticket: { type: 'string', description: 'ticket that the work belongs to', valueHint: 'ID' },
  'ticket-url': { type: 'string', description: 'its address', valueHint: 'URL' },
  'pr-id': { type: 'string', description: 'pull request that the work belongs to', valueHint: 'ID' },
  'pr-url': { type: 'string', description: 'its address', valueHint: 'URL' },
  ...OUTPUT_ARGS,
};

const DEFAULT_TIMEOUT_MS = 1_800_000;
const LABELS = ['purpose', 'ticket', 'ticket-url', 'pr-id', 'pr-url'] as const;

export function wishesOf(argv: ParsedArgv): StackWishes {
  const slot = textFlag(argv, 'slot');
  const units = wholeNumber(argv, 'units', 1);
  const idleTtlMs = duration(argv, 'idle-ttl');
  return {
    stackPath: textFlag(argv, 'stack-path') ?? '.',
    ...(slot === undefined ? {} : { slot }),
    ...(units === undefined ? {} : { units }),
    ...(idleTtlMs === undefined ? {} : { idleTtlMs }),
  };
}

export function timeouts(argv: ParsedArgv): { timeoutMs: number; provisionTimeoutMs: number } {
  const timeoutMs = duration(argv, 'timeout') ?? DEFAULT_TIMEOUT_MS;
  return { timeoutMs, provisionTimeoutMs: duration(argv, 'provision-timeout') ?? timeoutMs };
}

export function labelsOf(argv: ParsedArgv): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const name of LABELS) {
    const value = textFlag(argv, name);
    if (value !== undefined) labels[name.replaceAll('-', '_')] = value;
  }
  return labels;
}

/** A duration flag in milliseconds; undefined when it is not given. */
export function duration(argv: ParsedArgv, name: string): number | undefined {
  const text = textFlag(argv, name);
  if (text === undefined) return undefined;
  try {
    return parseDurationMs(text);
  } catch (error) {
    throw new Failure('invalid_arguments', `--${name}: ${(error as Error).message}`, { cause: error });
  }
}

export function wholeNumber(argv: ParsedArgv, name: string, least: number): number | undefined {
  const text = textFlag(argv, name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!/^-?\d+$/.test(text) || value < least) {
    throw new Failure('invalid_arguments', `--${name} ${text}: a whole number from ${least} on`);
  }
  return value;
}

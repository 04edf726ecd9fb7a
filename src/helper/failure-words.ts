/** Failures as the coordinator and the receipt get them: a class, and the driver's own words with a service's last lines. */
import { Failure } from '../platform/failure.ts';
import type { LookedForEntry } from './attest.ts';

const ERROR_CHARS_MAX = 2_000;

export interface FailureWords {
  error_class: string;
  error: string;
}

export function failureOf(thrown: unknown): FailureWords {
  if (!(thrown instanceof Failure)) {
    return { error_class: 'internal', error: cut(thrown instanceof Error ? thrown.message : String(thrown)) };
  }
  const { lines } = thrown.fields;
  const tail = Array.isArray(lines) && lines.length > 0 ? `\n${lines.join('\n')}` : '';
  return { error_class: thrown.code, error: cut(`${thrown.message}${tail}`) };
}

/** What a look found that should be gone. */
export function stillThere(lookedFor: readonly LookedForEntry[]): FailureWords {
  const found = lookedFor.filter(({ after }) => after !== 'absent');
  const present = found.some(({ after }) => after === 'present');
  const names = found.map(({ kind, id, after }) => `${kind} ${id} (${after})`).join(', ');
  return {
    error_class: present ? 'cleanup_still_present' : 'cleanup_unknown',
    error: cut(found.length === 0 ? 'cleanup is not proven: nothing was looked for' : `still there: ${names}`),
  };
}

/** The end of a long text is what tells why it failed; the beginning says what failed. */
function cut(text: string): string {
  if (text.length <= ERROR_CHARS_MAX) return text;
  const head = text.slice(0, ERROR_CHARS_MAX / 4);
  return `${head}\n...\n${text.slice(head.length + 5 - ERROR_CHARS_MAX)}`;
}

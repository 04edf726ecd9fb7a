/** The one error class: a code of the outcome table, what happened in words, the cause, and fields for the receipt. */
export class Failure extends Error {
  readonly code: string;
  readonly fields: Readonly<Record<string, unknown>>;

  constructor(code: string, message: string, options: { cause?: unknown; fields?: Record<string, unknown> } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'Failure';
    this.code = code;
    this.fields = options.fields ?? {};
  }
}

const ERRNO_NAME = /^E[A-Z0-9]+$/;

/** The errno name (`ENOENT`) that an error carries, looked up through its causes. */
export function errnoOf(error: unknown): string | null {
  let current: unknown = error;
  for (let depth = 0; depth < 8 && current instanceof Error; depth += 1) {
    if (current instanceof Failure) {
      const recorded = current.fields['errno'];
      if (typeof recorded === 'string') return recorded;
    } else if ('code' in current && typeof current.code === 'string' && ERRNO_NAME.test(current.code)) {
      return current.code;
    }
    current = current.cause;
  }
  return null;
}

/** A bug, never a refusal: thrown when the machines contradict themselves. Stays on in production. */
export class AssertionFailure extends Error {
  override readonly name = 'AssertionFailure';
}

export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new AssertionFailure(message);
}

export function must<T>(value: T | null | undefined, what: string): T {
  if (value === null || value === undefined) throw new AssertionFailure(`missing ${what}`);
  return value;
}

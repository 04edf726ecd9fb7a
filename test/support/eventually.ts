/** Waits until `probe` answers something other than false, null or undefined; fails with the condition's name. */
export async function eventually<T>(
  condition: string,
  probe: () => T | Promise<T>,
  { withinMs = 10_000, everyMs = 20 }: { withinMs?: number; everyMs?: number } = {},
): Promise<NonNullable<Exclude<T, false>>> {
  const until = performance.now() + withinMs;
  let lastError: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value !== false && value !== null && value !== undefined) return value as NonNullable<Exclude<T, false>>;
    } catch (error) {
      lastError = error;
    }
    if (performance.now() > until) throw new Error(`not within ${withinMs} ms: ${condition}`, { cause: lastError });
    await Bun.sleep(everyMs);
  }
}

/** Durations as people write them in flags and config: a positive number with an optional unit, none means seconds. */
const MS_PER_UNIT: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const SHAPE = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/;
/** A hundred years: longer is a typing error. */
const DURATION_MS_MAX = 100 * 366 * 24 * 3_600_000;

export const DURATION_RULE = 'a positive number with an optional ms, s, m or h (no unit means seconds)';

/** Milliseconds, or null when it is not a duration. */
export function readDurationMs(value: unknown): number | null {
  if (typeof value !== 'string' && typeof value !== 'number') return null;
  const [, digits, unit] = SHAPE.exec(String(value)) ?? [];
  if (digits === undefined) return null;
  const ms = Math.round(Number(digits) * (MS_PER_UNIT[unit ?? 's'] ?? Number.NaN));
  return ms >= 1 && ms <= DURATION_MS_MAX ? ms : null;
}

/** The same for text that was checked before; anything else is a RangeError. */
export function parseDurationMs(value: string | number): number {
  const ms = readDurationMs(value);
  if (ms === null) throw new RangeError(`${JSON.stringify(value)} is not a duration: ${DURATION_RULE}`);
  return ms;
}

/** A small seeded generator (xorshift128, seeded by splitmix32): the only source of chance in a simulation. */
export interface SeededRandom {
  /** A whole number from 0 to `bound - 1`. */
  below(bound: number): number;
  between(first: number, last: number): number;
  chance(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
  /** An id in the shape of a UUID. */
  uuid(): string;
  /** A generator of its own, so that one actor's draws do not shift another's. */
  fork(): SeededRandom;
}

export function seededRandom(seed: number): SeededRandom {
  let mixed = seed >>> 0;
  const splitmix = (): number => {
    mixed = (mixed + 0x9e3779b9) >>> 0;
    let z = mixed;
    z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
    z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
    return (z ^ (z >>> 16)) >>> 0;
  };
  let [a, b, c, d] = [splitmix(), splitmix(), splitmix(), splitmix() | 1];
  const next = (): number => {
    const t = a ^ (a << 11);
    [a, b, c] = [b, c, d];
    d = (d ^ (d >>> 19) ^ t ^ (t >>> 8)) >>> 0;
    return d;
  };
  const below = (bound: number): number => Math.floor((next() / 0x1_0000_0000) * bound);
  const hex = (digits: number): string => {
    let text = '';
    while (text.length < digits) text += next().toString(16).padStart(8, '0');
    return text.slice(0, digits);
  };
  return {
    below,
    between: (first, last) => first + below(last - first + 1),
    chance: (probability) => next() < probability * 0x1_0000_0000,
    pick: <T>(from: readonly T[]): T => {
      const picked = from[below(from.length)];
      if (picked === undefined) throw new RangeError('nothing to pick from');
      return picked;
    },
    uuid: () => `${hex(8)}-${hex(4)}-4${hex(3)}-8${hex(3)}-${hex(12)}`,
    fork: () => seededRandom(next()),
  };
}

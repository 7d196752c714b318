export interface BackOff {
  /** From 1. */
  attempt: number;
  firstMs: number;
  maxMs: number;
  /** 0 to 1. Without it the pause does not vary. */
  random?: number;
  /** Factors of the pause for a `random` of 0 and of 1. */
  range?: readonly [least: number, most: number];
}

/** The pause before the next attempt: it doubles, up to `maxMs`. */
export function backOffMs({ attempt, firstMs, maxMs, random, range = [0.8, 1.2] }: BackOff): number {
  const fullMs = Math.min(firstMs * 2 ** (attempt - 1), maxMs);
  return random === undefined ? fullMs : fullMs * (range[0] * (1 - random) + range[1] * random);
}

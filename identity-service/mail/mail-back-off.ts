const SHORTEST_MS = 30_000;
const LONGEST_MS = 48 * 60_000;
/** So that mails that failed together do not come back together. */
const SPREAD = 0.25;

/**
 * How long to wait after an attempt that failed: twice as long after each, 30 s at first, at most an hour.
 *
 * @param attempts made so far, at least 1.
 * @param random   0 to 1.
 * @returns milliseconds.
 */
export function mailBackOffMs(attempts: number, random: number): number {
  return Math.min(SHORTEST_MS * 2 ** (attempts - 1), LONGEST_MS) * (1 + SPREAD * random);
}

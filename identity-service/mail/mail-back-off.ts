const SHORTEST_MS = 30_000;
const LONGEST_MS = 48 * 60_000;
/** Jitter, so that failed mails are not retried together. */
const SPREAD = 0.25;

/** Milliseconds from 30 s to 1 h, doubled per attempt. `attempts` is at least 1; `random` is between 0 and 1. */
export function mailBackOffMs(attempts: number, random: number): number {
  return Math.min(SHORTEST_MS * 2 ** (attempts - 1), LONGEST_MS) * (1 + SPREAD * random);
}

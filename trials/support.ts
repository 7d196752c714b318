import { setTimeout as sleep } from "node:timers/promises";

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** What `look` finds, asked again and again, also after it failed. @throws with `what` and its last failure, if nothing is found in time. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false>,
  patienceMs = 180_000,
): Promise<T> {
  for (const endMs = performance.now() + patienceMs; ; await sleep(50)) {
    let failure: unknown;
    const found = await look().catch((error) => {
      failure = error;
    });
    if (found !== undefined && found !== false) return found;
    if (performance.now() > endMs) throw new Error(`${what}: not in time`, { cause: failure });
  }
}

export const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;

export function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

import { setTimeout as sleep } from "node:timers/promises";

const INTERVAL_MS = 150;

/** @returns undefined without a problem, or the last one after `timeoutMs`. */
export async function untilNone<Problem>(
  look: () => Promise<Problem | undefined>,
  timeoutMs: number,
): Promise<Problem | undefined> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const problem = await look();
    if (problem === undefined || performance.now() > deadline) return problem;
    await sleep(INTERVAL_MS);
  }
}

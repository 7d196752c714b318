import { backOffMs } from "#kit/values/back-off.ts";

const QUICK_MS = 20;
const FIRST_MS = 50;
const MAX_MS = 500;

/** Short after the first failure, which is often a restart. */
export function retryDelayMs(failures: number, random: number): number {
  if (failures <= 1) return QUICK_MS * random;
  return backOffMs({ attempt: failures - 1, firstMs: FIRST_MS, maxMs: MAX_MS, random, range: [0.5, 1] });
}

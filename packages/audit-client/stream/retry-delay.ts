const QUICK_MS = 20;
const BASE_MS = 50;
const MAX_MS = 500;

/** Short after the first failure, which is often a restart. */
export function retryDelayMs(failures: number, random: number): number {
  if (failures <= 1) return QUICK_MS * random;
  const fullMs = Math.min(BASE_MS * 2 ** (failures - 2), MAX_MS);
  return fullMs / 2 + (fullMs / 2) * random;
}

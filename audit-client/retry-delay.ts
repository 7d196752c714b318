const QUICK_MS = 20;
const BASE_MS = 50;
const MAX_MS = 500;

/**
 * How long to wait before opening the stream again, in milliseconds: nearly nothing after the first failure (most
 * are a restart elsewhere), then doubling up to half a second, spread so that producers do not come back in step. No
 * longer, because calls wait meanwhile; connecting has the channel's own back-off besides.
 *
 * @param failures in a row, from 1.
 * @param random   0 to 1.
 */
export function retryDelayMs(failures: number, random: number): number {
  if (failures <= 1) return QUICK_MS * random;
  const fullMs = Math.min(BASE_MS * 2 ** (failures - 2), MAX_MS);
  return fullMs / 2 + (fullMs / 2) * random;
}

/**
 * How long a server asks to be left alone: `Retry-After`, in seconds or as a date (RFC 9110 section 10.2.3).
 *
 * @param maxMs of what it may ask for. @returns 0 if it does not ask, or what it says is past or not understood.
 */
export function retryAfterMs(answer: Response, now: Date, maxMs: number): number {
  const value = answer.headers.get("retry-after");
  if (value === null) return 0;
  const ms = /^\d+$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - now.getTime();
  return Number.isNaN(ms) ? 0 : Math.min(Math.max(ms, 0), maxMs);
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Of the charts: few enough bars to distinguish one from another. */
export const SPANS = {
  day: { interval: "hour", lengthMs: DAY_MS },
  week: { interval: "hour", lengthMs: 7 * DAY_MS },
  month: { interval: "day", lengthMs: 31 * DAY_MS },
} as const;
export type SpanName = keyof typeof SPANS;

export interface Bucket {
  start: string;
  logins: number;
  failures: number;
}

/** With the hours or days in which nothing happened, which the API leaves out. */
export function filled(
  { from, to, buckets }: { from: string; to: string; buckets: readonly Bucket[] },
  span: SpanName,
): Bucket[] {
  const stepMs = SPANS[span].interval === "hour" ? HOUR_MS : DAY_MS;
  const found = new Map(buckets.map((bucket) => [Date.parse(bucket.start), bucket]));
  const count = Math.max(0, Math.ceil((Date.parse(to) - Date.parse(from)) / stepMs));
  return Array.from({ length: count }, (_, index) => {
    const at = Date.parse(from) + index * stepMs;
    return found.get(at) ?? { start: new Date(at).toISOString(), logins: 0, failures: 0 };
  });
}

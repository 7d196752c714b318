import { UsageError } from "../usage-error.ts";

/** @throws {UsageError} */
export function timeOf(values: ReadonlyMap<string, string>, option: string): Date | undefined {
  const given = values.get(option);
  if (given === undefined) return undefined;
  const time = new Date(given);
  const isRfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(given);
  if (!isRfc3339 || Number.isNaN(time.getTime()))
    throw new UsageError(`--${option} must be an RFC 3339 time: 2026-11-21T09:30:00Z`);
  return time;
}

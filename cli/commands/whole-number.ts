import { UsageError } from "../usage-error.ts";

export const LOGS = { min: 0, max: 255 };

/** @throws {UsageError} */
export function wholeNumber(
  values: ReadonlyMap<string, string>,
  option: string,
  { min, max }: { min: number; max: number },
): number | undefined {
  const text = values.get(option);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw new UsageError(`--${option} must be a whole number from ${min} to ${max}`);
}

/** Undefined: not given. @throws {UsageError} */
export function logOption(values: ReadonlyMap<string, string>): number | undefined {
  return wholeNumber(values, "log", LOGS);
}

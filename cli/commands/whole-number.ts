import { UsageError } from "../usage-error.ts";

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

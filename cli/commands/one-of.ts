import { UsageError } from "../usage-error.ts";

/** @throws {UsageError} */
export function oneOf<T>(what: string, meanings: ReadonlyMap<string, T>, word = ""): T {
  const meaning = meanings.get(word);
  if (meaning === undefined)
    throw new UsageError(`${what} must be one of ${[...meanings.keys()].join(", ")}`);
  return meaning;
}

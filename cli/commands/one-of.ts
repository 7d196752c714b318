import { UsageError } from "../usage-error.ts";

/** What a word of the command line stands for. @throws {UsageError} naming the words that there are. */
export function oneOf<T>(what: string, meanings: ReadonlyMap<string, T>, word = ""): T {
  const meaning = meanings.get(word);
  if (meaning === undefined)
    throw new UsageError(`${what} must be one of ${[...meanings.keys()].join(", ")}`);
  return meaning;
}

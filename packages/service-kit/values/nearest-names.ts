import { distance } from "fastest-levenshtein";

const MAX_DISTANCE = 3;
const MAX_NAMES = 3;

/** Those that a misspelt name may mean, nearest first: at most three, at most three letters and half of the name away. */
export function nearestNames(name: string, among: readonly string[]): string[] {
  return among
    .map((other) => ({ other, distance: distance(name, other) }))
    .filter(({ distance }) => distance <= MAX_DISTANCE && distance <= name.length / 2)
    .sort((one, two) => one.distance - two.distance)
    .slice(0, MAX_NAMES)
    .map(({ other }) => other);
}

/** What is wrong with an option that `parseArgs` of Node.js does not know. Undefined for another error. */
export function unknownOption(error: unknown, known: readonly string[]): string | undefined {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code !== "ERR_PARSE_ARGS_UNKNOWN_OPTION") return undefined;
  const [, option = ""] = /'(-[^']*)'/.exec(message) ?? [];
  const [nearest] = nearestNames(option.replace(/^-+/, ""), known);
  return `Unknown option: ${option}${nearest === undefined ? "" : `\nDid you mean --${nearest}?`}`;
}

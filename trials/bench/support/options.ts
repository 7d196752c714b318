import { parseArgs } from "node:util";

export interface Options {
  /** Of the figures to measure. */
  names: readonly string[];
  rounds: number;
  /** Absent options are undefined. */
  json: string | undefined;
  against: string | undefined;
  profile: string | undefined;
  peers: boolean;
  help: boolean;
}

const DEFAULT_ROUNDS = 5;
const MAX_ROUNDS = 100;

/** @param known names of all figures. Without names, all are meant. @throws {TypeError} with what is wrong, for people. */
export function parseOptions(args: readonly string[], known: readonly string[]): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      json: { type: "string" },
      against: { type: "string" },
      rounds: { type: "string", default: String(DEFAULT_ROUNDS) },
      profile: { type: "string" },
      peers: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const unknown = positionals.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new TypeError(`There is no figure ${unknown.join(", ")}`);
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1 || rounds > MAX_ROUNDS)
    throw new TypeError(`--rounds takes 1 to ${MAX_ROUNDS}, not ${values.rounds}`);
  const { json, against, profile, peers, help } = values;
  for (const [name, value] of Object.entries({ json, against, profile }))
    if (value === "") throw new TypeError(`--${name} takes a value`);
  return { names: positionals, rounds, json, against, profile, peers, help };
}

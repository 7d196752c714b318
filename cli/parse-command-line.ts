import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { nearestNames, unknownOption } from "#kit/values/nearest-names.ts";
import type { Command, CommandInput, CommandOption } from "./command.ts";
import { GLOBAL_OPTIONS } from "./global-options.ts";
import { wrap } from "./help-text.ts";
import { UsageError } from "./usage-error.ts";

export type Request =
  | { kind: "help"; about: readonly Command[] | "options" }
  | { kind: "run"; command: Command; input: CommandInput };

type Options = Readonly<Record<string, CommandOption>>;

/** @throws {UsageError} */
export function parseCommandLine(argv: readonly string[], commands: readonly Command[]): Request {
  const { words, wantsHelp } = readLeniently(argv, commands);
  if (wantsHelp && words.join(" ") === "options") return { kind: "help", about: "options" };
  const command = commands.find(({ name }) => startsWith(words, name.split(" ")));
  if (command === undefined) return group(words, wantsHelp, commands);
  if (wantsHelp) return { kind: "help", about: [command] };
  return { kind: "run", command, input: readStrictly(argv, command) };
}

/** Options may precede the command. `help users` is `users --help`. */
function readLeniently(argv: readonly string[], commands: readonly Command[]) {
  const options = Object.assign({}, ...commands.map((command) => command.options), GLOBAL_OPTIONS) as Options;
  const { values, positionals } = parseArgs({
    args: [...argv],
    options: toParseArgs(options),
    strict: false,
    allowPositionals: true,
  });
  const [first, ...others] = positionals;
  return first === "help"
    ? { words: others, wantsHelp: true }
    : { words: positionals, wantsHelp: values.help === true };
}

function group(words: readonly string[], wantsHelp: boolean, commands: readonly Command[]): Request {
  const members = commands.filter(({ name }) => startsWith(name.split(" "), words));
  if (members.length > 0 && wantsHelp) return { kind: "help", about: members };
  if (words.length === 0) throw new UsageError("A command is missing");
  const [first = ""] = words;
  const siblings = commands.filter(({ name }) => name.split(" ")[0] === first);
  const meant = meantBy(words, commands);
  const hint = meant === undefined ? "" : `\nDid you mean gatehouse ${meant}?`;
  if (siblings.length === 0) throw new UsageError(`Unknown command: ${words.join(" ")}${hint}`);
  const known = wrap(`Known: ${siblings.map(({ name }) => name).join(", ")}`);
  throw new UsageError(
    `Unknown or incomplete command: ${words.join(" ")}${hint || `\n${known}`}`,
    `gatehouse ${first} --help`,
  );
}

/** The command whose words are nearest, in any order: `list user` is `users list`. */
function meantBy(words: readonly string[], commands: readonly Command[]): string | undefined {
  const typed = [words.slice(0, 2), words.slice(0, 2).toReversed()].map((some) => some.join(" "));
  return typed.flatMap((text) =>
    nearestNames(
      text,
      commands.map(({ name }) => name),
    ),
  )[0];
}

function readStrictly(argv: readonly string[], command: Command): CommandInput {
  const help = `gatehouse ${command.name} --help`;
  const options = { ...GLOBAL_OPTIONS, ...command.options };
  const given = parseStrictly(argv, options, help);
  const names = given.tokens.flatMap((token) => (token.kind === "option" ? [token.name] : []));
  const again = names.find((name, at) => names.indexOf(name) < at && isSingle(options[name]));
  if (again !== undefined) throw new UsageError(`--${again} is given twice`, help);
  const positionals = given.positionals.slice(command.name.split(" ").length);
  const missing = command.positionals.slice(positionals.length).map((name) => `<${name}>`);
  const flags = new Set<string>();
  const values = new Map<string, string>();
  const lists = new Map<string, string[]>();
  for (const [name, value] of Object.entries(given.values)) {
    if (typeof value === "string") values.set(name, value);
    else if (value === true) flags.add(name);
    else if (Array.isArray(value)) lists.set(name, value.map(String));
  }
  for (const [name, { required }] of Object.entries(command.options)) {
    if (required && !values.has(name) && !lists.has(name)) missing.push(`--${name}`);
  }
  if (missing.length > 0) throw new UsageError(`Missing: ${missing.join(" ")}`, help);
  const surplus = positionals.slice(command.positionals.length + (command.optionalPositionals?.length ?? 0));
  if (surplus.length > 0) throw new UsageError(`Too many arguments: ${surplus.join(" ")}`, help);
  const texts = [
    ...values,
    ...[...lists].flatMap(([name, list]) => list.map((value) => [name, value] as const)),
  ];
  const empty = texts.flatMap(([name, value]) => (value.trim() === "" ? [`--${name}`] : []));
  if (positionals.includes("")) empty.push("an argument");
  if (empty.length > 0) throw new UsageError(`Empty: ${empty.join(", ")}`, help);
  assertUserIds(command, positionals, values);
  return { positionals, flags, values, lists };
}

const isSingle = (option: CommandOption | undefined) => option?.type === "string" && option.multiple !== true;

/** An address may change, so users are named by their ids alone. */
function assertUserIds(
  { name, positionals, optionalPositionals = [], options }: Command,
  texts: readonly string[],
  values: ReadonlyMap<string, string>,
): void {
  const isUser = (what: string | undefined) =>
    what === "user" || (what === "id" && name.startsWith("users "));
  const users = [
    ...texts.filter((_text, index) => isUser([...positionals, ...optionalPositionals][index])),
    ...[...values].flatMap(([option, text]) => (isUser(options[option]?.value) ? [text] : [])),
  ];
  const address = users.find((text) => text.includes("@"));
  if (address !== undefined)
    throw new UsageError(`${address} is no id of a user`, `gatehouse users list --query ${address}`);
}

function parseStrictly(argv: readonly string[], options: Options, help: string) {
  try {
    return parseArgs({
      args: [...argv],
      options: toParseArgs(options),
      allowPositionals: true,
      tokens: true,
    });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code?.startsWith("ERR_PARSE_ARGS_"))
      throw new UsageError(unknownOption(error, Object.keys(options)) ?? message, help);
    throw error;
  }
}

function toParseArgs(options: Options): ParseArgsOptionsConfig {
  return Object.fromEntries(
    Object.entries(options).map(([name, { type, multiple = false }]) => [name, { type, multiple }]),
  );
}

function startsWith(words: readonly string[], start: readonly string[]): boolean {
  return start.every((word, index) => words[index] === word);
}

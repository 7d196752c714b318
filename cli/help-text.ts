import type { Command, CommandOption } from "./command.ts";
import { GLOBAL_OPTIONS } from "./global-options.ts";

const WIDTH = 80;
/** A longer left column would leave the right one no room. */
const MAX_LEFT = 30;

/** Keyed by the first word of a command. */
const GROUPS: readonly (readonly [title: string, words: readonly string[]])[] = [
  ["People and programs", ["users", "sessions", "clients"]],
  ["Signing keys", ["keys", "parts"]],
  ["Audit log, approvals and events", ["audit", "tail", "approvals", "webhooks"]],
  ["Routes and roles", ["routes", "access"]],
  ["Languages and mails", ["languages", "mail"]],
  [
    "Operation",
    ["health", "doctor", "config", "certificates", "test-token-service", "breach-list", "rpc", "completion"],
  ],
];
/** Needed with every command, so shown with every command. */
const COMMON = ["json", "home", "help"];

const SOURCES =
  "Each of these options overrides one value. All others come from --home, else from the environment (the names in " +
  "parentheses), else from the local Gatehouse's home: GATEHOUSE_HOME, or .gatehouse beside the program.";
const EXIT_CODES =
  "Exit codes: 0 done, 1 refused or failed, 64 usage, 65 the audit log was tampered with, 66 and 73 files, " +
  "69 unavailable, 78 configuration.";

/** At most 80 columns wide. @param about "options": those of every command, and exit codes. */
export function helpText(about: readonly Command[] | "options"): string {
  if (about === "options") return aboutOptions().join("\n\n");
  const [only, ...others] = about;
  if (only !== undefined && others.length === 0) return aboutOne(only).join("\n\n");
  const isAll = GROUPS.every(([, words]) => about.some(({ name }) => words.includes(firstWord(name))));
  return isAll ? overview(about) : groupsOf(about, [withArguments, ({ summary }) => summary]).join("\n\n");
}

/** A line for each command. */
function overview(commands: readonly Command[]): string {
  return [
    "Usage: gatehouse <command> [options]",
    ...groupsOf(commands, [({ name }) => name, firstClause]),
    "More of a command, or a group such as users: gatehouse help <command>",
    "Addresses, certificates, --json and exit codes: gatehouse help options",
  ].join("\n");
}

const firstClause = ({ summary }: Command) => summary.replace(/[,;:] .*$/, "");

const firstWord = (name: string) => name.split(" ")[0] ?? "";

type Column = (command: Command) => string;

function groupsOf(commands: readonly Command[], [left, right]: readonly [Column, Column]): string[] {
  const members = GROUPS.map(([, words]) => commands.filter(({ name }) => words.includes(firstWord(name))));
  const tables = members.map((group) => aligned(group.map((command) => [left(command), right(command)])));
  return GROUPS.flatMap(([title], index) => (tables[index] === "" ? [] : [`${title}:\n${tables[index]}`]));
}

function aboutOptions(): string[] {
  return [`Options of every command:\n${describe(GLOBAL_OPTIONS)}`, wrap(SOURCES), wrap(EXIT_CODES)];
}

function aboutOne(command: Command): string[] {
  const required = Object.entries(command.options).flatMap(([name, option]) =>
    option.required ? [spelled(name, option)] : [],
  );
  const usage = ["Usage: gatehouse", withArguments(command), ...required, "[options]"].join(" ");
  const common = Object.fromEntries(
    COMMON.flatMap((name) => {
      const option = GLOBAL_OPTIONS[name];
      return option === undefined ? [] : [[name, option]];
    }),
  );
  return [
    wrap(usage, " ".repeat("Usage: ".length)),
    wrap(`${command.summary}.`),
    ...(command.details === undefined ? [] : [paragraphs(command.details)]),
    ...(Object.keys(command.options).length > 0 ? [`Options:\n${describe(command.options)}`] : []),
    `Options of every command:\n${describe(common)}`,
    "Addresses, certificates and exit codes: gatehouse help options",
  ];
}

/** `keys revoke <kid>`. */
function withArguments({ name, positionals, optionalPositionals = [] }: Command): string {
  const optional = optionalPositionals.map((positional) => `[<${positional}>]`);
  return [name, ...positionals.map((positional) => `<${positional}>`), ...optional].join(" ");
}

function describe(options: Readonly<Record<string, CommandOption>>): string {
  return aligned(
    Object.entries(options).map(([name, spec]) => [spelled(name, spec), spec.description] as const),
  );
}

function spelled(name: string, { type, value }: CommandOption): string {
  return type === "boolean" ? `--${name}` : `--${name} <${value ?? "value"}>`;
}

/** Two columns. What is too long for the left one has a line of its own. */
function aligned(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length).filter((length) => length <= MAX_LEFT), 0);
  const indent = " ".repeat(width + 4);
  return rows
    .map(([left, right]) => {
      const text = wrap(`${indent}${right}`, indent);
      const isShort = left.length <= width;
      return isShort ? `  ${left.padEnd(width)}${text.slice(width + 2)}` : `  ${left}\n${text}`;
    })
    .join("\n");
}

/** Joins lines, but for those that begin with a space. */
function paragraphs(text: string): string {
  return text
    .split(/\n(?= )/)
    .map((part) => (part.startsWith(" ") ? part : wrap(part.replaceAll("\n", " "))))
    .join("\n");
}

/** At most 80 columns. @param indent of all lines but the first. */
export function wrap(text: string, indent = ""): string {
  const lines: string[] = [];
  let line = /^ */.exec(text)?.[0] ?? "";
  let isEmpty = true;
  for (const word of text.trim().split(/ +/)) {
    if (!isEmpty && line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = indent;
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line].join("\n");
}

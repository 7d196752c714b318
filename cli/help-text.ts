import type { Command, CommandOption } from "./command.ts";
import { GLOBAL_OPTIONS } from "./global-options.ts";

const SOURCES = `Each of these options overrides one value. All others come from --home, else from the environment (the names in
parentheses), else from the local Gatehouse's home: GATEHOUSE_HOME, or .gatehouse beside the program.`;
const EXIT_CODES =
  "Exit codes: 0 done, 1 refused or failed, 64 usage, 65 the audit log was tampered with, 66 and 73\nfiles, 69 unavailable, 78 configuration.";

export function helpText(commands: readonly Command[]): string {
  const [only, ...others] = commands;
  const parts = only !== undefined && others.length === 0 ? aboutOne(only) : aboutSeveral(commands);
  return [...parts, `Options of every command:\n${describe(GLOBAL_OPTIONS)}`, SOURCES, EXIT_CODES].join(
    "\n\n",
  );
}

function aboutOne(command: Command): string[] {
  const own = Object.keys(command.options).length > 0 ? [`Options:\n${describe(command.options)}`] : [];
  const details = command.details === undefined ? [] : [command.details];
  return [`Usage: gatehouse ${synopsis(command)} [options]`, `${command.summary}.`, ...details, ...own];
}

function aboutSeveral(commands: readonly Command[]): string[] {
  const rows = commands.map((command) => [synopsis(command), command.summary] as const);
  return ["Usage: gatehouse <command> [options]", `Commands:\n${aligned(rows)}`];
}

/** `keys revoke <kid> --reason <text>`. */
function synopsis({ name, positionals, optionalPositional, options }: Command): string {
  const flags = Object.entries(options).map(([option, spec]) => {
    const text = spelled(option, spec);
    return `${spec.required ? text : `[${text}]`}${spec.multiple ? "…" : ""}`;
  });
  const optional = optionalPositional === undefined ? [] : [`[<${optionalPositional}>]`];
  return [name, ...positionals.map((positional) => `<${positional}>`), ...optional, ...flags].join(" ");
}

function describe(options: Readonly<Record<string, CommandOption>>): string {
  return aligned(
    Object.entries(options).map(([name, spec]) => [spelled(name, spec), spec.description] as const),
  );
}

function spelled(name: string, { type, value }: CommandOption): string {
  return type === "boolean" ? `--${name}` : `--${name} <${value ?? "value"}>`;
}

function aligned(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join("\n");
}

import type { Backend } from "./backend.ts";
import type { ExitCode } from "./exit-code.ts";

/** An option of a command, by its name without the dashes. */
export interface CommandOption {
  type: "boolean" | "string";
  /** What a string option's value is called in the help: `text`. */
  value?: string;
  description: string;
  required?: true;
}

/** What was given to a command: checked for being known, complete and not empty. */
export interface CommandInput {
  /** As many as the command names, in their order. */
  positionals: readonly string[];
  flags: ReadonlySet<string>;
  values: ReadonlyMap<string, string>;
}

/** The same result for both readers. */
export interface CommandOutput {
  /** For people: lines without the last line break. */
  text: string;
  /** For `--json`. Members are only ever added. */
  json: object;
  /** 0 unless told. */
  exitCode?: ExitCode;
}

/** One subcommand; each is a file of its own, listed in `commands.ts`. */
export interface Command {
  /** The words that call it: `keys list`. */
  name: string;
  /** One line, for the list of commands. */
  summary: string;
  /** What else its help says. */
  details?: string;
  /** Names of its arguments, all required. */
  positionals: readonly string[];
  options: Readonly<Record<string, CommandOption>>;
  /** How to see whether it was carried out when its answer was lost; absent if it changes nothing. */
  checkWith?: string;
  run(input: CommandInput, backend: Backend): Promise<CommandOutput>;
}

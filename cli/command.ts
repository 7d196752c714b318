import type { Backend } from "./backend.ts";
import type { ExitCode } from "./exit-code.ts";

export interface CommandOption {
  type: "boolean" | "string";
  /** Placeholder in the help: `text`. */
  value?: string;
  description: string;
  required?: true;
  /** The option may be repeated. Its values are in `lists`. */
  multiple?: true;
}

/** Validated input. */
export interface CommandInput {
  /** Arguments in the order of the command's `positionals`. */
  positionals: readonly string[];
  flags: ReadonlySet<string>;
  values: ReadonlyMap<string, string>;
  /** Values of repeatable options. */
  lists: ReadonlyMap<string, readonly string[]>;
}

interface CommandOutput {
  /** Text without the final line break. */
  text: string;
  /** The result for `--json`. Members are only added. */
  json: object;
  /** Defaults to 0. */
  exitCode?: ExitCode;
}

export interface Terminal {
  /** Applies backpressure. Rejects when the reader has gone. */
  writeOut(text: string): Promise<void>;
  writeError(text: string): void;
  isWatched: boolean;
}

export interface Command {
  name: string;
  summary: string;
  details?: string;
  positionals: readonly string[];
  optionalPositional?: string;
  options: Readonly<Record<string, CommandOption>>;
  /** How to check the result after a lost answer. Absent for reading commands. */
  checkWith?: string;
  /** @returns undefined if the command has written its own output. */
  run(input: CommandInput, backend: Backend, terminal: Terminal): Promise<CommandOutput | undefined>;
}

import type { Backend } from "./backend.ts";
import type { ExitCode } from "./exit-code.ts";

export interface CommandOption {
  type: "boolean" | "string";
  /** Placeholder in the help: `text`. */
  value?: string;
  description: string;
  required?: true;
  /** Repeatable. Values are in `lists`. */
  multiple?: true;
}

export interface CommandInput {
  positionals: readonly string[];
  flags: ReadonlySet<string>;
  values: ReadonlyMap<string, string>;
  lists: ReadonlyMap<string, readonly string[]>;
}

export interface CommandOutput {
  /** The final line break is added later. */
  text: string;
  /** Printed for `--json`. Members may only be added. */
  json: object;
  exitCode?: ExitCode;
  /** Adds colours to a line of `text`, for a terminal that shows them. */
  paint?: (line: string) => string;
}

export interface Terminal {
  /** Applies backpressure. Rejects after the reader has closed. */
  writeOut(text: string): Promise<void>;
  writeError(text: string): void;
  /** Whether a terminal shows standard output. */
  isTerminal(): boolean;
  /** Of the terminal that shows standard error. Undefined: none does. */
  columns(): number | undefined;
}

export interface Command {
  name: string;
  summary: string;
  details?: string;
  positionals: readonly string[];
  optionalPositionals?: readonly string[];
  options: Readonly<Record<string, CommandOption>>;
  /** Command that shows the result after a lost answer. */
  checkWith?: string;
  /** @returns undefined if the command has written its own output. */
  run(input: CommandInput, backend: Backend, terminal: Terminal): Promise<CommandOutput | undefined>;
}

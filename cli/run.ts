import { inSources } from "#kit/telemetry/source-places.ts";
import { createBackend } from "./backend.ts";
import type { SettingsSources } from "./backend-settings.ts";
import { CliError } from "./cli-error.ts";
import type { Command, Terminal } from "./command.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";
import { helpText } from "./help-text.ts";
import { OutputClosedError } from "./lost-output.ts";
import { parseCommandLine } from "./parse-command-line.ts";
import { printableJson, printableLines } from "./printable.ts";

export interface ProcessContext extends Pick<SettingsSources, "environment" | "defaultHome"> {
  writeOut(text: string): unknown;
  writeError(text: string): void;
  isTerminal?: Terminal["isTerminal"];
  columns?: Terminal["columns"];
  /** Whether standard output is a terminal that shows colours, and NO_COLOR is not set. */
  hasColors?: () => boolean;
}

/** @returns the exit code. Never throws. */
export async function run(
  argv: readonly string[],
  commands: readonly Command[],
  context: ProcessContext,
): Promise<ExitCode> {
  const wantsJson = argv.includes("--json");
  let command: Command | undefined;
  let exitCode: ExitCode = EXIT.ok;
  try {
    const request = parseCommandLine(argv, commands);
    if (request.kind === "help") {
      await context.writeOut(`${helpText(request.about)}\n`);
      return exitCode;
    }
    command = request.command;
    const { environment, defaultHome } = context;
    const backend = createBackend({ values: request.input.values, environment, defaultHome });
    const output = await command.run(request.input, backend, terminalOf(context));
    if (output === undefined) return exitCode;
    exitCode = output.exitCode ?? EXIT.ok;
    const paint = context.hasColors?.() === true ? output.paint : undefined;
    const text = wantsJson ? printableJson(output.json, 2) : printableLines(output.text, paint);
    await context.writeOut(`${text}\n`);
    return exitCode;
  } catch (error) {
    if (error instanceof OutputClosedError) return exitCode;
    const failure = withDoubt(asCliError(error), command);
    context.writeError(wantsJson ? asJson(failure) : asText(failure));
    return failure.exitCode;
  }
}

function terminalOf({
  writeOut,
  writeError,
  isTerminal = () => false,
  columns = () => undefined,
}: ProcessContext): Terminal {
  return {
    async writeOut(text) {
      await writeOut(text);
    },
    writeError,
    isTerminal,
    columns,
  };
}

function asCliError(error: unknown): CliError {
  if (error instanceof CliError) return error;
  const text = error instanceof Error ? inSources(error.stack ?? error.message) : String(error);
  return new CliError(`A bug in this program: ${text}`, {
    exitCode: EXIT.failed,
    code: "internal_error",
    cause: error,
  });
}

/** After a lost answer or a service failure the outcome is unknown. */
function withDoubt(failure: CliError, command: Command | undefined): CliError {
  const isOpen =
    failure.requestId !== undefined && ["service_unavailable", "internal_error"].includes(failure.code);
  if (!isOpen || command?.checkWith === undefined) return failure;
  const { message, exitCode, code, requestId, cause } = failure;
  return new CliError(
    `${message}\nIt may have been executed nevertheless. Check with: ${command.checkWith}`,
    {
      exitCode,
      code,
      ...(requestId !== undefined && { requestId }),
      cause,
    },
  );
}

function asText({ message, requestId }: CliError): string {
  return `gatehouse: ${printableLines(message)}\n${requestId === undefined ? "" : `Request id: ${requestId}\n`}`;
}

function asJson({ code, message, requestId }: CliError): string {
  return `${printableJson({ error: { code, message, ...(requestId !== undefined && { requestId }) } })}\n`;
}

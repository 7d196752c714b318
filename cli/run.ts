import { createBackend } from "./backend.ts";
import type { SettingsSources } from "./backend-settings.ts";
import { CliError } from "./cli-error.ts";
import type { Command } from "./command.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";
import { helpText } from "./help-text.ts";
import { parseCommandLine } from "./parse-command-line.ts";

/** What the program has around it. */
export interface Surroundings extends Pick<SettingsSources, "environment" | "defaultHome"> {
  /** Each takes whole lines, the last line break included. */
  writeOut(text: string): void;
  writeError(text: string): void;
}

/** Carries out a command line. @returns the exit code; it never throws. */
export async function run(
  argv: readonly string[],
  commands: readonly Command[],
  surroundings: Surroundings,
): Promise<ExitCode> {
  const wantsJson = argv.includes("--json");
  let command: Command | undefined;
  try {
    const request = parseCommandLine(argv, commands);
    if (request.kind === "help") {
      surroundings.writeOut(`${helpText(request.about)}\n`);
      return EXIT.ok;
    }
    command = request.command;
    const { environment, defaultHome } = surroundings;
    const backend = createBackend({ values: request.input.values, environment, defaultHome });
    const { text, json, exitCode } = await command.run(request.input, backend);
    surroundings.writeOut(`${wantsJson ? JSON.stringify(json, undefined, 2) : text}\n`);
    return exitCode ?? EXIT.ok;
  } catch (error) {
    const failure = withDoubt(asCliError(error), command);
    surroundings.writeError(wantsJson ? asJson(failure) : asText(failure));
    return failure.exitCode;
  }
}

function asCliError(error: unknown): CliError {
  if (error instanceof CliError) return error;
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return new CliError(`A defect of this program: ${text}`, {
    exitCode: EXIT.failed,
    code: "internal_error",
    cause: error,
  });
}

/** An answer that was lost on the way, or a service that failed at its end, leaves open what was done. */
function withDoubt(failure: CliError, command: Command | undefined): CliError {
  const isOpen =
    failure.requestId !== undefined && ["service_unavailable", "internal_error"].includes(failure.code);
  if (!isOpen || command?.checkWith === undefined) return failure;
  const { message, exitCode, code, requestId, cause } = failure;
  return new CliError(`${message}\nIt may have been carried out all the same. See: ${command.checkWith}`, {
    exitCode,
    code,
    ...(requestId !== undefined && { requestId }),
    cause,
  });
}

function asText({ message, requestId }: CliError): string {
  return `gatehouse: ${message}\n${requestId === undefined ? "" : `Request id: ${requestId}\n`}`;
}

function asJson({ code, message, requestId }: CliError): string {
  return `${JSON.stringify({ error: { code, message, ...(requestId !== undefined && { requestId }) } })}\n`;
}

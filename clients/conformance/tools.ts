import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** The machine lacks what a language needs; the message says what. */
export class MissingToolError extends Error {
  override readonly name = "MissingToolError";
}

/** What go, pip, Maven and npm say if they reach no registry. */
export const NO_REGISTRY =
  /dial tcp|module lookup disabled|No matching distribution|Failed to establish a new connection|Could not transfer artifact|Could not resolve dependencies|Unknown host|npm error code (?:ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEDOUT)/;
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;
const run = promisify(execFile);

/**
 * Runs a program of another language to its end. @returns its standard output.
 * @throws {MissingToolError} if there is no such program, or if it needs a registry that it does not reach.
 */
export async function runTool(
  program: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  try {
    return (await run(program, args, { ...options, maxBuffer: MAX_OUTPUT_BYTES })).stdout;
  } catch (error) {
    const { code, stdout = "", stderr = "" } = error as { code?: unknown; stdout?: string; stderr?: string };
    if (code === "ENOENT") throw new MissingToolError(`there is no ${program}`);
    if (NO_REGISTRY.test(stdout + stderr)) throw new MissingToolError(`${program} reaches no registry`);
    throw new Error(`${program} ${args.join(" ")}:\n${stdout}${stderr}`, { cause: error });
  }
}

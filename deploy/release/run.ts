import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { promisify } from "node:util";

/** With a text for who makes the release. */
export class ReleaseError extends Error {
  override readonly name = "ReleaseError";
  readonly exitCode: number;

  constructor(message: string, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

const ROOT = resolve(import.meta.dirname, "..", "..");
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
const TIMEOUT_MS = 1_800_000;
const execute = promisify(execFile);

/** @returns standard output. @throws {ReleaseError} if the program is missing or fails, with the end of what it said. */
export async function run(
  command: string,
  args: readonly string[],
  { cwd = ROOT, env = {} }: { cwd?: string; env?: Record<string, string> } = {},
): Promise<string> {
  try {
    const { stdout } = await execute(command, args, {
      cwd,
      env: { ...process.env, ...env },
      maxBuffer: MAX_OUTPUT_BYTES,
      timeout: TIMEOUT_MS,
    });
    return stdout;
  } catch (error) {
    const { code, stdout = "", stderr = "" } = error as Partial<Record<"code" | "stdout" | "stderr", string>>;
    if (code === "ENOENT") throw new ReleaseError(`${command} is not installed (docs/release.md).`);
    throw new ReleaseError(
      `${command} ${args.join(" ")}: ${(stdout + stderr).slice(-2_000) || String(error)}`,
    );
  }
}

/** With this terminal: the program may ask for a password. @throws {ReleaseError} if it is missing or fails. */
export async function runInTerminal(command: string, args: readonly string[]): Promise<void> {
  const ended = once(spawn(command, args, { stdio: "inherit" }), "exit").catch(() => {
    throw new ReleaseError(`${command} is not installed (docs/release.md).`);
  });
  const [code] = (await ended) as [number | null];
  if (code !== 0) throw new ReleaseError(`${command} failed.`);
}

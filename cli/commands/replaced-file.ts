import { randomUUID } from "node:crypto";
import { statSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";

/**
 * Renames a temporary file, so that the file is complete or absent, also after a signal.
 * @param work Must observe the signal. @throws {CliError} 73 if the file exists or cannot be written.
 */
export async function replaceFile(
  path: string,
  { force, mode = 0o600 }: { force: boolean; mode?: number },
  work: (file: FileHandle, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  refuseExisting(path, force);
  const interrupted = new AbortController();
  const interrupt = () =>
    interrupted.abort(new CliError("Interrupted", { exitCode: EXIT.failed, code: "interrupted" }));
  const partial = join(dirname(path), `.${basename(path)}.${randomUUID()}.partial`);
  // Each of them: the second Ctrl-C would end the process before the temporary file is removed.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, interrupt);
  try {
    const file = await open(partial, "wx", mode);
    try {
      await work(file, interrupted.signal);
      await file.sync();
    } finally {
      await file.close();
    }
    interrupted.signal.throwIfAborted();
    refuseExisting(path, force);
    await rename(partial, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await rm(partial, { force: true });
    interrupted.signal.throwIfAborted();
    if (!(error instanceof Error && "syscall" in error)) throw error;
    throw new CliError(`${path} cannot be written: ${error.message}`, {
      exitCode: EXIT.output,
      code: "output",
      cause: error,
    });
  } finally {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.removeListener(signal, interrupt);
  }
}

/** Makes the rename survive a power failure. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** A file is complete or absent. The message gives its time: a repeated command then shows that the first one had finished. */
function refuseExisting(path: string, force: boolean): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined || (force && found.isFile())) return;
  const message = found.isFile()
    ? `${path} already exists, complete since ${found.mtime.toISOString()}: add --force to replace it`
    : `${path} cannot be replaced: it is no file`;
  throw new CliError(message, { exitCode: EXIT.output, code: "output" });
}

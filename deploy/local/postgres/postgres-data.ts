import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, mkdtemp, open, readdir, readFile, rename, rm, rmdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { errorCode, LaunchError } from "../launch-error.ts";
import { POSTGRES_MAJOR, type PostgresProgram } from "./postgres-program.ts";
import type { User } from "./unprivileged-user.ts";

const INITDB_TIMEOUT_MS = 60_000;

/** Name of the superuser of every cluster made here. */
export const SUPERUSER = "gatehouse_superuser";

/**
 * How to name the data directory to a PostgreSQL program started in it. Under another user than ours the path may
 * lead through folders closed to it; Linux' link to the working directory leads past them, since node enters the
 * directory before it gives up being root.
 */
export function dataArgument(directory: string, user: User | undefined): string {
  return user ? "/proc/self/cwd" : directory;
}

/** What initialising needs to know. */
export interface NewCluster {
  directory: string;
  program: PostgresProgram;
  user: User | undefined;
  password: string;
  /** False: no waiting for the disk. For data nobody will miss. */
  durable: boolean;
  /** Ends initdb. */
  signal?: AbortSignal;
}

/**
 * Makes sure there is an initialised data directory of the right version. A new one is made beside its place and
 * renamed, so that one with its name is always whole: an existing one is never touched.
 *
 * @throws {LaunchError} if what is there is of another version or no data directory, or if initdb fails.
 */
export async function prepareDataDirectory(cluster: NewCluster): Promise<void> {
  const { directory } = cluster;
  await removeUnfinished(directory);
  if (await exists(directory)) {
    const version = await readFile(join(directory, "PG_VERSION"), "utf8").catch(() => undefined);
    if (version?.trim() === POSTGRES_MAJOR) return;
    if (version !== undefined) {
      throw new LaunchError(
        `${directory} was made by PostgreSQL ${version.trim()}, this is ${POSTGRES_MAJOR}: dump it with the old one ` +
          "and restore it, or start anew with `npm start -- --fresh`.",
      );
    }
    await removeEmpty(directory);
  }
  const unfinished = await mkdtemp(`${directory}.new-`);
  await chmod(unfinished, 0o700);
  if (cluster.user) await chown(unfinished, cluster.user.uid, cluster.user.gid);
  await initialise(unfinished, cluster);
  await rename(unfinished, directory);
}

async function initialise(
  directory: string,
  { program, user, password, durable, signal }: NewCluster,
): Promise<void> {
  const passwordFile = await unlinkedFile(`${directory}.password`, `${password}\n`, user);
  try {
    const child = spawn(
      program.initdb,
      [
        ["-D", dataArgument(directory, user), "-U", SUPERUSER, "--encoding=UTF8", "--locale=C.UTF-8"],
        // A file on standard input, opened by its link in /dev: a pipe of node's is a socket, which cannot be opened.
        [
          "--auth=scram-sha-256",
          "--pwfile=/dev/stdin",
          "--no-instructions",
          ...(durable ? [] : ["--no-sync"]),
        ],
      ].flat(),
      {
        ...user,
        cwd: directory,
        env: { TZ: "UTC", LC_ALL: "C" },
        stdio: [passwordFile.fd, "pipe", "pipe"],
        timeout: INITDB_TIMEOUT_MS,
        ...(signal ? { signal } : {}),
      },
    );
    const [output, errors, [code]] = await Promise.all([
      said(child.stdout),
      said(child.stderr),
      once(child, "close"),
    ]);
    if (code !== 0) throw new LaunchError(`PostgreSQL's initdb failed.\n${`${output}${errors}`.trim()}`);
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    throw error;
  } finally {
    await passwordFile.close();
  }
}

async function said(stream: Readable | null): Promise<string> {
  return stream ? await text(stream) : "";
}

/** An open file without a name, readable for `user`: a secret that cannot stay behind. */
async function unlinkedFile(path: string, content: string, user: User | undefined) {
  const writer = await open(path, "wx", 0o600);
  try {
    await writer.writeFile(content);
    if (user) await writer.chown(user.uid, user.gid);
    return await open(path, "r");
  } finally {
    await writer.close();
    await rm(path, { force: true });
  }
}

/** What an initdb that was killed half-way has left. */
async function removeUnfinished(directory: string): Promise<void> {
  const names = await readdir(dirname(directory));
  const unfinished = names.filter((name) => name.startsWith(`${basename(directory)}.new-`));
  await Promise.all(
    unfinished.map((name) => rm(join(dirname(directory), name), { recursive: true, force: true })),
  );
}

async function removeEmpty(directory: string): Promise<void> {
  try {
    await rmdir(directory);
  } catch (error) {
    throw new LaunchError(
      `${directory} is in the way: it is no PostgreSQL data directory. Move it elsewhere.`,
      {
        cause: error,
      },
    );
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (errorCode(error) === "ENOENT") return false;
    throw error;
  }
}

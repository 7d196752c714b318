import { mkdir, readdir, realpath, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { errorCode, errorText, LaunchError } from "./launch-error.ts";
import { directoryName } from "./leftovers.ts";
import { makePrivateDirectory, readIfPresent, writePrivateFile } from "./private-file.ts";

const MARKER = "gatehouse-home";

/** What Gatehouse puts into its home, and so what `--fresh` may remove. The marker stays. */
const ENTRIES = {
  postgres: "postgres",
  tls: "tls",
  secrets: "secrets",
  logs: "logs",
  /** Audit entries while audit-service is away. */
  spool: "spool",
  /** The mailbox's messages. */
  mail: "mail",
  routesFile: "routes.yaml",
  providersFile: "providers.yaml",
  /** Checkpoints of the audit log, outside the database. audit-service keeps the newest beside it. */
  checkpointFile: "checkpoints.jsonl",
  /** Which ports the last start listens on, for the CLI. */
  portsFile: "ports.json",
  /** Exists once everything has been ready at least once. */
  startedOnceFile: "started-once",
} as const;

/** Where each kind of data of one local Gatehouse is kept. All paths are absolute. */
export interface Home extends Record<keyof typeof ENTRIES, string> {
  path: string;
  /** Among the arguments of every process that runs on it. */
  name: string;
}

/**
 * Opens the home at `path`, making it if it is missing or empty.
 *
 * @throws {LaunchError} if the directory holds something else, or may not be used.
 */
export async function openHome(path: string): Promise<Home> {
  try {
    await claim(path);
    const real = await realpath(path);
    const paths = Object.entries(ENTRIES).map(([key, name]) => [key, join(real, name)]);
    const home: Home = { path: real, name: await directoryName(real), ...Object.fromEntries(paths) };
    await makeDirectories(home);
    return home;
  } catch (error) {
    if (error instanceof LaunchError) throw error;
    throw new LaunchError(`GATEHOUSE_HOME ${path} cannot be used: ${errorText(error)}`, { cause: error });
  }
}

/**
 * Removes all data of earlier starts. Call it only while nothing runs on this home. Killed half-way, it leaves a home
 * that can be started: the database goes first and at once, since without it the rest is only made anew, while a
 * database without its secrets is lost and in the way.
 */
export async function emptyHome(home: Home): Promise<void> {
  await rm(home.startedOnceFile, { force: true });
  await rm(`${home.postgres}.new`, { recursive: true, force: true });
  await rename(home.postgres, `${home.postgres}.new`).catch((error: unknown) => {
    if (errorCode(error) !== "ENOENT") throw error;
  });
  const isOwn = (name: string) =>
    Object.values(ENTRIES).some((entry) => name === entry || name === `${entry}.new`) ||
    name.startsWith(`${ENTRIES.checkpointFile}.latest`);
  const own = (await readdir(home.path)).filter(isOwn);
  await Promise.all(own.map((name) => rm(join(home.path, name), { recursive: true, force: true })));
  await makeDirectories(home);
}

async function makeDirectories({ secrets, logs }: Home): Promise<void> {
  await Promise.all([secrets, logs].map(makePrivateDirectory));
}

/** A folder without our marker that has something in it is somebody else's: never write to it or delete from it. */
async function claim(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  const isEmpty = (await readdir(path)).length === 0;
  if (!isEmpty && (await readIfPresent(join(path, MARKER))) === undefined) {
    throw new LaunchError(
      `GATEHOUSE_HOME ${path} is not empty and is not a Gatehouse home: choose another folder, or empty it.`,
    );
  }
  // Files of two users in one home would sooner or later shut one of them out.
  const { uid } = await stat(path);
  if (uid !== process.getuid?.()) {
    throw new LaunchError(
      `GATEHOUSE_HOME ${path} belongs to user ${uid}: start as that user, or choose another folder.`,
    );
  }
  await makePrivateDirectory(path);
  if (isEmpty) await writePrivateFile(join(path, MARKER), "The data of a local Gatehouse (npm start).\n");
}

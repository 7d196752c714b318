import { existsSync } from "node:fs";
import { mkdir, readdir, realpath, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { errorCode, errorText, LaunchError } from "./launch-error.ts";
import { directoryName } from "./leftovers.ts";
import { makePrivateDirectory, readIfPresent, writePrivateFile } from "./private-file.ts";

const MARKER = "gatehouse-home";

/** `--fresh` removes these. */
const DATA = {
  postgres: "postgres",
  tls: "tls",
  secrets: "secrets",
  logs: "logs",
  spool: "spool",
  mail: "mail",
  /** audit-service also writes `<file>.latest*`. */
  checkpointFile: "checkpoints.jsonl",
  /** Used by the CLI. */
  portsFile: "ports.json",
  /** Their variables, for the CLI. */
  processesFile: "processes.json",
  startedOnceFile: "started-once",
  /** Belongs to the running launcher. */
  launcherFile: "launcher.json",
} as const;

/** The user may edit these. */
const SETTINGS = {
  routesFile: "routes.yaml",
  accessFile: "access.yaml",
  providersFile: "providers.yaml",
  /** `<service>.env`. */
  services: "services",
  /** Settings of `npm start` itself. */
  settingsFile: "npm-start.env",
  defaultsFile: "defaults.json",
  /** Which PostgreSQL has the data, if it is not the home's own. */
  databaseFile: "database.json",
} as const;

const ENTRIES = { ...DATA, ...SETTINGS };

/** Absolute paths of the data and settings of one local Gatehouse. */
export interface Home extends Record<keyof typeof ENTRIES, string> {
  path: string;
  /** An argument of every process of this home. */
  name: string;
}

export const isHome = (path: string) => existsSync(join(path, MARKER));

/** Creates a missing home. @throws {LaunchError} if the directory is not a home or cannot be used. */
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
 * Nothing may run on this home. The database is removed first: after an interruption the rest is created again, while a
 * database without its secrets could not be used.
 */
export async function emptyHome(home: Home): Promise<void> {
  await rm(home.startedOnceFile, { force: true });
  await rm(`${home.postgres}.new`, { recursive: true, force: true });
  await rename(home.postgres, `${home.postgres}.new`).catch((error: unknown) => {
    if (errorCode(error) !== "ENOENT") throw error;
  });
  const isOwn = (name: string) =>
    Object.values(DATA).some((entry) => name === entry || name === `${entry}.new`) ||
    name.startsWith(`${DATA.checkpointFile}.latest`);
  const own = (await readdir(home.path)).filter(isOwn);
  await Promise.all(own.map((name) => rm(join(home.path, name), { recursive: true, force: true })));
  await makeDirectories(home);
}

async function makeDirectories({ secrets, logs, services }: Home): Promise<void> {
  await Promise.all([secrets, logs, services].map(makePrivateDirectory));
}

/** Never writes to a foreign folder. */
async function claim(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  const isEmpty = (await readdir(path)).length === 0;
  if (!isEmpty && (await readIfPresent(join(path, MARKER))) === undefined) {
    throw new LaunchError(
      `GATEHOUSE_HOME ${path} is not empty and is not a Gatehouse home: choose another folder, or empty it.`,
    );
  }
  // With files of two users, one of them could not read some.
  const { uid } = await stat(path);
  if (uid !== process.getuid?.()) {
    throw new LaunchError(
      `GATEHOUSE_HOME ${path} belongs to user ${uid}: start as that user, or choose another folder.`,
    );
  }
  await makePrivateDirectory(path);
  if (isEmpty) await writePrivateFile(join(path, MARKER), "The data of a local Gatehouse (npm start).\n");
}

import { mkdir, readdir, realpath, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { errorCode, errorText, LaunchError } from "./launch-error.ts";
import { makePrivateDirectory, readIfPresent, writePrivateFile } from "./private-file.ts";

const MARKER = "gatehouse-home";

/** What Gatehouse puts into its home, and so what `--fresh` may remove. The marker stays. */
const OWN_ENTRIES =
  /^(postgres|postgres\.new-.*|tls|secrets|logs|spool|mail|prometheus|routes\.yaml|providers\.yaml|checkpoints\.jsonl(?:\.latest.*)?|processes\.json|ports\.json|started-once)$/;

/** Where each kind of data of one local Gatehouse is kept. All paths are absolute. */
export interface Home {
  path: string;
  postgres: string;
  tls: string;
  secrets: string;
  logs: string;
  /** Audit entries while audit-service is away. */
  spool: string;
  /** The mailbox's messages. */
  mail: string;
  /** Configuration and data of Prometheus, if it runs. */
  prometheus: string;
  routesFile: string;
  providersFile: string;
  /** Checkpoints of the audit log, outside the database. */
  checkpointFile: string;
  /** The processes of the running (or killed) launcher. */
  processesFile: string;
  /** Which ports the last start listens on, for the CLI. */
  portsFile: string;
  /** Exists once everything has been ready at least once. */
  startedOnceFile: string;
}

/**
 * Opens the home at `path`, making it if it is missing or empty.
 *
 * @throws {LaunchError} if the directory holds something else, or may not be used.
 */
export async function openHome(path: string): Promise<Home> {
  try {
    await claim(path);
    const home = homeAt(await realpath(path));
    await makePrivateDirectory(home.secrets);
    await makePrivateDirectory(home.logs);
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
  await rename(home.postgres, `${home.postgres}.new-removed`).catch((error: unknown) => {
    if (errorCode(error) !== "ENOENT") throw error;
  });
  const own = (await readdir(home.path)).filter((name) => OWN_ENTRIES.test(name));
  await Promise.all(
    own.map((name) => rm(join(home.path, name), { recursive: true, force: true, maxRetries: 3 })),
  );
  await makePrivateDirectory(home.secrets);
  await makePrivateDirectory(home.logs);
}

/** A folder without our marker that has something in it is somebody else's: never write to it or delete from it. */
async function claim(path: string): Promise<void> {
  const marker = join(path, MARKER);
  const entries = await entriesOf(path);
  if (entries.length > 0 && (await readIfPresent(marker)) === undefined) {
    throw new LaunchError(
      `GATEHOUSE_HOME ${path} is not empty and is not a Gatehouse home: choose another folder, or empty it.`,
    );
  }
  await mkdir(path, { recursive: true, mode: 0o700 });
  await requireOwn(path);
  await makePrivateDirectory(path);
  if (entries.length === 0) await writePrivateFile(marker, "The data of a local Gatehouse (npm start).\n");
}

/** Files of two users in one home would sooner or later shut one of them out. */
async function requireOwn(path: string): Promise<void> {
  const { uid } = await stat(path);
  if (process.getuid === undefined || uid === process.getuid()) return;
  throw new LaunchError(
    `GATEHOUSE_HOME ${path} belongs to user ${uid}: start as that user, or choose another folder.`,
  );
}

async function entriesOf(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  }
}

function homeAt(path: string): Home {
  return {
    path,
    postgres: join(path, "postgres"),
    tls: join(path, "tls"),
    secrets: join(path, "secrets"),
    logs: join(path, "logs"),
    spool: join(path, "spool"),
    mail: join(path, "mail"),
    prometheus: join(path, "prometheus"),
    routesFile: join(path, "routes.yaml"),
    providersFile: join(path, "providers.yaml"),
    checkpointFile: join(path, "checkpoints.jsonl"),
    processesFile: join(path, "processes.json"),
    portsFile: join(path, "ports.json"),
    startedOnceFile: join(path, "started-once"),
  };
}

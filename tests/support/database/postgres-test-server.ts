import { accessSync, constants, readFileSync, statfsSync } from "node:fs";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parse } from "yaml";
import { LockHeldError, takeLauncherLock } from "#deploy/local/launcher-lock.ts";
import { directoryName, endLeftovers } from "#deploy/local/leftovers.ts";
import {
  type EmbeddedPostgres,
  type PostgresServer,
  startEmbeddedPostgres,
} from "#deploy/local/postgres/embedded-postgres.ts";
import { randomPassword } from "#deploy/local/private-file.ts";
import { requireTools } from "../house/tools.ts";
import { freePort } from "../system/free-port.ts";

/** Where the images of the servers that services run with are named. */
const KUSTOMIZATION = join("deploy", "k8s", "overlays", "development", "kustomization.yaml");
const ROOT = resolve(import.meta.dirname, "..", "..", "..");
const PREFIX = "gatehouse-test-postgres-";
/** A folder this young may belong to a run that has not taken its lock yet. */
const YOUNG_MS = 30_000;
const START_ATTEMPTS = 3;

/** The PostgreSQL server of one test run. */
export interface TestServer {
  server: PostgresServer;
  /** Whether other test runs may use the same server. */
  shared: boolean;
  stop(): Promise<void>;
}

/**
 * The server that the environment asks for: by `TEST_DATABASE_URL` or `TEST_INFRA`, or else an embedded one. Sets
 * `TEST_REDIS_URL` if a Redis comes with it. @throws if `TEST_INFRA` is something else than `containers`.
 */
export async function chooseServer(environment: NodeJS.ProcessEnv): Promise<TestServer> {
  const { TEST_DATABASE_URL: url, TEST_INFRA: infrastructure } = environment;
  if (url) return namedServer(url);
  if (!infrastructure) return await embeddedServer();
  if (infrastructure !== "containers")
    throw new Error(`TEST_INFRA is "containers" or nothing, not "${infrastructure}"`);
  requireTools("TEST_INFRA=containers");
  // Loading it takes a second.
  const { startContainers } = await import("#tools/containers.ts");
  const images = { postgres: imageOf("postgres"), valkey: imageOf("valkey") };
  const { postgres, redisUrl } = await startContainers(images);
  // For the workers, which start later.
  environment.TEST_REDIS_URL ??= redisUrl;
  return postgres;
}

/**
 * The image that the manifests run under this name, such as `postgres:18.1`.
 * @throws if they name none, or no tag: without one an image is another one tomorrow.
 */
export function imageOf(
  name: string,
  kustomization = readFileSync(join(ROOT, KUSTOMIZATION), "utf8"),
): string {
  const { images = [] } = parse(kustomization) as {
    images?: { name: string; newName?: string; newTag?: string }[];
  };
  const image = images.find((candidate) => candidate.name === name);
  if (image?.newTag === undefined) throw new Error(`${KUSTOMIZATION} names no tag of the image ${name}`);
  return `${image.newName ?? name}:${image.newTag}`;
}

/** The server that `TEST_DATABASE_URL` names, a superuser's URL such as `postgres://postgres:secret@127.0.0.1:5432`. */
function namedServer(text: string): TestServer {
  const url = new URL(text);
  const server = {
    host: decodeURIComponent(url.hostname),
    port: Number(url.port || 5432),
    username: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
  };
  return { server, shared: true, stop: async () => {} };
}

/** A server of our own in a temporary folder, which is gone afterwards: after a `kill -9` too, at the next run. */
export async function embeddedServer(): Promise<TestServer> {
  await removeAbandoned();
  const folder = await mkdtemp(join(DATA_ROOT, PREFIX));
  const lock = await takeLauncherLock(folder);
  const remove = async () => {
    await rm(folder, { recursive: true, force: true });
    lock.release();
  };
  try {
    const postgres = await start(folder);
    return { server: postgres.server, shared: false, stop: () => postgres.stop().then(remove) };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Another process may take the free port before PostgreSQL does. */
async function start(folder: string): Promise<EmbeddedPostgres> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await startEmbeddedPostgres({
        dataDirectory: join(folder, `data-${attempt}`),
        port: await freePort(),
        password: randomPassword(),
        logFile: join(folder, "postgres.log"),
        durable: false,
      });
    } catch (error) {
      if (attempt === START_ATTEMPTS) throw error;
    }
  }
}

/** Removes what killed runs have left. A run that lives holds the lock of its folder. */
async function removeAbandoned(): Promise<void> {
  const names = (await readdir(DATA_ROOT)).filter((name) => name.startsWith(PREFIX));
  await Promise.all(names.map((name) => removeIfAbandoned(join(DATA_ROOT, name))));
}

async function removeIfAbandoned(folder: string): Promise<void> {
  try {
    const { mtimeMs, uid } = await stat(folder);
    if (uid !== process.getuid?.() || Date.now() - mtimeMs < YOUNG_MS) return;
    const lock = await takeLauncherLock(folder, 0);
    try {
      await endLeftovers(await directoryName(folder));
      await rm(folder, { recursive: true, force: true });
    } finally {
      lock.release();
    }
  } catch (error) {
    // In use, or somebody else is removing it just now.
    if (error instanceof LockHeldError || (error instanceof Error && "code" in error)) return;
    throw error;
  }
}

const IN_MEMORY = "/dev/shm";
/** Of all systems and databases that run at once. A container's default is 64 MiB. */
const NEEDED_BYTES = 4 * 2 ** 30;

/** Where tests put the data of databases: in memory if there is room, because half of their CPU time went to files. */
export const DATA_ROOT = hasRoom(IN_MEMORY) ? IN_MEMORY : tmpdir();

function hasRoom(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize >= NEEDED_BYTES;
  } catch {
    return false;
  }
}

import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startEmbeddedPostgres } from "#deploy/local/postgres/embedded-postgres.ts";
import { connectTo, provision, servicePasswordFile } from "#deploy/local/postgres/ensure-database.ts";
import { makePrivateDirectory, randomPassword } from "#deploy/local/private-file.ts";
import { databaseOf, type ServiceName } from "#deploy/service-databases.ts";
import { openPool } from "#kit/database/postgres.ts";
import { freePort } from "#tests/support/system/free-port.ts";

const ROOT = resolve(import.meta.dirname, "..", "..", "..");

/** A PostgreSQL of its own with every service's schema, by default durable as in production, gone afterwards unless it has a folder. */
export async function startWorkbench(
  options: { durable?: boolean; settings?: Readonly<Record<string, string>>; keptFolder?: string } = {},
) {
  const { keptFolder, ...postgres } = options;
  if (keptFolder !== undefined) await mkdir(keptFolder, { recursive: true });
  const folder = keptFolder ?? (await mkdtemp(join(tmpdir(), "gatehouse-bench-")));
  const server = await startEmbeddedPostgres({
    dataDirectory: join(folder, "postgres"),
    port: await freePort(),
    password: await keptPassword(join(folder, "superuser-password")),
    logFile: join(folder, "postgres.log"),
    durable: true,
    ...postgres,
  });
  const secrets = join(folder, "secrets");
  await makePrivateDirectory(secrets);
  await provision(server.server, secrets, ROOT);
  const login = async (service: ServiceName) => {
    const { serviceRole: username, database } = databaseOf(service);
    const password = (await readFile(servicePasswordFile(secrets, databaseOf(service)), "utf8")).trim();
    const { host, port } = server.server;
    return { host, port, username, password, database };
  };
  return {
    folder,
    /** How a service connects, for the bare driver. */
    login,
    async connect(service: ServiceName, max = 10, session: Readonly<Record<string, string>> = {}) {
      const { host, port, username, password, database } = await login(service);
      return openPool({
        url: `postgres://${username}@${host}:${port}/${database}`,
        maxConnections: max,
        connectTimeoutMs: 2_000,
        maxWaitMs: 60_000,
        maxWaiting: 10_000,
        driver: { password, connection: { jit: "off", ...session }, onnotice: () => undefined },
      });
    },
    /** As the superuser, to fill tables. */
    connectOwner: (service: ServiceName) => connectTo(server.server, databaseOf(service).database),
    async stop() {
      await server.stop();
      if (keptFolder === undefined) await rm(folder, { recursive: true, force: true });
    },
  };
}

async function keptPassword(file: string): Promise<string> {
  const kept = await readFile(file, "utf8").catch(() => undefined);
  const password = kept ?? randomPassword();
  if (kept === undefined) await writeFile(file, password, { mode: 0o600 });
  return password;
}

/** CPU of this process between two calls, in microseconds, user and system. */
export function startCpu(): () => number {
  const before = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
}

/** Runs `work` this many times, at most `inParallel` at once. @returns seconds. */
export async function runMany(
  times: number,
  inParallel: number,
  work: (index: number) => Promise<unknown>,
): Promise<number> {
  const startedMs = performance.now();
  let next = 0;
  await Promise.all(
    Array.from({ length: inParallel }, async () => {
      while (next < times) {
        next += 1;
        await work(next);
      }
    }),
  );
  return (performance.now() - startedMs) / 1_000;
}

/** The value at a share of the sorted values: 0.5 is the median. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)] ?? Number.NaN;
}

const TICK_US = 10_000;

/** The process of a PostgreSQL, then those of its connections and helpers. */
export async function serverPids(dataDirectory: string): Promise<number[]> {
  const pid = (await readFile(join(dataDirectory, "postmaster.pid"), "utf8")).split("\n")[0];
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, "utf8")).trim().split(" ");
  return [pid, ...children].map(Number);
}

/** CPU time of a PostgreSQL and all its connections until now, those that have ended included, in microseconds. */
export async function serverCpuUs(dataDirectory: string): Promise<number> {
  const [pid, ...children] = await serverPids(dataDirectory);
  const living = await Promise.all(children.map(ranUs));
  const fields = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ")[1]?.split(" ") ?? [];
  const ended = (Number(fields[13]) + Number(fields[14])) * TICK_US;
  return ended + living.reduce((sum, us) => sum + us, 0);
}

/** Of a process with one thread, in microseconds, exact to a nanosecond: time on a CPU, without waiting for one. */
export async function ranUs(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/schedstat`, "utf8").catch(() => "0"); // It may have ended.
  return Number(text.split(" ")[0]) / 1_000;
}

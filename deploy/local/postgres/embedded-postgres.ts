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

/** Exists on every Linux. */
export const NOBODY = { uid: 65_534, gid: 65_534 };

/** Includes recovery after a power loss. */
const READY_TIMEOUT_MS = 30_000;
const STOP_STEPS = [
  { signal: "SIGINT", waitMs: 2_000 }, // Fast: rolls back and writes a checkpoint.
  { signal: "SIGQUIT", waitMs: 800 }, // Immediate: the next start recovers.
  { signal: "SIGKILL", waitMs: 500 },
] as const;

/**
 * Executes PostgreSQL beside a shell that stops it when the launcher is killed, which closes descriptor 3. PostgreSQL
 * would log an unknown child, so the shell is not its child.
 */
const GUARDED = '( (read -r word <&3 || kill -INT $$) & ) ; exec "$0" "$@" 3<&-';

export interface EmbeddedPostgresOptions extends Cluster {
  /** Listens on 127.0.0.1. */
  port: number;
  logFile: string;
  /** Beyond those of {@link serverArguments}. */
  settings?: Readonly<Record<string, string>>;
}

export interface PostgresServer {
  host: string;
  port: number;
  username: string;
  password: string;
  /** The database to which one connects first. Default: `postgres`. */
  database?: string;
  /** Turns on TLS. */
  caFile?: string;
}

export interface EmbeddedPostgres {
  server: PostgresServer;
  pid: number;
  /** Resolves with the reason. Never rejects. */
  exited: Promise<string>;
  stop(): Promise<void>;
}

/** Ends leftovers of a killed launcher first. @throws {LaunchError}, with the end of the server's log if it ended. */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { dataDirectory } = options;
  const name = `${await directoryName(dirname(dataDirectory))}-postgres`;
  const user = await otherUser(dataDirectory);
  await endLeftovers(name);
  const lockFile = join(dataDirectory, "postmaster.pid");
  await removeStaleLock(lockFile);
  const copy = join(tmpdir(), name);
  const program = await postgresProgram(user, copy);
  await prepareDataDirectory(options, program, user);

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

/**
 * The process id in the lock of an ended server may belong to another program. A server that was started by hand needs its
 * lock: without it, it shuts down within a minute. @throws {LaunchError} for such a server.
 */
async function removeStaleLock(lockFile: string): Promise<void> {
  const pid = Number.parseInt((await readIfPresent(lockFile)) ?? "", 10);
  const dataDirectory = dirname(lockFile);
  // PostgreSQL works in its data directory. The link of another user's process cannot be read.
  const workingDirectory = await directoryName(`/proc/${pid}/cwd`).catch(() => undefined);
  if (workingDirectory !== undefined && workingDirectory === (await directoryName(dataDirectory))) {
    throw new LaunchError(`PostgreSQL (process ${pid}) already runs on ${dataDirectory}: stop it first.`);
  }
  await rm(lockFile, { force: true });
}

/** PostgreSQL refuses to run as root, and must own its data. */
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
  guard.on("error", () => {}); // It may have ended.
  const exited = ended.finally(async () => {
    guard.end("ended\n");
    await rm(copy, { recursive: true, force: true }).catch(() => {}); // The next start may replace it.
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

function serverArguments({ port, durable, settings: more }: EmbeddedPostgresOptions): string[] {
  const settings = {
    port,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: 200,
    shared_buffers: "32MB",
    max_wal_size: "256MB",
    io_method: "sync", // Needs no worker processes.
    log_line_prefix: "%m [%p] %u@%d ",
    ...(durable ? {} : { fsync: "off", full_page_writes: "off", synchronous_commit: "off" }),
    ...more,
  };
  return Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}

/** Line 8 of this file is PostgreSQL's status. */
async function untilReady(lockFile: string): Promise<void> {
  const problem = await untilNone(async () => {
    const status = (await readIfPresent(lockFile))?.split("\n")[7]?.trim();
    return status === "ready" ? undefined : (status ?? "starting");
  }, READY_TIMEOUT_MS);
  if (problem) throw new LaunchError(`PostgreSQL was not ready in ${READY_TIMEOUT_MS / 1000} s: ${problem}`);
}

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { findProgram } from "../system/find-program.ts";
import { freePort } from "../system/free-port.ts";

/** How the tests get at Redis: a server that somebody runs, or a program to run one with. */
export type RedisSource = { url: string } | { program: string };

/** A Redis of the test's own, without anything stored. */
export interface TestRedis {
  url: string;
  port: number;
  /** As a crash: every connection breaks, everything is forgotten. Nothing happens if it does not run. */
  kill(): Promise<void>;
  /** Starts it again, empty, on the same port. */
  restart(): Promise<void>;
  /** It stays, keeps its connections and answers nothing, until `thaw`. */
  freeze(): void;
  thaw(): void;
  /** Forgets everything and ends every connection. */
  empty(): Promise<void>;
  /** Ends the use. */
  remove(): Promise<void>;
}

export interface TestRedisOptions {
  password?: string;
  /** As a node of a cluster that is not formed yet. */
  cluster?: boolean;
  /** PEM files of the server; then it speaks only TLS, and `url` is `rediss://`. */
  tls?: { certFile: string; keyFile: string; caFile: string };
  /** Arguments of the program. */
  more?: string[];
}

/** The line for whoever runs the tests and has no Redis. */
export const HOW_TO_GET_REDIS =
  "Redis tests skipped: `apt-get install redis-server` (or valkey-server), or set TEST_REDIS_URL\n";
/** The line where there is only a server that must not be stopped. */
export const HOW_TO_GET_REDIS_PROGRAM =
  "Tests that stop Redis skipped: `apt-get install redis-server` (or valkey-server)\n";

const PROGRAMS = ["redis-server", "valkey-server"];
const START_TIMEOUT_MS = 10_000;
const POLL_MS = 20;

/** `TEST_REDIS_URL` if set, else a program on the PATH; undefined if there is neither. */
export function findRedis(): RedisSource | undefined {
  if (process.env.TEST_REDIS_URL) return { url: process.env.TEST_REDIS_URL };
  const program = findRedisProgram();
  return program === undefined ? undefined : { program };
}

/** Tests that stop Redis need a program, whatever server there is besides. */
export const findRedisProgram = () => findProgram(PROGRAMS);

/** Left by a test that neither killed nor froze it. Starting one costs a test more than most of what it does. */
let unused: TestRedis | undefined;

/** A Redis on a free port of loopback. It ends with this process, if not before. */
export async function startRedis(program: string, options: TestRedisOptions = {}): Promise<TestRedis> {
  const isOrdinary = Object.keys(options).length === 0;
  if (isOrdinary && unused !== undefined) {
    const redis = unused;
    unused = undefined;
    await redis.empty();
    return redis;
  }
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-test-redis-"));
  const port = await freePort();
  const args = [...argumentsOf(port, folder, options), ...(options.cluster ? await clusterArguments() : [])];
  let running = await launch(program, args, port, folder);
  let wasDisturbed = false;
  const kill = async () => {
    wasDisturbed = true;
    if (running.exitCode !== null || running.signalCode !== null) return;
    const ended = once(running, "exit");
    running.kill("SIGKILL");
    await ended;
  };
  const redis: TestRedis = {
    url: `${options.tls ? "rediss" : "redis"}://127.0.0.1:${port}`,
    port,
    kill,
    async restart() {
      await kill();
      running = await launch(program, args, port, folder);
    },
    freeze() {
      wasDisturbed = true;
      running.kill("SIGSTOP");
    },
    thaw: () => void running.kill("SIGCONT"),
    empty: () => empty(port, options.password),
    async remove() {
      if (isOrdinary && !wasDisturbed && unused === undefined) {
        unused = redis;
        return;
      }
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
  return redis;
}

async function empty(port: number, password: string | undefined): Promise<void> {
  const commands = ["FLUSHALL", "SCRIPT FLUSH", "CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"];
  if (password !== undefined) commands.unshift(`AUTH ${password}`);
  const socket = connect(port, "127.0.0.1");
  let answer = "";
  socket.on("data", (data) => {
    answer += data;
    if (answer.split("\r\n").length > commands.length) socket.end();
  });
  socket.write(`${commands.join("\r\n")}\r\n`);
  await once(socket, "close");
  if (/^-/m.test(answer)) throw new Error(`Redis cannot be emptied: ${answer}`);
}

/** By default a node also listens 10,000 ports above its own, where an outgoing connection of anybody may have its port. */
async function clusterArguments(): Promise<string[]> {
  return ["--cluster-enabled", "yes", "--cluster-port", `${await freePort()}`];
}

function argumentsOf(port: number, folder: string, { password, tls, more = [] }: TestRedisOptions): string[] {
  const listen = tls
    ? ["--port", "0", "--tls-port", `${port}`, "--tls-auth-clients", "no"].concat(
        ["--tls-cert-file", tls.certFile, "--tls-key-file", tls.keyFile],
        ["--tls-ca-cert-file", tls.caFile],
      )
    : ["--port", `${port}`];
  const secret = password === undefined ? [] : ["--requirepass", password];
  const kept = ["--dir", folder, "--save", "", "--appendonly", "no"];
  // `localhost` may be either.
  return ["--bind", "127.0.0.1", "-::1", ...kept, ...listen, ...secret, ...more];
}

/** Kills a process and removes its folder as soon as this one is gone, however it went: its end of the pipe closes. */
function guard(child: ChildProcess, folder: string): void {
  if (child.pid === undefined) return;
  const script = 'read -r _ || { kill -KILL "$0"; rm -rf "$1"; }';
  const watcher = spawn("/bin/sh", ["-c", script, `${child.pid}`, folder], {
    stdio: ["pipe", "ignore", "ignore"],
  });
  watcher.stdin?.on("error", () => undefined); // it was killed with us: nothing is left to stop
  child.once("exit", () => watcher.stdin?.end("done\n"));
}

/** It ends with this process. @throws with what the program said, if it does not listen in time. */
export async function launch(
  program: string,
  args: string[],
  port: number,
  folder: string,
): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  guard(child, folder);
  let output = "";
  let failure: Error | undefined;
  child.stdout.on("data", (chunk) => {
    output = `${output}${chunk}`.slice(-4_000);
  });
  child.stderr.resume();
  child.once("error", (error) => {
    failure = error;
  });
  const deadlineMs = performance.now() + START_TIMEOUT_MS;
  while (!(await accepts(port))) {
    if (failure || child.exitCode !== null || performance.now() > deadlineMs) {
      child.kill("SIGKILL");
      throw new Error(`${program} did not start:\n${output}`, { cause: failure });
    }
    await sleep(POLL_MS);
  }
  return child;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

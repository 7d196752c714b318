import { readFile } from "node:fs/promises";
import { z } from "zod";
import { type Home, isHome, openHome } from "./home.ts";
import { errorCode, errorText, LaunchError } from "./launch-error.ts";
import { LockHeldError, launcherState, takeLauncherLock } from "./launcher-lock.ts";
import { endLeftovers } from "./leftovers.ts";
import { untilNone } from "./poll.ts";
import { readIfPresent, writePrivateFile } from "./private-file.ts";
import { local } from "./processes.ts";
import { untilReady } from "./readiness.ts";

/** Of the Linux Standard Base: the program does not run. */
const NOT_RUNNING = 3;
/** Longer than an orderly stop. */
const STOP_TIMEOUT_MS = 20_000;
const READY_TIMEOUT_MS = 1_000;

const launcherSchema = z.object({
  pid: z.int().min(2),
  url: z.string(),
  startedAt: z.string(),
  ended: z.object({ at: z.string(), reason: z.string() }).optional(),
});
type LauncherRecord = z.infer<typeof launcherSchema>;

const OPERATIONS = {
  gateway: "GATEWAY_OPERATIONS_PORT",
  "identity-service": "IDENTITY_OPERATIONS_PORT",
  "token-service": "TOKEN_OPERATIONS_PORT",
  "audit-service": "AUDIT_OPERATIONS_PORT",
  "event-service": "EVENT_OPERATIONS_PORT",
  "payments-service": "PAYMENTS_OPERATIONS_PORT",
} as const;

/** Used by `status` and `stop`. */
export async function recordLauncher(home: Home, url: string): Promise<void> {
  await writeRecord(home, { pid: process.pid, url, startedAt: new Date().toISOString() });
}

/** @param message of a failure, of which the last line is the reason. */
export async function recordEnd(home: Home, message: string): Promise<void> {
  const reason = message.trimEnd().split("\n").at(-1) ?? "";
  const record = await readRecord(home);
  if (record !== undefined)
    await writeRecord(home, { ...record, ended: { at: new Date().toISOString(), reason } });
}

function writeRecord(home: Home, record: LauncherRecord): Promise<void> {
  return writePrivateFile(home.launcherFile, `${JSON.stringify(record)}\n`);
}

async function readRecord(home: Home): Promise<LauncherRecord | undefined> {
  return launcherSchema.safeParse(JSON.parse((await readIfPresent(home.launcherFile)) ?? "{}")).data;
}

/** @returns the exit code: 0 if everything is ready, 1 if not, 3 if nothing runs. */
export async function printStatus(path: string): Promise<number> {
  const running = await findLauncher(path);
  if (running === undefined) {
    console.log(`Gatehouse does not run on ${path}.`);
    if (isHome(path)) await printEnd(await openHome(path));
    return NOT_RUNNING;
  }
  const { home, record, isStopping } = running;
  const ports = z.record(z.string(), z.int()).parse(JSON.parse(await readFile(home.portsFile, "utf8")));
  const states = await Promise.all(
    Object.entries(OPERATIONS).map(async ([name, port]) => {
      const problem = await untilReady(`http://${local(ports[port] ?? 0)}/readyz`, READY_TIMEOUT_MS);
      return { name, problem };
    }),
  );
  const isReady = !isStopping && states.every(({ problem }) => problem === undefined);
  const verdict = isStopping ? "is stopping" : isReady ? "is ready" : "is not ready";
  console.log(
    [
      `Gatehouse ${verdict}: ${record.url}`,
      `Process ${record.pid}, since ${record.startedAt}`,
      ...states.map(({ name, problem }) => `  ${name.padEnd(16)}  ${problem ?? "ready"}`),
      "Ports:",
      ...Object.entries(ports).map(([name, port]) => `  ${name}=${port}`),
      `Home: ${home.path}`,
    ].join("\n"),
  );
  return isReady ? 0 : 1;
}

async function printEnd(home: Home): Promise<void> {
  const record = await readRecord(home);
  if (record === undefined) return;
  const { at, reason } = record.ended ?? {
    at: "an unknown time",
    reason: "it was killed, or the machine was restarted",
  };
  console.log(`It ended at ${at}: ${reason}\nLogs: ${home.logs}`);
}

/** Also when nothing runs. @throws {LaunchError} if it does not stop. */
export async function stopRunning(path: string): Promise<void> {
  const running = await findLauncher(path);
  if (running === undefined) {
    if (isHome(path)) await stopLeftovers(await openHome(path));
    return console.log(`Gatehouse does not run on ${path}.`);
  }
  const { home, record } = running;
  signal(record.pid);
  const left = await untilNone(async () => {
    const state = await launcherState(home.path);
    return state?.pid === record.pid ? state : undefined;
  }, STOP_TIMEOUT_MS);
  if (left !== undefined) throw new LaunchError(`Process ${record.pid} does not stop: see ${home.logs}.`);
  console.log("Stopped.");
}

/** With the lock, because processes of a launcher that begins meanwhile have the same name. */
async function stopLeftovers(home: Home): Promise<void> {
  const lock = await takeLauncherLock(home.path, 0).catch((error: unknown) => {
    throw error instanceof LockHeldError ? betweenStates(home.path) : error;
  });
  lock.announceStop();
  try {
    await endLeftovers(home.name);
  } finally {
    lock.release();
  }
}

function signal(pid: number): void {
  try {
    process.kill(pid, "SIGTERM");
  } catch (error) {
    if (errorCode(error) === "ESRCH") return; // It has ended meanwhile.
    throw new LaunchError(`Process ${pid} cannot be stopped: ${errorText(error)}`, { cause: error });
  }
}

/**
 * The holder of the lock, if the home says the same: any user of this machine could hold the lock's name and so direct a
 * signal at a process of another user.
 * @throws {LaunchError} if they differ.
 */
async function findLauncher(path: string) {
  if (!isHome(path)) return undefined;
  const home = await openHome(path);
  const state = await launcherState(home.path);
  if (state === undefined) return undefined;
  const record = await readRecord(home);
  if (record === undefined || record.pid !== state.pid) {
    throw betweenStates(path);
  }
  return { home, record, isStopping: state.isStopping };
}

function betweenStates(path: string): LaunchError {
  return new LaunchError(`Gatehouse is starting or stopping on ${path}: try again in a moment.`);
}

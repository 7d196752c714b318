import { z } from "zod";
import type { Home } from "./home.ts";
import { LaunchError } from "./launch-error.ts";
import { launcherState, takeStarterLock } from "./launcher-lock.ts";
import { lastLines } from "./log-file.ts";
import { runProcess } from "./run-process.ts";

/** In the environment, because every user of the machine can read the arguments of a process. */
const VARIABLE = "GATEHOUSE_DETACHED_START";

const startSchema = z.object({
  fresh: z.boolean(),
  /** Values of `--set`, `--postgres` and `--redis`, which may have passwords. */
  sets: z.array(z.string()),
  /** Of relative paths in `sets`. */
  folder: z.string(),
});
export type Start = z.infer<typeof startSchema>;

/** What `startDetached` has been asked for. Undefined in a process that it has not started. */
export function detachedStart(environment: NodeJS.ProcessEnv): Start | undefined {
  const text = environment[VARIABLE];
  return text === undefined ? undefined : startSchema.parse(JSON.parse(text));
}

/** In a detached start: it is ready. The process that has started it may be gone. */
export function notifyStarter(text: string): void {
  process.send?.(text, () => undefined);
}

/**
 * Starts `npm start` in the background and waits until it is ready. A Ctrl-C meanwhile stops it.
 * @param entry the program to start, without arguments. @throws {LaunchError} with its output and its exit code.
 */
export async function startDetached(home: Home, entry: string, start: Start): Promise<void> {
  const lock = await takeStarterLock(home.path);
  try {
    // Otherwise its log would be moved away.
    const running = await launcherState(home.path);
    if (running !== undefined) {
      throw new LaunchError(
        `Gatehouse already runs on ${home.path} (process ${running.pid}): stop it first.`,
      );
    }
    console.log(await runDetached(home, entry, start));
  } finally {
    lock.release();
  }
}

/** @returns what it says when it is ready. */
async function runDetached(home: Home, entry: string, start: Start): Promise<string> {
  const logFile = `${home.logs}/npm-start.log`;
  // Without npm it is nobody's orphan.
  const { npm_lifecycle_event: _, ...env } = process.env;
  const { child, ended } = runProcess({
    name: "npm start",
    command: process.execPath,
    args: [entry],
    env: { ...env, [VARIABLE]: JSON.stringify(start) },
    logFile,
    channel: "ipc",
  });
  const stop = () => child.kill("SIGTERM");
  for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, stop);
  const ready = new Promise<string>((resolve) => child.once("message", (text) => resolve(String(text))));
  const outcome = await Promise.race([ready, ended.then(() => undefined)]);
  for (const name of ["SIGINT", "SIGTERM"] as const) process.off(name, stop);
  if (outcome === undefined) {
    const said = (await lastLines(logFile, 40)).join("\n");
    const exitCode = child.exitCode === 78 || child.exitCode === 64 ? child.exitCode : 1;
    throw new LaunchError(said, { exitCode });
  }
  child.disconnect();
  child.unref();
  return outcome;
}

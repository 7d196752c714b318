import { resolve } from "node:path";
import { parseArguments, USAGE } from "./arguments.ts";
import { emptyHome, type Home, openHome } from "./home.ts";
import { errorText, LaunchError } from "./launch-error.ts";
import { Launcher } from "./launcher.ts";
import { type LauncherLock, takeLauncherLock } from "./launcher-lock.ts";
import { endLeftovers } from "./leftover-processes.ts";
import { onNpmGone } from "./npm-parent.ts";
import { requireFreePorts } from "./ports.ts";
import { stopLeftoverPostgres } from "./postgres/postgres-processes.ts";
import { readSettings, type Settings, settingsPorts, writePorts } from "./settings.ts";
import { summary } from "./summary.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const SAME_REQUEST_MS = 500;
/** Sockets of processes which have just ended may still be closing. */
const PORT_GRACE_MS = { afterOrder: 500, afterKill: 3_000 };

/** Runs a local Gatehouse until it is told to stop. Resolves with the exit code. */
async function main(): Promise<number> {
  const { fresh, help } = parseArguments(process.argv.slice(2));
  if (help) {
    console.log(USAGE);
    return 0;
  }
  const startedAt = performance.now();
  const settings = readSettings(process.env, ROOT);
  const home = await openHome(settings.home);
  const launcher = new Launcher(ROOT, settings, home);
  const stopAsked = onStopSignals(() => void launcher.kill().finally(() => process.exit(1)));

  const lock = await Promise.race([claimHome(home, settings, fresh), stopAsked]);
  if (lock === undefined) return 0;
  console.log(`Starting Gatehouse on ${home.path} …`);
  try {
    const administrator = await Promise.race([launcher.start(), launcher.failed, stopAsked]);
    if (administrator === undefined) return 0;
    console.log(summary(settings, launcher.rows, administrator, (performance.now() - startedAt) / 1000));
    await Promise.race([launcher.failed, stopAsked]);
    return 0;
  } finally {
    lock.announceStop();
    console.log("Stopping …");
    await launcher.stop();
  }
}

/** Makes sure that nobody else runs on this home, nothing of an earlier run is left and the ports are free. */
async function claimHome(home: Home, settings: Settings, fresh: boolean): Promise<LauncherLock> {
  const lock = await takeLauncherLock(home.path);
  const killed = await endLeftovers(home.processesFile);
  await stopLeftoverPostgres(home.postgres);
  if (fresh) await emptyHome(home);
  await requireFreePorts(
    settingsPorts(settings),
    killed ? PORT_GRACE_MS.afterKill : PORT_GRACE_MS.afterOrder,
  );
  await writePorts(home, settings);
  return lock;
}

/**
 * Resolves at the first request to stop; calls `impatient` at the second. Signals at the same moment are one request:
 * npm passes on the Ctrl-C which the terminal has sent to every process, and a terminal that closes hangs up besides.
 */
function onStopSignals(impatient: () => void): Promise<undefined> {
  const { promise, resolve: stop } = Promise.withResolvers<undefined>();
  let firstAt: number | undefined;
  const ask = () => {
    firstAt ??= performance.now();
    stop(undefined);
    if (performance.now() - firstAt > SAME_REQUEST_MS) impatient();
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, ask);
  process.on("SIGHUP", () => stop(undefined));
  onNpmGone(process.env, () => stop(undefined));
  return promise;
}

// A terminal that was closed, or `| head`: nothing to print to is no reason to leave processes behind.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

try {
  process.exit(await main());
} catch (error) {
  const expected = error instanceof LaunchError;
  console.error(expected ? error.message : `Gatehouse could not start: ${errorText(error)}`);
  if (!expected) console.error(error);
  process.exit(expected ? error.exitCode : 1);
}

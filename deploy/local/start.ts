import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { isBuilt } from "../../web/sources.ts";
import { emptyHome, type Home, openHome } from "./home.ts";
import { errorText, LaunchError } from "./launch-error.ts";
import { Launcher } from "./launcher.ts";
import { type LauncherLock, takeLauncherLock } from "./launcher-lock.ts";
import { endLeftovers } from "./leftovers.ts";
import { requireFreePorts } from "./ports.ts";
import { readSettings, type Settings, settingsPorts, writePorts } from "./settings.ts";
import { summary } from "./summary.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const SAME_REQUEST_MS = 500;
const PARENT_POLL_MS = 250;

const USAGE = `Usage: npm start [-- --fresh]

Runs Gatehouse on this machine: PostgreSQL, the services, the gateway, an example API, a mailbox and an
identity provider for demonstration.

  --fresh   remove all data of earlier starts first
  --help    print this text

Environment: GATEHOUSE_HOME (where the data is kept; .gatehouse in the repository), GATEWAY_PORT and the
other ports, GATEHOUSE_ADMIN_EMAIL and GATEHOUSE_ADMIN_PASSWORD (at the first start), LOG_LEVEL.`;

async function main(): Promise<void> {
  const { fresh, help } = parseArguments(process.argv.slice(2));
  if (help) return console.log(USAGE);
  const startedAt = performance.now();
  const settings = readSettings(process.env, ROOT);
  const home = await openHome(settings.home);
  const launcher = new Launcher(ROOT, settings, home);
  const stopAsked = onStopRequest();

  const lock = await Promise.race([claimHome(home, settings, fresh === true), stopAsked]);
  if (lock === undefined) return;
  try {
    if (settings.WEB === "on") await Promise.race([buildPages(), stopAsked]);
    console.log(`Starting Gatehouse on ${home.path} …`);
    const administrator = await Promise.race([launcher.start(), launcher.failed, stopAsked]);
    if (administrator === undefined) return;
    console.log(summary(settings, launcher.rows, administrator, (performance.now() - startedAt) / 1000));
    await Promise.race([launcher.failed, stopAsked]);
  } finally {
    lock.announceStop();
    console.log("Stopping …");
    await launcher.stop();
  }
}

function parseArguments(args: string[]): { fresh?: boolean; help?: boolean } {
  const options = { fresh: { type: "boolean" }, help: { type: "boolean", short: "h" } } as const;
  try {
    return parseArgs({ args, options }).values;
  } catch (error) {
    throw new LaunchError(`${errorText(error)}\n\n${USAGE}`, { exitCode: 64, cause: error });
  }
}

async function claimHome(home: Home, settings: Settings, fresh: boolean): Promise<LauncherLock> {
  const lock = await takeLauncherLock(home.path);
  await endLeftovers(home.name);
  if (fresh) await emptyHome(home);
  await requireFreePorts(settingsPorts(settings));
  await writePorts(home, settings);
  return lock;
}

/** In a process of its own, because the builder needs much memory. */
async function buildPages(): Promise<void> {
  if (isBuilt()) return;
  console.log("Building the pages of web/, because their sources have changed …");
  const build = spawn(process.execPath, [join(ROOT, "web", "build.ts")], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [code] = (await once(build, "close")) as [number | null];
  if (code !== 0) throw new LaunchError("The pages of web/ could not be built. WEB=off starts without them.");
}

/**
 * Resolves at the first request. The second ends this process at once, and the others then end by themselves. Signals at
 * the same moment are one request, because npm forwards a Ctrl-C that the terminal has sent to every process.
 */
function onStopRequest(): Promise<undefined> {
  const { promise, resolve: stop } = Promise.withResolvers<undefined>();
  let firstAt: number | undefined;
  const ask = () => {
    firstAt ??= performance.now();
    stop(undefined);
    if (performance.now() - firstAt > SAME_REQUEST_MS) process.exit(1);
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, ask);
  process.on("SIGHUP", () => stop(undefined)); // A closing terminal also sends SIGTERM.
  // A killed npm forwards nothing. Without npm the parent may end, such as a script that starts this in the background.
  const parent = process.ppid;
  const isOrphan = () => process.ppid !== parent && stop(undefined);
  if (process.env.npm_lifecycle_event !== undefined) setInterval(isOrphan, PARENT_POLL_MS).unref();
  return promise;
}

// A closed terminal or `| head` must not prevent an orderly stop.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

try {
  await main();
  process.exit(0);
} catch (error) {
  const expected = error instanceof LaunchError;
  console.error(expected ? error.message : `Gatehouse could not start: ${errorText(error)}`);
  if (!expected) console.error(error);
  process.exit(expected ? error.exitCode : 1);
}

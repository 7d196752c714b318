import { type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { nearestNames, unknownOption } from "#kit/values/nearest-names.ts";
import { isBuilt } from "#web/sources.ts";
import { builtPrograms, ROOT } from "../programs/programs.ts";
import { detachedStart, notifyStarter, type Start, startDetached } from "./detached-start.ts";
import { gatherSettings, homePath } from "./gather-settings.ts";
import { emptyHome, type Home, openHome } from "./home.ts";
import { errorText, LaunchError } from "./launch-error.ts";
import { Launcher } from "./launcher.ts";
import { type LauncherLock, takeLauncherLock } from "./launcher-lock.ts";
import { endLeftovers } from "./leftovers.ts";
import { requireFreePorts } from "./ports.ts";
import { refuseFresh } from "./postgres/external-postgres.ts";
import { openedAt } from "./processes.ts";
import { printStatus, recordEnd, recordLauncher, stopRunning } from "./running.ts";
import { type Settings, settingsPorts, writePorts } from "./settings.ts";
import { summary } from "./summary.ts";

const SAME_REQUEST_MS = 500;
const PARENT_POLL_MS = 250;

const COMMANDS: readonly string[] = ["status", "stop"];
const USAGE = `Usage: npm start [-- <options>]
       npm start -- status | stop

Runs Gatehouse on this machine: PostgreSQL, the services, the gateway, an
example API, a mailbox and an identity provider for demonstration.

  --detach          return when everything is ready; stop it with
                    \`npm start -- stop\`
  --set <service>.<NAME>=<value>
                    a setting of a service, or without a service of npm start
                    itself; repeatable; for this start only
  --postgres <url>  use this PostgreSQL, as a role that may make roles and
                    databases: postgres://role@host:port
  --redis <url>     use this Redis: redis://host:port
  --fresh           remove all data of earlier starts first, but no settings
  --help            print this text

status  says whether everything is ready (exit code 0), not ready (1), or does
        not run (3)
stop    stops it

A password in a URL can be read by every user of this machine. Name a file with
it: GATEHOUSE_POSTGRES_PASSWORD_FILE, GATEHOUSE_REDIS_PASSWORD_FILE.

GATEHOUSE_HOME is where the data is kept: .gatehouse in the repository. Settings
are kept there too, in services/<service>.env and npm-start.env. All of them:
docs/config.md.`;

interface Arguments {
  command: string | undefined;
  fresh: boolean;
  detach: boolean;
  help: boolean;
  sets: string[];
}

async function main(): Promise<number> {
  const { command, fresh, detach, help, sets } = parseArguments(process.argv.slice(2));
  if (help) {
    console.log(USAGE);
    return 0;
  }
  const path = homePath(process.env, ROOT);
  const start = detachedStart(process.env) ?? { fresh, sets, folder: userFolder() };
  if (command === "status") return printStatus(path);
  if (command === "stop") await stopRunning(path);
  else if (detach) await startDetached(await openHome(path), process.argv[1] ?? "", start);
  else await run(await openHome(path), start);
  return 0;
}

/** npm changes the folder. */
const userFolder = () => (process.env.npm_lifecycle_event && process.env.INIT_CWD) || process.cwd();

async function run(home: Home, { fresh, sets, folder }: Start): Promise<void> {
  const startedAt = performance.now();
  flushCompileCache(); // The processes have modules in common with this one.
  const settings = await gatherSettings(home, { environment: process.env, sets, folder, root: ROOT });
  const launcher = new Launcher(ROOT, settings, home);
  const stopAsked = onStopRequest();

  const lock = await Promise.race([claimHome(home, settings, fresh), stopAsked]);
  if (lock === undefined) return;
  let end = "it was stopped";
  try {
    const programs = buildPrograms();
    const pages = settings.WEB === "on" ? buildPages() : Promise.resolve();
    console.log(`Starting Gatehouse on ${home.path} …`);
    const administrator = await Promise.race([launcher.start(programs, pages), launcher.failed, stopAsked]);
    if (administrator === undefined) return;
    const seconds = (performance.now() - startedAt) / 1000;
    const isDetached = process.send !== undefined;
    const logKey = await launcher.readLogKey();
    const about = { seconds, isDetached, logs: home.logs, logKey };
    const text = summary(settings, launcher.rows, administrator, about);
    console.log(text);
    // The log of a detached start is not the place to read it.
    notifyStarter(text);
    await Promise.race([launcher.failed, stopAsked]);
  } catch (error) {
    end = errorText(error);
    throw error;
  } finally {
    lock.announceStop();
    console.log("Stopping …");
    await launcher.stop();
    await recordEnd(home, end).catch(() => undefined); // A full disk may be the reason.
  }
}

function parseArguments(args: string[]): Arguments {
  const options = {
    fresh: { type: "boolean", default: false },
    detach: { type: "boolean", default: false },
    help: { type: "boolean", short: "h", default: false },
    set: { type: "string", multiple: true },
    postgres: { type: "string" },
    redis: { type: "string" },
  } as const;
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
    const [command, ...surplus] = positionals;
    if (command !== undefined && (surplus.length > 0 || !COMMANDS.includes(command))) {
      const [nearest] = surplus.length > 0 ? [] : nearestNames(command, COMMANDS);
      const hint = nearest === undefined ? "" : `\nDid you mean ${nearest}?`;
      throw new Error(`Unknown command: ${positionals.join(" ")}${hint}`);
    }
    const { fresh, detach, help, set = [], postgres, redis } = values;
    const sets = [...set];
    if (postgres !== undefined) sets.push(`GATEHOUSE_POSTGRES_URL=${postgres}`);
    if (redis !== undefined) sets.push(`GATEHOUSE_REDIS_URL=${redis}`);
    return { command, fresh, detach, help, sets };
  } catch (error) {
    const problem = unknownOption(error, Object.keys(options)) ?? errorText(error);
    throw new LaunchError(`${problem}\n\n${USAGE}`, { exitCode: 64, cause: error });
  }
}

async function claimHome(home: Home, settings: Settings, fresh: boolean): Promise<LauncherLock> {
  const lock = await takeLauncherLock(home.path);
  await endLeftovers(home.name);
  if (fresh) await refuseFresh(home);
  if (fresh) await emptyHome(home);
  await requireFreePorts(settingsPorts(settings));
  await writePorts(home, settings);
  await recordLauncher(home, openedAt(settings.GATEWAY_PORT));
  return lock;
}

/** @returns the path of each. Without a bundle, such as on a full disk, a program runs from its source. */
async function buildPrograms(): Promise<Record<string, string>> {
  const built = builtPrograms();
  if (built !== undefined) return built;
  try {
    await build("deploy/programs/build.ts", "The programs could not be bundled.");
  } catch (error) {
    console.log(`Note: ${errorText(error)} They run from their sources, and a start takes longer.`);
  }
  return builtPrograms() ?? {};
}

async function buildPages(): Promise<void> {
  if (isBuilt()) return;
  console.log("Building the pages of web/, because their sources have changed …");
  await build("web/build.ts", "The pages of web/ could not be built. WEB=off starts without them.");
}

/** In a process of its own, because the builders need much memory. */
async function build(program: string, failure: string): Promise<void> {
  const options: SpawnOptions = { stdio: ["ignore", "ignore", "inherit"] };
  const [code] = await once(spawn(process.execPath, [join(ROOT, program)], options), "close");
  if (code !== 0) throw new LaunchError(failure);
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
  process.exit(await main());
} catch (error) {
  const expected = error instanceof LaunchError;
  console.error(expected ? error.message : `Gatehouse could not start: ${errorText(error)}`);
  if (!expected) console.error(error);
  process.exit(expected ? error.exitCode : 1);
}

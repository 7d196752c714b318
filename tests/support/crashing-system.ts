import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { openHome } from "../../deploy/local/home.ts";
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from "../../deploy/local/postgres/embedded-postgres.ts";
import { type ProcessSpec, processPlan } from "../../deploy/local/processes.ts";
import { untilReady } from "../../deploy/local/readiness.ts";
import { readSettings } from "../../deploy/local/settings.ts";
import { BARE_ENVIRONMENT } from "./bare-environment.ts";
import { type PortName, startSystem } from "./system.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const READY_TIMEOUT_MS = 120_000;
const NAMES = ["gateway", "identity-service", "token-service", "audit-service"] as const;

/** What can be killed. */
export type PartName = (typeof NAMES)[number] | "postgres";

/**
 * A Gatehouse whose parts are killed and started again one by one. What ends without being killed is started again
 * too, as any supervisor would, and is told of.
 */
export interface CrashingSystem {
  url: string;
  home: string;
  ports: Record<PortName, number>;
  /** `kill -9`. Resolves when the process is gone. */
  kill(name: PartName): Promise<void>;
  /** Resolves when it is ready. */
  start(name: PartName): Promise<void>;
  /** `SIGSTOP`: its kernel still takes connections, and nothing answers. `SIGCONT`, or being killed, ends it. */
  freeze(name: Exclude<PartName, "postgres">): void;
  thaw(name: Exclude<PartName, "postgres">): void;
  /** As PostgreSQL's superuser. */
  server(): EmbeddedPostgres["server"];
  /** Processes that ended without being killed: their names. */
  ended: string[];
  /** The gateway's metrics, as text. */
  metrics(): Promise<string>;
  remove(): Promise<void>;
}

/** The variables of a process that differ from those that `npm start` gives it. */
export type Detour = (spec: ProcessSpec) => Record<string, string> | Promise<Record<string, string>>;

/**
 * Makes a home with `npm start`, stops that, and runs the same processes without a launcher above them. PostgreSQL is
 * durable, and of this system alone.
 */
export async function startCrashingSystem(detour: Detour = () => ({})): Promise<CrashingSystem> {
  const { home, ports, url, stop } = await startSystem();
  await stop();
  const environment = Object.fromEntries(Object.entries(ports).map(([key, port]) => [key, String(port)]));
  const settings = readSettings({ ...environment, GATEHOUSE_HOME: home }, ROOT);
  const administrator = { email: "", passwordFile: "" };
  const planned = processPlan(settings, await openHome(home), administrator).flat();
  const specs = await Promise.all(
    planned.map(async (spec) => ({
      ...spec,
      environment: { ...spec.environment, ...(await detour(spec)) },
    })),
  );
  const password = (await readFile(join(home, "secrets", "postgres-superuser-password"), "utf8")).trim();

  const children = new Map<string, ChildProcess>();
  const ended: string[] = [];
  let postgres: EmbeddedPostgres | undefined;

  async function start(name: PartName): Promise<void> {
    if (name === "postgres") {
      postgres = await startEmbeddedPostgres({
        dataDirectory: join(home, "postgres"),
        port: ports.POSTGRES_PORT,
        password,
        logFile: join(home, "logs", "postgres.log"),
        durable: true,
      });
      return;
    }
    const spec = specs.find((candidate) => candidate.name === name);
    if (spec === undefined) throw new Error(`there is no ${name}`);
    spawnSupervised(spec);
    const problem = await untilReady(spec.readyUrl, READY_TIMEOUT_MS);
    if (problem !== undefined) throw new Error(`${name} is not ready: ${problem}`);
  }

  function spawnSupervised(spec: ProcessSpec): void {
    const child = spawnPart(spec, home);
    children.set(spec.name, child);
    child.once("exit", () => {
      if (children.get(spec.name) !== child) return;
      ended.push(spec.name);
      spawnSupervised(spec);
    });
  }

  async function kill(name: PartName): Promise<void> {
    if (name === "postgres") {
      if (postgres === undefined) return;
      process.kill(postgres.pid, "SIGKILL");
      await postgres.exited;
      postgres = undefined;
      return;
    }
    const child = children.get(name);
    if (child === undefined) return;
    children.delete(name);
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }

  await start("postgres");
  await Promise.all(NAMES.map(start));
  return {
    url,
    home,
    ports,
    kill,
    start,
    freeze: (name) => void children.get(name)?.kill("SIGSTOP"),
    thaw: (name) => void children.get(name)?.kill("SIGCONT"),
    server() {
      if (postgres === undefined) throw new Error("PostgreSQL does not run");
      return postgres.server;
    },
    ended,
    metrics: async () => (await fetch(`http://127.0.0.1:${ports.GATEWAY_OPERATIONS_PORT}/metrics`)).text(),
    async remove() {
      await Promise.all(NAMES.map(kill));
      await postgres?.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}

function spawnPart(spec: ProcessSpec, home: string): ChildProcess {
  const log = openSync(join(home, "logs", `${spec.name}.log`), "a", 0o600);
  const child = spawn(process.execPath, [join(ROOT, spec.entry)], {
    cwd: ROOT,
    env: { ...BARE_ENVIRONMENT, ...spec.environment },
    stdio: ["ignore", log, log, "ipc"],
  });
  closeSync(log);
  return child;
}

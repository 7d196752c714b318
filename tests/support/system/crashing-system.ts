import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { openHome } from "#deploy/local/home.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "#deploy/local/postgres/embedded-postgres.ts";
import { type ProcessSpec, processPlan } from "#deploy/local/processes.ts";
import { untilReady } from "#deploy/local/readiness.ts";
import { readSettings } from "#deploy/local/settings.ts";
import { freePort } from "./free-port.ts";
import { BARE_ENVIRONMENT, type PortName, type SystemOptions, startSystem } from "./system.ts";

const ROOT = resolve(import.meta.dirname, "..", "..", "..");
const READY_TIMEOUT_MS = 120_000;
const NAMES = ["gateway", "identity-service", "token-service", "audit-service", "event-service"] as const;
/** Outlives every fault. */
const PROVIDER = "demo-provider";
type ServiceName = (typeof NAMES)[number];
/** The name of the second replica of a service. */
const twin = <Name extends ServiceName>(name: Name) => `${name}-2` as const;

/** A process. `-2` is there with `twins` alone. */
type ProcessName = ServiceName | `${ServiceName}-2`;

/** What can be killed. */
export type PartName = ProcessName | "postgres";

/**
 * A Gatehouse whose parts are killed and started again one by one. What ends without being killed is started again
 * too, as any supervisor would, and is reported.
 */
export interface CrashingSystem {
  url: string;
  home: string;
  ports: Record<PortName, number>;
  /** `kill -9`. Resolves when the process is gone. */
  kill(name: PartName): Promise<void>;
  /** Resolves when it runs; PostgreSQL: when it is ready. */
  launch(name: PartName): Promise<void>;
  /** From its next start. */
  configure(name: ProcessName, environment: Record<string, string>): void;
  /** Resolves when it is ready. */
  start(name: PartName): Promise<void>;
  /** `SIGSTOP`: its kernel still takes connections, and nothing answers. `SIGCONT`, or being killed, ends it. */
  freeze(name: PartName): void;
  thaw(name: PartName): void;
  /** Of one process, or of all. Resolves when it is ready. */
  untilReady(name?: ProcessName): Promise<void>;
  /** Where each gateway serves. */
  gateways: readonly string[];
  /** As PostgreSQL's superuser. */
  server(): EmbeddedPostgres["server"];
  /** Processes that ended without being killed: their names. */
  ended: string[];
  /** The metrics of all gateways, as text. */
  metrics(): Promise<string>;
  remove(): Promise<void>;
}

/** The variables of a process that differ from those that `npm start` gives it. */
export type Detour = (spec: ProcessSpec) => Record<string, string> | Promise<Record<string, string>>;

/**
 * Makes a home with `npm start`, stops that, and runs the same processes without a launcher above them. PostgreSQL is
 * durable, and of this system alone, unless `options` name another server: then `kill` and `start` know none.
 *
 * @param options.twins two replicas of each service. Each calls only those of its own row: so both rows are in use.
 * @param options.provider with the demo provider.
 */
export async function startCrashingSystem(
  detour: Detour = () => ({}),
  options: { twins?: boolean; provider?: boolean } & Pick<SystemOptions, "environment" | "files"> = {},
): Promise<CrashingSystem> {
  const { environment: given, files } = options;
  const { home, ports, url, stop } = await startSystem({
    ...(given && { environment: given }),
    ...(files && { files }),
  });
  await stop();
  const environment = Object.fromEntries(Object.entries(ports).map(([key, port]) => [key, String(port)]));
  const settings = readSettings({ ...environment, ...given, GATEHOUSE_HOME: home }, ROOT);
  const hasOwnPostgres = settings.GATEHOUSE_POSTGRES_URL === undefined;
  const administrator = { email: "", passwordFile: "" };
  const all = processPlan(settings, await openHome(home), administrator).flat();
  const single = all.filter(({ name }) => NAMES.some((own) => own === name));
  const provider = options.provider ? all.find(({ name }) => name === PROVIDER) : undefined;
  const planned = options.twins ? [...single, ...(await twinsOf(single))] : single;
  const names = planned.map(({ name }) => name as ProcessName);
  const specs = await Promise.all(
    planned.map(async (spec) => ({
      ...spec,
      environment: { ...spec.environment, ...(await detour(spec)) },
    })),
  );
  const password = hasOwnPostgres
    ? (await readFile(join(home, "secrets", "postgres-superuser-password"), "utf8")).trim()
    : "";

  const children = new Map<string, ChildProcess>();
  const ended: string[] = [];
  let postgres: EmbeddedPostgres | undefined;

  async function start(name: PartName): Promise<void> {
    await launch(name);
    if (name !== "postgres") await awaitReady(name);
  }

  async function launch(name: PartName): Promise<void> {
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
  }

  async function awaitReady(name: ProcessName): Promise<void> {
    const problem = await untilReady(
      specs.find((candidate) => candidate.name === name)?.readyUrl ?? "",
      READY_TIMEOUT_MS,
    );
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
    await killProcess(name);
  }

  async function killProcess(name: string): Promise<void> {
    const child = children.get(name);
    if (child === undefined) return;
    children.delete(name);
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }

  function signal(name: PartName, what: "SIGSTOP" | "SIGCONT"): void {
    if (name !== "postgres") children.get(name)?.kill(what);
    else if (postgres !== undefined) signalTree(postgres.pid, what);
  }

  const gateways = specs.filter(({ name }) => /^gateway/.test(name));
  if (hasOwnPostgres) await start("postgres");
  await Promise.all(names.map(start));
  if (provider !== undefined) {
    spawnSupervised(provider);
    const problem = await untilReady(provider.readyUrl, READY_TIMEOUT_MS);
    if (problem !== undefined) throw new Error(`${PROVIDER} is not ready: ${problem}`);
  }
  return {
    url,
    home,
    ports,
    kill,
    launch,
    configure(name, changed) {
      Object.assign(specs.find((spec) => spec.name === name)?.environment ?? {}, changed);
    },
    start,
    freeze: (name) => signal(name, "SIGSTOP"),
    thaw: (name) => signal(name, "SIGCONT"),
    server() {
      if (postgres === undefined) throw new Error("PostgreSQL does not run");
      return postgres.server;
    },
    async untilReady(name) {
      await Promise.all(name === undefined ? names.map(awaitReady) : [awaitReady(name)]);
    },
    gateways: gateways.map(({ address }) => `http://${address}`),
    ended,
    async metrics() {
      const texts = gateways.map(async ({ readyUrl }) =>
        (await fetch(readyUrl.replace("/readyz", "/metrics"))).text(),
      );
      return (await Promise.all(texts)).join("\n");
    },
    async remove() {
      await Promise.all([...names, PROVIDER].map(killProcess));
      await postgres?.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** On ports, and with a spool, of its own. */
async function twinsOf(specs: readonly ProcessSpec[]): Promise<ProcessSpec[]> {
  const moved = new Map<string, string>();
  for (const { environment } of specs) {
    for (const key of ["LISTEN_ADDRESS", "HEALTH_ADDRESS", "OPERATIONS_ADDRESS"]) {
      const address = environment[key];
      if (address !== undefined) moved.set(address, `127.0.0.1:${await freePort()}`);
    }
  }
  return specs.map(({ name, entry, environment, nodeOptions, readyUrl, address }) => {
    const own = Object.entries(environment).map(([key, value]) => [key, moved.get(value) ?? value]);
    const spool = environment.AUDIT_SPOOL_DIRECTORY;
    const hosts = environment.ALLOWED_HOSTS;
    return {
      name: twin(name as ServiceName),
      entry,
      nodeOptions,
      address: moved.get(address) ?? address,
      readyUrl: readyUrl.replace(new URL(readyUrl).host, (host) => moved.get(host) ?? host),
      environment: {
        ...Object.fromEntries(own),
        ...(spool === undefined ? {} : { AUDIT_SPOOL_DIRECTORY: `${spool}-2` }),
        ...(hosts === undefined ? {} : { ALLOWED_HOSTS: `${hosts},${moved.get(address)}` }),
      },
    };
  });
}

/** PostgreSQL has a process for each connection, in a session of its own. */
function signalTree(pid: number, what: NodeJS.Signals): void {
  // The server first when it stops: so it has no further children.
  process.kill(pid, what);
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
  for (const child of children) {
    try {
      process.kill(Number(child), what);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
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

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePorts, type PortName } from "#tests/support/system/system.ts";
import type { Version } from "../../rolling/version.ts";
import { childrenCpuUs, cpuUs } from "./processes.ts";

const START_TIMEOUT_MS = 180_000;
const STOP_TIMEOUT_MS = 30_000;
/** What a call leaves behind: log lines, audit entries, mails. */
const SETTLE_MS = 400;

const SERVICES = ["gateway", "identity-service", "token-service", "audit-service", "event-service"] as const;
type Service = (typeof SERVICES)[number];
export type Part = Service | "postgres";
export const INTROSPECTION_CLIENT = { id: "bench", secret: "a secret of thirty-two random bytes" };

const plenty = { calls: 1_000_000_000, perSeconds: 60 };
const LIMITS = ["login", "refresh", "account", "introspection"]
  .map((name) => `${name}.address=1000000000/60`)
  .concat("login.total=1000000000/60", "account.user=1000000000/60")
  .join(",");

/** Defaults but for limits that no load reaches, tokens that outlive the measuring, and room for as many as are alive. */
const SETTINGS: Readonly<Record<string, string>> = {
  "gateway.env": `RATE_LIMITS=${LIMITS}\nINTROSPECTION_CLIENTS_FILE=introspection.json\nVERIFIED_TOKENS_MAX=60000\n`,
  "identity-service.env":
    "THROTTLE_CALL_NETWORK_BUDGET=1000000\nTHROTTLE_NETWORK_BUDGET=1000000\nTHROTTLE_CALL_GLOBAL_BUDGET=100000000\nTHROTTLE_LOGIN_BUDGET=1000000\n",
  "token-service.env": "ACCESS_TOKEN_TTL_S=3600\n",
};

export interface StartOptions {
  /** Of an earlier one, to start again. */
  again?: Pick<Gatehouse, "home" | "ports">;
  /** The routes `/payments`, and limits that no load reaches. Default: as `npm start` makes a home. */
  upstreamPort?: number;
}

/** A whole Gatehouse of a version, as `npm start` runs it, in a home and on ports of its own, on a disk. */
export class Gatehouse {
  readonly version: Version;
  readonly url: string;
  readonly home: string;
  readonly ports: Record<PortName, number>;
  readonly pids: Readonly<Record<Part, number>>;
  /** From the command until it says that everything is ready. */
  readonly startedInMs: number;
  readonly #launcher: ReturnType<typeof spawn>;

  constructor(
    version: Version,
    started: Pick<Gatehouse, "home" | "ports" | "pids" | "startedInMs"> & {
      launcher: ReturnType<typeof spawn>;
    },
  ) {
    this.version = version;
    this.url = `http://127.0.0.1:${started.ports.GATEWAY_PORT}`;
    this.home = started.home;
    this.ports = started.ports;
    this.pids = started.pids;
    this.startedInMs = started.startedInMs;
    this.#launcher = started.launcher;
  }

  static async start(version: Version, { again, upstreamPort }: StartOptions = {}): Promise<Gatehouse> {
    const home = again?.home ?? (await mkdtemp(join(tmpdir(), "gatehouse-bench-")));
    const ports = again?.ports ?? (await freePorts());
    if (upstreamPort !== undefined && again === undefined) await writeHome(home, upstreamPort);
    const startedMs = performance.now();
    const launcher = spawn(process.execPath, ["deploy/local/start.ts"], {
      cwd: version.root,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        TMPDIR: process.env.TMPDIR,
        CALL_BUDGET_MS: "10000", // A busy machine is slow, not broken.
        npm_lifecycle_event: "start", // Then it ends with this process.
        GATEHOUSE_HOME: home,
        ...Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, String(port)])),
      },
    });
    const output = await untilReady(launcher);
    const startedInMs = performance.now() - startedMs;
    const pids = pidsIn(output);
    return new Gatehouse(version, { home, ports, pids, startedInMs, launcher });
  }

  /** Those of its version: the former ones had no event-service. */
  get services(): Service[] {
    return SERVICES.filter((name) => this.pids[name] !== undefined);
  }

  /** CPU time of each part until now, in microseconds, after what the calls before have left behind. */
  async cpuUs(): Promise<Record<Part, number>> {
    await sleep(SETTLE_MS);
    const parts = this.services.map((name) => [name, cpuUs(this.pids[name])] as const);
    return Object.fromEntries([...parts, ["postgres", childrenCpuUs(this.pids.postgres)]]) as Record<
      Part,
      number
    >;
  }

  /** The gateway uses it within two seconds. */
  writeRoutes(routes: readonly object[]): Promise<void> {
    return writeWhole(join(this.home, "routes.yaml"), JSON.stringify({ routes }));
  }

  async stop(): Promise<void> {
    if (this.#launcher.exitCode !== null) return;
    const ended = once(this.#launcher, "exit");
    this.#launcher.kill("SIGTERM");
    const timer = setTimeout(() => this.#launcher.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(timer);
  }

  async remove(): Promise<void> {
    await this.stop();
    await rm(this.home, { recursive: true, force: true });
  }
}

/** A GET needs the role and a permission of nobody; a POST waits for its audit entries. */
export function routeTo(prefix: string, upstreamPort: number): object {
  return {
    prefix,
    upstream: `http://127.0.0.1:${upstreamPort}`,
    rateLimit: { perUser: plenty, perAddress: plenty, total: plenty },
    methods: { GET: { roles: ["USER"] }, POST: { roles: ["USER"], action: "payments.create" } },
  };
}

/** Lays a home out as its user would have edited it. With an empty record of defaults, none of the files counts as one. */
async function writeHome(home: string, upstreamPort: number): Promise<void> {
  await mkdir(join(home, "services"), { mode: 0o700 });
  const { id, secret } = INTROSPECTION_CLIENT;
  const clients = { clients: [{ id, secretSha256: createHash("sha256").update(secret).digest("hex") }] };
  const files = {
    "gatehouse-home": "",
    "defaults.json": "{}",
    "routes.yaml": JSON.stringify({ routes: [routeTo("/payments", upstreamPort)] }),
    "introspection.json": JSON.stringify(clients),
    ...Object.fromEntries(Object.entries(SETTINGS).map(([name, text]) => [`services/${name}`, text])),
  };
  for (const [name, text] of Object.entries(files)) await writeWhole(join(home, name), text);
}

/** A reader sees the old file or the new one. */
async function writeWhole(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text, { mode: 0o600 });
  await rename(`${path}.new`, path);
}

/** @returns what the launcher has printed. @throws with that if it ends or is not ready in time. */
async function untilReady(launcher: ReturnType<typeof spawn>): Promise<string> {
  let output = "";
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const fail = (how: string) => reject(new Error(`npm start ${how}:\n${output}`));
  const timer = setTimeout(() => fail("is not ready in time"), START_TIMEOUT_MS);
  launcher.once("exit", (code) => fail(`ended with ${code}`));
  for (const stream of [launcher.stdout, launcher.stderr]) {
    stream?.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes("Gatehouse ready:") && output.includes("stops everything")) resolve();
    });
  }
  try {
    await promise;
  } catch (error) {
    launcher.kill("SIGTERM");
    throw error;
  } finally {
    clearTimeout(timer);
  }
  return output;
}

/** @throws without PostgreSQL. */
function pidsIn(output: string): Record<Part, number> {
  const parts = [...SERVICES, "postgres"].map((name) => {
    const [, pid] = new RegExp(`^ {2}${name} +\\S+ +(\\d+)\\b`, "m").exec(output) ?? [];
    return [name, pid] as const;
  });
  const running = parts.flatMap(([name, pid]) => (pid === undefined ? [] : [[name, Number(pid)]]));
  const pids = Object.fromEntries(running) as Record<Part, number>;
  if (pids.postgres === undefined) throw new Error(`npm start named no process of postgres:\n${output}`);
  return pids;
}

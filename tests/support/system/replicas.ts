import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { openHome } from "#deploy/local/home.ts";
import { processPlan } from "#deploy/local/processes.ts";
import { untilReady } from "#deploy/local/readiness.ts";
import { readSettings } from "#deploy/local/settings.ts";
import { freePort } from "./free-port.ts";
import type { System } from "./system.ts";
import { BARE_ENVIRONMENT } from "./system.ts";

/** Of all gateways, as behind a balancer. */
export const PUBLIC_HOST = "api.gatehouse.test";
const ROOT = resolve(import.meta.dirname, "..", "..", "..");

const PLENTY = JSON.stringify(
  Object.fromEntries(
    ["perUser", "perAddress", "total"].map((scope) => [scope, { calls: 1_000_000, perSeconds: 60 }]),
  ),
);

const UNLIMITED = [
  "login.address",
  "account.address",
  "account.user",
  "admin.address",
  "admin.user",
  "client.address",
]
  .map((name) => `${name}=1000000/60`)
  .join(",");

/** A process beside those of `npm start`, on the same databases and certificates. */
export interface Replica {
  /** Where it serves: `host:port`. */
  address: string;
  /** Its metrics, as text. */
  metrics(): Promise<string>;
  child: ChildProcess;
  stop(): Promise<void>;
}

/**
 * Starts another replica of a service of a running system.
 *
 * @param environment what differs from the first replica's configuration, besides its ports.
 */
export async function startReplica(
  system: Pick<System, "home" | "ports">,
  name: "gateway" | "identity-service" | "token-service" | "audit-service" | "event-service",
  environment: Record<string, string> = {},
): Promise<Replica> {
  const ports = Object.fromEntries(Object.entries(system.ports).map(([key, port]) => [key, String(port)]));
  const settings = readSettings({ ...ports, GATEHOUSE_HOME: system.home }, ROOT);
  const administrator = { email: "", passwordFile: "" };
  const specs = processPlan(settings, await openHome(system.home), administrator).flat();
  const spec = specs.find((candidate) => candidate.name === name);
  if (spec === undefined) throw new Error(`there is no ${name}`);

  const local = async () => `127.0.0.1:${await freePort()}`;
  const [address, operations, health] = [await local(), await local(), await local()];
  const child = spawn(process.execPath, [join(ROOT, spec.entry)], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
    env: {
      ...BARE_ENVIRONMENT,
      ...spec.environment,
      LISTEN_ADDRESS: address,
      OPERATIONS_ADDRESS: operations,
      HEALTH_ADDRESS: health,
      ...(name === "gateway"
        ? { ALLOWED_HOSTS: `${spec.environment.ALLOWED_HOSTS},${address},${PUBLIC_HOST}` }
        : {}),
      ...environment,
    },
  });
  const log = createWriteStream(join(system.home, "logs", `${name}-${address.split(":")[1]}.log`));
  child.stdout?.pipe(log);
  child.stderr?.pipe(log);
  const ended = once(child, "exit");
  const problem = await untilReady(`http://${operations}/readyz`);
  if (problem !== undefined) throw new Error(`${name} at ${address} is not ready: ${problem}`);
  return {
    address,
    metrics: async () => (await fetch(`http://${operations}/metrics`)).text(),
    child,
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

/** Three token-services that wake each other over Redis if there is one, a gateway before each, and an identity-service. */
export async function startThreeOfEach(system: System, redisUrl: string | undefined) {
  const redis = redisUrl === undefined ? {} : { REDIS_URL: redisUrl };
  const tokens = await Promise.all([0, 1, 2].map(() => startReplica(system, "token-service", redis)));
  // Their load comes from one address, and as fast as it can.
  const ROUTES_FILE = join(system.home, "routes-of-replicas.yaml");
  const routes = await readFile(join(system.home, "routes.yaml"), "utf8");
  await writeFile(ROUTES_FILE, routes.replace(/^( *)methods:/m, `$1rateLimit: ${PLENTY}\n$1methods:`));
  const limits = {
    ROUTES_FILE,
    RATE_LIMITS: UNLIMITED,
    // A busy machine is slow, not broken.
    CALL_BUDGET_MS: "10000",
  };
  const identity = await startReplica(system, "identity-service", {
    TOKEN_SERVICE_ADDRESS: tokens[0]?.address ?? "",
    THROTTLE_LOGIN_BUDGET: "1000000",
  });
  const gateways = await Promise.all(
    tokens.map(({ address }) =>
      startReplica(system, "gateway", {
        TOKEN_SERVICE_ADDRESS: address,
        IDENTITY_SERVICE_ADDRESS: identity.address,
        ...limits,
      }),
    ),
  );
  return {
    tokens,
    gateways,
    async stop() {
      await Promise.all(gateways.map((gateway) => gateway.stop()));
      await identity.stop();
      await Promise.all(tokens.map((token) => token.stop()));
    },
  };
}

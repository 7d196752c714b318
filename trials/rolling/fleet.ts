import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { stringify } from "yaml";
import { ensureCertificates } from "#deploy/local/certificates.ts";
import { type Home, openHome } from "#deploy/local/home.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "#deploy/local/postgres/embedded-postgres.ts";
import { provision } from "#deploy/local/postgres/ensure-database.ts";
import { demoIssuer, type ProcessSpec, processPlan } from "#deploy/local/processes.ts";
import { untilReady } from "#deploy/local/readiness.ts";
import { ensureSecrets, firstAdministrator, secretFile } from "#deploy/local/secrets.ts";
import { readSettings } from "#deploy/local/settings.ts";
import { DATA_ROOT } from "#tests/support/database/postgres-test-server.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { ADMIN, BARE_ENVIRONMENT, freePorts, type PortName } from "#tests/support/system/system.ts";
import { routesTo, UNLIMITED, UNTHROTTLED } from "../chaos/system-under-load.ts";
import { type Balancer, startBalancer } from "./balancer.ts";
import { ROOT, type Version } from "./version.ts";

const SERVICES = ["audit-service", "token-service", "identity-service", "event-service"] as const;
type ServiceName = (typeof SERVICES)[number];
export type Part = ServiceName | "gateway";
export const REPLICAS = 2;

/** How a replica ends: as Kubernetes ends it, or without a word. */
export type Manner = "SIGTERM" | "SIGKILL";

/** A client asks for the addresses every 4 to 6 s: until then it may call an address that is not there any more. */
const KNOWN_MS = 7_000;
const GATEWAY_DRAIN_MS = 2_000;
/** After that, nobody is sent to a replica that is not ready. */
const NOTICE_MS = 500;
/** For a busy machine, on which a call of a second has not failed. */
const CALL_BUDGET_MS = 5_000;

interface Replica {
  part: Part;
  /** Of its kind. In this place the next one follows it. */
  place: number;
  version: Version;
  /** Only this process has it; of a gateway all in one place. */
  host: string;
  child: ChildProcess;
  readyUrl: string;
}

/** A process that was killed, and when: what was under way in it has failed. Times of `performance.now()`. */
export interface Kill {
  part: Part;
  fromMs: number;
  toMs: number;
  /** Whether all gateways were of this code. The version before may repeat fewer calls. */
  isOfNext: boolean;
}

const PLACES = Array.from({ length: REPLICAS }, (_, place) => place);

export interface FleetOptions {
  old: Version;
  next: Version;
  upstreamPort: number;
  smtpPort: number;
  redisUrl: string | undefined;
}

/** What is there before any of its processes. */
interface Ground {
  home: Home;
  specs: readonly ProcessSpec[];
  postgres: EmbeddedPostgres;
  balancer: Balancer;
  gatewayPorts: readonly number[];
}

/** A Gatehouse with two replicas of everything, whose replicas are exchanged one by one for those of another version. */
export class Fleet {
  /** Of the balancer in front of the gateways. */
  readonly url: string;
  /** Of an instance of the example API of each version, which verify tokens by `token-client`. */
  readonly verifiers: string[] = [];
  readonly home: string;
  readonly ports: Record<PortName, number>;
  /** Secret of the client `rolling` of the introspection. */
  readonly introspectionSecret: string;
  readonly kills: Kill[] = [];
  /** What ended without having been asked to, or with another code than 0. */
  readonly ended: string[] = [];
  readonly #options: FleetOptions;
  readonly #ground: Ground;
  readonly #names = Object.fromEntries(SERVICES.map((name) => [nameOf(name), [] as string[]]));
  readonly #replicas = new Map<string, Replica>();
  readonly #others: ChildProcess[] = [];
  readonly #expected = new Set<ChildProcess>();
  #hosts = 0;

  constructor(
    options: FleetOptions,
    { ports, introspectionSecret, ...ground }: Ground & Pick<Fleet, "ports" | "introspectionSecret">,
  ) {
    this.url = `http://127.0.0.1:${ports.GATEWAY_PORT}`;
    this.home = ground.home.path;
    this.ports = ports;
    this.introspectionSecret = introspectionSecret;
    this.#options = options;
    this.#ground = ground;
    this.#writeNames();
  }

  /** The old version, with the old schema. */
  async start(): Promise<void> {
    const { old, next } = this.#options;
    const provided = this.#specOf("demo-provider");
    this.#others.push(this.#spawnOf(next, provided, "demo-provider", {}));
    const silence = await untilReady(provided.readyUrl, 120_000);
    if (silence !== undefined) throw new Error(`demo-provider: ${silence}`);
    await this.migrate(old);
    await Promise.all(
      PLACES.flatMap((place) => SERVICES.map((part) => this.#startReplica(part, place, old))),
    );
    await Promise.all(PLACES.map((place) => this.#startReplica("gateway", place, old)));
    const verifiers = [old, next].map((version) => this.#startVerifier(version));
    this.verifiers.push(...(await Promise.all(verifiers)));
  }

  /** Brings the databases to the schema of a version. */
  async migrate(version: Version): Promise<void> {
    await provision(this.#ground.postgres.server, this.#ground.home.secrets, version.root);
  }

  /** Exchanges one replica. Resolves when the next is ready and the former gone. */
  async replace(part: Part, place: number, version: Version, manner: Manner): Promise<void> {
    const former = this.#current(part, place);
    // As a StatefulSet: the next one needs the spool of this one. Deployments have a replica more for a time.
    if (part === "gateway" || manner === "SIGKILL") {
      await this.#end(former, manner);
      await this.#startReplica(part, place, version);
      // Only then may the other one go without a word, too.
      await sleep(KNOWN_MS);
    } else {
      await this.#startReplica(part, place, version);
      await this.#end(former, manner);
    }
  }

  /** Ends all replicas of a service. */
  async take(part: ServiceName): Promise<void> {
    await Promise.all(PLACES.map((place) => this.#end(this.#current(part, place), "SIGTERM")));
  }

  /** Starts them again. */
  async give(part: ServiceName, version: Version): Promise<void> {
    await Promise.all(PLACES.map((place) => this.#startReplica(part, place, version)));
  }

  /** Of all gateways, as text. */
  async metrics(): Promise<string> {
    const texts = PLACES.map(async (place) => {
      const { readyUrl } = this.#current("gateway", place);
      return (await fetch(readyUrl.replace("/readyz", "/metrics"))).text();
    });
    return (await Promise.all(texts)).join("\n");
  }

  async remove(): Promise<void> {
    for (const child of [...[...this.#replicas.values()].map((replica) => replica.child), ...this.#others]) {
      this.#expected.add(child);
      child.kill("SIGKILL");
    }
    this.#ground.balancer.close();
    await this.#ground.postgres.stop();
    await rm(this.home, { recursive: true, force: true });
  }

  #spawnOf(version: Version, spec: ProcessSpec, label: string, more: Record<string, string>) {
    const log = openSync(join(this.#ground.home.logs, `${label}.log`), "a", 0o600);
    const child = spawn(process.execPath, [join(version.root, spec.entry)], {
      cwd: version.root,
      env: {
        ...BARE_ENVIRONMENT,
        ...spec.environment,
        NODE_OPTIONS: `--import ${join(import.meta.dirname, "names.ts")}`,
        NAMES_FILE: namesFile(this.#ground.home),
        ...this.#addresses(spec),
        ...more,
      },
      stdio: ["ignore", log, log, "ipc"],
    });
    closeSync(log);
    child.once("exit", (code, signal) => {
      if (!this.#expected.has(child) || (code !== 0 && signal !== "SIGKILL"))
        this.ended.push(`${label}: ${code ?? signal}`);
    });
    return child;
  }

  #addresses({ environment }: ProcessSpec): Record<string, string> {
    const own = SERVICES.flatMap((name) => {
      const variable = `${name.replace("-", "_").toUpperCase()}_ADDRESS`;
      const port = environment[variable]?.split(":")[1];
      return port === undefined ? [] : [[variable, `${nameOf(name)}:${port}`]];
    });
    const isUser =
      environment.TOKEN_SERVICE_ADDRESS !== undefined || environment.KEY_ENCRYPTION_KEY_FILE !== undefined;
    return {
      ...Object.fromEntries(own),
      ...(this.#options.redisUrl !== undefined && isUser ? { REDIS_URL: this.#options.redisUrl } : {}),
    };
  }

  async #startReplica(part: Part, place: number, version: Version): Promise<Replica> {
    const spec = this.#specOf(part);
    this.#hosts += 1;
    const host = part === "gateway" ? "127.0.0.1" : `127.71.${this.#hosts >> 8}.${this.#hosts & 255}`;
    const portOf = (key: string) => spec.environment[key]?.split(":")[1];
    const own =
      part === "gateway"
        ? {
            LISTEN_ADDRESS: `${host}:${this.#ground.gatewayPorts[place]}`,
            OPERATIONS_ADDRESS: `${host}:${await freePort()}`,
            AUDIT_SPOOL_DIRECTORY: `${this.#ground.home.spool}-${place}`,
            INTROSPECTION_CLIENTS_FILE: introspectionFile(this.#ground.home),
            RATE_LIMITS: `${UNLIMITED},introspection.address=1000000/60`,
            DRAIN_DELAY_MS: String(GATEWAY_DRAIN_MS),
          }
        : {
            LISTEN_ADDRESS: `${host}:${portOf("LISTEN_ADDRESS")}`,
            HEALTH_ADDRESS: `${host}:${portOf("HEALTH_ADDRESS")}`,
            OPERATIONS_ADDRESS: `${host}:${portOf("OPERATIONS_ADDRESS")}`,
            DRAIN_DELAY_MS: String(KNOWN_MS),
            ...UNTHROTTLED,
            ...(part === "identity-service"
              ? { SMTP_URL: `smtp://127.0.0.1:${this.#options.smtpPort}` }
              : {}),
          };
    const label = `${part}-${place}`;
    const child = this.#spawnOf(version, spec, label, own);
    const readyUrl = `http://${own.OPERATIONS_ADDRESS}/readyz`;
    const replica = { part, place, version, host, child, readyUrl };
    const problem = await untilReady(readyUrl, 120_000);
    if (problem !== undefined) throw new Error(`${label} of ${version.name} is not ready: ${problem}`);
    if (part === "gateway") this.#ground.balancer.add(this.#ground.gatewayPorts[place] ?? 0);
    else {
      this.#names[nameOf(part)]?.push(host);
      this.#writeNames();
    }
    this.#replicas.set(label, replica);
    return replica;
  }

  /** No more new calls. */
  #withdraw({ part, place, host }: Replica): void {
    if (part === "gateway") {
      this.#ground.balancer.remove(this.#ground.gatewayPorts[place] ?? 0);
      return;
    }
    this.#names[nameOf(part)] = (this.#names[nameOf(part)] ?? []).filter((other) => other !== host);
    this.#writeNames();
  }

  async #end(replica: Replica, manner: Manner): Promise<void> {
    const gone = once(replica.child, "exit");
    this.#expected.add(replica.child);
    const fromMs = performance.now();
    replica.child.kill(manner);
    if (manner === "SIGKILL") {
      await gone;
      const isOfNext = PLACES.every(
        (place) => this.#current("gateway", place).version === this.#options.next,
      );
      this.kills.push({ part: replica.part, fromMs, toMs: performance.now(), isOfNext });
    }
    await sleep(NOTICE_MS);
    this.#withdraw(replica);
    await gone;
  }

  #current(part: Part, place: number): Replica {
    const replica = this.#replicas.get(`${part}-${place}`);
    if (replica === undefined) throw new Error(`there is no ${part} ${place}`);
    return replica;
  }

  /** @returns its address. */
  async #startVerifier(version: Version): Promise<string> {
    const [own, operations] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    this.#others.push(
      this.#spawnOf(version, this.#specOf("payments-service"), `payments-${version.name}`, {
        LISTEN_ADDRESS: own,
        OPERATIONS_ADDRESS: operations,
        // The issuer's tokens.
        TOKEN_AUDIENCE: "",
      }),
    );
    const problem = await untilReady(`http://${operations}/readyz`, 120_000);
    if (problem !== undefined) throw new Error(`payments-service of ${version.name}: ${problem}`);
    return `http://${own}`;
  }

  #specOf(name: string): ProcessSpec {
    const spec = this.#ground.specs.find((candidate) => candidate.name === name);
    if (spec === undefined) throw new Error(`there is no ${name}`);
    return spec;
  }

  #writeNames(): void {
    const file = namesFile(this.#ground.home);
    writeFileSync(`${file}.new`, JSON.stringify(this.#names));
    renameSync(`${file}.new`, file);
  }
}

/** Starts it with the old version and the old schema. */
export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const ports = await freePorts();
  const home = await openHome(await mkdtemp(join(DATA_ROOT, "gatehouse-rolling-")));
  const settings = readSettings(
    { ...textOf(ports), GATEHOUSE_HOME: home.path, CALL_BUDGET_MS: String(CALL_BUDGET_MS), WEB: "off" },
    ROOT,
  );
  const introspectionSecret = crypto.randomUUID();
  await fillHome(home, options, { issuer: demoIssuer(settings), introspectionSecret });
  const { email, password } = ADMIN;
  const administrator = await firstAdministrator(home, { email, password });
  const specs = processPlan(settings, home, administrator).flat();
  const superuser = await readFile(secretFile(home, "postgres-superuser-password"), "utf8");
  const postgres = await startEmbeddedPostgres({
    dataDirectory: home.postgres,
    port: ports.POSTGRES_PORT,
    password: superuser.trim(),
    logFile: join(home.logs, "postgres.log"),
    durable: true,
  });
  const balancer = await startBalancer(ports.GATEWAY_PORT);
  const gatewayPorts = await Promise.all(PLACES.map(freePort));
  const ground = { home, specs, postgres, balancer, gatewayPorts };
  const fleet = new Fleet(options, { ports, introspectionSecret, ...ground });
  try {
    await fleet.start();
    return fleet;
  } catch (error) {
    const logs = [...SERVICES, "gateway"].map((name) => `${name}:\n${lastLines(home.logs, `${name}-0`)}`);
    await fleet.remove();
    throw new Error(`the fleet does not start\n${logs.join("\n")}`, { cause: error });
  }
}

async function fillHome(
  home: Home,
  { old, upstreamPort }: FleetOptions,
  { issuer, introspectionSecret }: { issuer: string; introspectionSecret: string },
): Promise<void> {
  await ensureSecrets(home);
  await ensureCertificates(home.tls, new Date());
  // An operator's files stay what they were for the old version.
  await copyFile(join(old.root, "packages", "access-file", "access.yaml"), home.accessFile);
  const provider = {
    name: "demo",
    displayName: "Demo",
    issuer,
    clientId: "gatehouse",
    clientSecretFile: secretFile(home, "demo-client-secret"),
  };
  await writeFile(home.providersFile, stringify({ providers: [provider] }));
  await writeFile(home.routesFile, routesTo(upstreamPort));
  const secretSha256 = createHash("sha256").update(introspectionSecret).digest("hex");
  await writeFile(introspectionFile(home), stringify({ clients: [{ id: "rolling", secretSha256 }] }));
}

const introspectionFile = ({ path }: Home) => join(path, "introspection.yaml");

const namesFile = ({ path }: Home) => join(path, "names.json");

const nameOf = (part: ServiceName) => `${part}.rolling.test`;

const textOf = (ports: Record<PortName, number>) =>
  Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, String(port)]));

function lastLines(folder: string, name: string): string {
  try {
    return readFileSync(join(folder, `${name}.log`), "utf8")
      .split("\n")
      .slice(-8)
      .join("\n");
  } catch {
    return "(none)";
  }
}

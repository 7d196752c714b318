import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { stringify } from "yaml";
import { SHIPPED_ACCESS_FILE } from "#access-file/access-file.ts";
import { createCheckpointSigner, parseCheckpointKey } from "#audit-service/log/checkpoint.ts";
import { ensureCertificates, localPerson } from "./certificates.ts";
import type { Home } from "./home.ts";
import { type KeptFile, keepFiles } from "./kept-files.ts";
import { LaunchError } from "./launch-error.ts";
import { complaintsIn, lastLines } from "./log-file.ts";
import {
  type EmbeddedPostgres,
  type PostgresServer,
  startEmbeddedPostgres,
} from "./postgres/embedded-postgres.ts";
import { provision } from "./postgres/ensure-database.ts";
import { adoptServer, externalServer, requireSameServer } from "./postgres/external-postgres.ts";
import { makePrivateDirectory, readIfPresent, writePrivateFile } from "./private-file.ts";
import { demoIssuer, local, needsDatabase, type ProcessSpec, processPlan } from "./processes.ts";
import { untilReady } from "./readiness.ts";
import { prepareRedis } from "./redis.ts";
import { type RunningProcess, runProcess } from "./run-process.ts";
import { ensureSecrets, type FirstAdministrator, firstAdministrator, secretFile } from "./secrets.ts";
import type { Settings } from "./settings.ts";
import type { SummaryRow } from "./summary.ts";

/** Then processes are killed. PostgreSQL needs the rest of the promised 10 s. */
const STOP_TIMEOUT_MS = 6_500;
const PROVIDERS_COMMENT =
  "# Identity providers: docs/providers.md. This one is the demo provider of npm start, on loopback.\n";
const LINES_READ = 100;
/** Other variables are passed only by the process's spec. */
const INHERITED = ["PATH", "HOME", "TMPDIR", "TZ", "LANG"];

export class Launcher {
  readonly rows: SummaryRow[] = [];
  readonly #root: string;
  readonly #settings: Settings;
  readonly #home: Home;
  readonly #failure = Promise.withResolvers<never>();
  readonly #running = new Map<string, RunningProcess>();
  #plan: ProcessSpec[][] = [];
  #postgres: Promise<EmbeddedPostgres> | undefined;
  #isStopping = false;

  constructor(root: string, settings: Settings, home: Home) {
    this.#root = root;
    this.#settings = settings;
    this.#home = home;
    this.failed.catch(() => {}); // It may reject before the first await.
  }

  /** Rejects when a process ends unexpectedly. */
  get failed(): Promise<never> {
    return this.#failure.promise;
  }

  /**
   * Resolves when everything is ready. The gateway waits for `pages`. A program that is not bundled runs from its source.
   * @throws {LaunchError}. `stop` must be called then, too.
   */
  async start(programs: Promise<Record<string, string>>, pages: Promise<void>): Promise<FirstAdministrator> {
    for (const awaited of [programs, pages]) awaited.catch(() => {}); // They are awaited below.
    await ensureSecrets(this.#home);
    const database = this.#startDatabase();
    database.catch(() => {}); // It is awaited below.
    const administrator = await this.#prepareFiles();
    this.#plan = processPlan(this.#settings, this.#home, administrator);
    await this.#writeProcesses();
    await Promise.all(
      this.#plan.flat().map(async (spec) => {
        if (needsDatabase(spec)) await database;
        if (spec.name === "gateway") await pages;
        await this.#start(spec, (await programs)[spec.entry]);
      }),
    );
    await writePrivateFile(this.#home.startedOnceFile, "");
    return administrator;
  }

  /** Of the audit log's verifier key, from the file that audit-service was given: what the console's `fingerprintOf` makes. */
  async readLogKey(): Promise<string> {
    const audit = this.#plan.flat().find(({ name }) => name === "audit-service");
    const { CHECKPOINT_ORIGIN = "", CHECKPOINT_KEY_FILE = "" } = audit?.environment ?? {};
    const key = parseCheckpointKey(await readFile(CHECKPOINT_KEY_FILE, "utf8"));
    if (key === undefined) throw new LaunchError(`${CHECKPOINT_KEY_FILE} has no Ed25519 key.`);
    const { verifierKey } = createCheckpointSigner(CHECKPOINT_ORIGIN, key);
    return hash("sha256", verifierKey, "buffer").toString("base64url", 0, 16);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    const stopped = this.#stopInOrder();
    await Promise.race([stopped, sleep(STOP_TIMEOUT_MS, undefined, { ref: false })]);
    for (const { child } of this.#running.values()) child.kill("SIGKILL");
    await stopped;
    await (await this.#postgres?.catch(() => undefined))?.stop();
  }

  async #stopInOrder(): Promise<void> {
    for (const group of this.#plan) {
      const processes = group.flatMap(({ name }) => this.#running.get(name) ?? []);
      for (const { child } of processes) child.kill("SIGTERM");
      await Promise.all(processes.map(({ ended }) => ended));
    }
  }

  /** Used by `gatehouse doctor`. Secrets are in files, which the variables only name. */
  async #writeProcesses(): Promise<void> {
    const variables = this.#plan.flat().map(({ name, environment }) => [name, environment]);
    await writePrivateFile(
      this.#home.processesFile,
      `${JSON.stringify(Object.fromEntries(variables), undefined, 2)}\n`,
    );
  }

  async #start(spec: ProcessSpec, bundle: string | undefined): Promise<void> {
    const { name, environment, nodeOptions, readyUrl, address } = spec;
    const program = bundle ?? join(this.#root, spec.entry);
    const logFile = join(this.#home.logs, `${name}.log`);
    if (this.#isStopping) throw new LaunchError("Stopped while starting.");
    const running = runProcess({
      name,
      command: process.execPath,
      args: [...nodeOptions, program, this.#home.name],
      cwd: this.#root,
      env: {
        ...Object.fromEntries(INHERITED.map((variable) => [variable, process.env[variable]])),
        // glibc would have one heap for each thread of Node.js: 10 MB more at rest, 40 MB in a gateway after a load.
        MALLOC_ARENA_MAX: "2",
        // Saves 20 MB and time at the next start.
        NODE_COMPILE_CACHE: join(this.#root, "node_modules", ".cache", "gatehouse"),
        ...environment,
      },
      logFile,
      channel: "ipc",
    });
    this.#running.set(name, running);
    this.#watch({ name, address, pid: running.pid }, running.ended);
    const problem = await Promise.race([untilReady(readyUrl), this.failed]);
    if (problem === undefined) return;
    const said = complaintsIn(await lastLines(logFile, LINES_READ));
    throw new LaunchError(
      `${name} is not ready: ${problem}.${said && ` It says: ${said}.`} Its log is ${logFile}.`,
    );
  }

  #watch(row: SummaryRow, ended: Promise<string>): void {
    this.rows.push(row);
    void ended.then((reason) => {
      if (!this.#isStopping) this.#failure.reject(new LaunchError(reason));
    });
  }

  async #startDatabase(): Promise<void> {
    const { secrets, logs, postgres: dataDirectory } = this.#home;
    const external = externalServer(this.#settings);
    await requireSameServer(this.#home, external);
    if (external !== undefined) return this.#useServer(external);
    const password = await readFile(secretFile(this.#home, "postgres-superuser-password"), "utf8");
    const logFile = join(logs, "postgres.log");
    this.#postgres = startEmbeddedPostgres({
      dataDirectory,
      logFile,
      port: this.#settings.POSTGRES_PORT,
      password: password.trim(),
      durable: true,
    });
    const { server, pid, exited } = await this.#postgres;
    this.#watch({ name: "postgres", address: local(server.port), pid }, exited);
    await provision(server, secrets, this.#root);
  }

  async #useServer(server: PostgresServer): Promise<void> {
    const note = await adoptServer(this.#home, server);
    if (note !== undefined) console.log(`Note: ${note}`);
    await provision(server, this.#home.secrets, this.#root, { isOwn: false });
    const address = `${server.host}:${server.port}`;
    this.rows.push({ name: "postgres", address, pid: undefined });
  }

  async #prepareFiles(): Promise<FirstAdministrator> {
    const home = this.#home;
    await makePrivateDirectory(home.mail);
    await prepareRedis(this.#settings, home);
    const verifiers = this.#settings.services["token-service"]?.VERIFIERS?.split(",") ?? [];
    const names = verifiers.map((name) => name.trim());
    const made = await ensureCertificates(home.tls, new Date(), localPerson(), names);
    const again = made.includes("ca") && (await readIfPresent(home.startedOnceFile)) !== undefined;
    if (again) console.log("The certificate authority was invalid and has been replaced.");

    for (const note of await keepFiles(home, await this.#defaults())) console.log(`Note: ${note}`);
    const { GATEHOUSE_ADMIN_EMAIL: email, GATEHOUSE_ADMIN_PASSWORD: password } = this.#settings;
    return firstAdministrator(home, { email, password });
  }
  async #defaults(): Promise<KeptFile[]> {
    const home = this.#home;
    const routes = await readFile(join(this.#root, "deploy", "local", "routes.yaml"), "utf8");
    const payments = local(this.#settings.PAYMENTS_PORT);
    const provider = {
      name: "demo",
      displayName: "Demo",
      issuer: demoIssuer(this.#settings),
      clientId: "gatehouse",
      clientSecretFile: secretFile(home, "demo-client-secret"),
    };
    const providers = `${PROVIDERS_COMMENT}${stringify({ providers: [provider] })}`;
    return [
      {
        path: home.routesFile,
        content: routes.replaceAll("127.0.0.1:8081", payments),
      },
      { path: home.providersFile, content: providers },
      {
        path: home.accessFile,
        content: await readFile(SHIPPED_ACCESS_FILE, "utf8"),
      },
    ];
  }
}

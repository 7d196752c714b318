import { generateKeyPairSync, randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ensureCertificates } from "./certificates.ts";
import { hasPrometheus } from "./find-prometheus.ts";
import { type FirstAdministrator, firstAdministrator } from "./first-administrator.ts";
import type { Home } from "./home.ts";
import { LaunchError } from "./launch-error.ts";
import { forgetProcesses } from "./leftover-processes.ts";
import { rotateLog } from "./log-file.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "./postgres/embedded-postgres.ts";
import { provision } from "./postgres/provision.ts";
import {
  keptSecret,
  makePrivateDirectory,
  randomPassword,
  readIfPresent,
  writePrivateFile,
} from "./private-file.ts";
import {
  checkpointKeyFile,
  demoClientSecretFile,
  demoIssuer,
  deviceKeyFile,
  keyEncryptionKeyFile,
  linkKeyFile,
  mfaEncryptionKeyFile,
  processPlan,
  STOP_GROUPS,
} from "./processes.ts";
import { writeProvidersFile } from "./providers-file.ts";
import { writeRoutesFile } from "./routes-file.ts";
import type { Settings } from "./settings.ts";
import type { SummaryRow } from "./summary.ts";
import { Supervisor } from "./supervisor.ts";

const MAX_CONNECTIONS = 80;
/** After this the processes are ended by force, which leaves PostgreSQL its time within the 10 s promised. */
const STOP_TIMEOUT_MS = 6_500;

/** Starts and stops everything of a local Gatehouse on one home. */
export class Launcher {
  readonly #root: string;
  readonly #settings: Settings;
  readonly #home: Home;
  readonly #supervisor: Supervisor;
  readonly #abort = new AbortController();
  #postgres: Promise<EmbeddedPostgres> | undefined;
  #rows: SummaryRow[] = [];

  constructor(root: string, settings: Settings, home: Home) {
    this.#root = root;
    this.#settings = settings;
    this.#home = home;
    this.#supervisor = new Supervisor({ root, ...home });
  }

  /** Rejects with the reason as soon as one of the processes ends unasked. */
  get failed(): Promise<never> {
    return this.#supervisor.failed;
  }

  /** What runs where. */
  get rows(): readonly SummaryRow[] {
    const running = this.#supervisor.running.map(({ spec, pid, logFile }) => ({ ...spec, pid, logFile }));
    return [...this.#rows, ...running];
  }

  /**
   * Brings everything up; resolves when all of it is ready.
   *
   * @throws {LaunchError} saying what did not start and why. Call `stop` then.
   */
  async start(): Promise<FirstAdministrator> {
    // Before the database exists, so that a database without them means that they were lost.
    const superuserPassword = await this.#essentialSecret(
      join(this.#home.secrets, "postgres-superuser-password"),
      randomPassword,
    );
    await this.#essentialSecret(keyEncryptionKeyFile(this.#home), newEncryptionKey);
    const mfaKey = mfaEncryptionKeyFile(this.#home);
    const ifNeverUsed = `Or, if nobody has set up a second factor yet: openssl rand -base64 32 > ${mfaKey}`;
    await this.#essentialSecret(mfaKey, newEncryptionKey, ifNeverUsed);
    await keptSecret(linkKeyFile(this.#home), newEncryptionKey);
    await keptSecret(deviceKeyFile(this.#home), newEncryptionKey);
    await keptSecret(demoClientSecretFile(this.#home), randomPassword);
    await keptSecret(checkpointKeyFile(this.#home), newSigningKey);
    const database = this.#startDatabase(superuserPassword);
    database.catch(() => {}); // awaited below; until then a failure elsewhere is reported first
    const administrator = await this.#prepareFiles();
    if (this.#settings.WITH_MONITORING && !hasPrometheus(process.env.PATH)) {
      console.log("WITH_MONITORING: prometheus is not installed; going on without it.");
    }
    const { independent, withDatabase } = processPlan(this.#settings, this.#home, administrator);
    const early = independent.map((spec) => this.#supervisor.start(spec));
    await Promise.all([
      ...early,
      database.then(() => Promise.all(withDatabase.map((spec) => this.#supervisor.start(spec)))),
    ]);
    await writePrivateFile(this.#home.startedOnceFile, "");
    return administrator;
  }

  /** Stops everything in order, by force after a few seconds. Nothing is left when it resolves. */
  async stop(): Promise<void> {
    this.#abort.abort();
    const inOrder = await Promise.race([
      this.#supervisor.stop(STOP_GROUPS).then(() => true),
      sleep(STOP_TIMEOUT_MS, false, { ref: false }),
    ]);
    if (!inOrder) await this.#supervisor.kill();
    await (await this.#postgres?.catch(() => undefined))?.stop();
    forgetProcesses(this.#home.processesFile);
  }

  /** Stops everything at once. What was committed stays. */
  async kill(): Promise<void> {
    this.#abort.abort();
    await this.#supervisor.kill();
    const postgres = await this.#postgres?.catch(() => undefined);
    postgres?.kill();
    await postgres?.exited;
    forgetProcesses(this.#home.processesFile);
  }

  async #startDatabase(password: string): Promise<void> {
    const { secrets, logs, postgres: dataDirectory } = this.#home;
    const logFile = join(logs, "postgres.log");
    await rotateLog(logFile);
    this.#postgres = startEmbeddedPostgres({
      dataDirectory,
      logFile,
      port: this.#settings.POSTGRES_PORT,
      password,
      durable: true,
      maxConnections: MAX_CONNECTIONS,
      signal: this.#abort.signal,
    });
    const { server, pid, exited } = await this.#postgres;
    this.#rows = [{ name: "postgres", address: `127.0.0.1:${server.port}`, pid, logFile }];
    void exited.then((reason) => this.#supervisor.fail(new LaunchError(reason)));
    await provision({ server, secrets, root: this.#root });
  }

  /** A secret without which the data that is there cannot be read. Made only where there is no data yet. */
  #essentialSecret(path: string, make: () => string, otherWay = ""): Promise<string> {
    return keptSecret(path, () => {
      if (!existsSync(this.#home.postgres)) return make();
      const ways = `put it back, or start anew with \`npm start -- --fresh\`. ${otherWay}`.trim();
      throw new LaunchError(`${path} is missing: ${ways}`);
    });
  }

  async #prepareFiles(): Promise<FirstAdministrator> {
    const { tls, mail, secrets, routesFile, startedOnceFile } = this.#home;
    await makePrivateDirectory(mail);
    const made = await ensureCertificates(tls, new Date());
    const again = made.includes("ca") && (await readIfPresent(startedOnceFile)) !== undefined;
    if (again) console.log("The certificate authority could not be used and was made anew.");
    const upstreams = { "/payments": `http://127.0.0.1:${this.#settings.PAYMENTS_PORT}` };
    await writeRoutesFile(join(this.#root, "deploy", "local", "routes.yaml"), routesFile, upstreams);
    await writeProvidersFile(this.#home.providersFile, {
      issuer: demoIssuer(this.#settings),
      clientSecretFile: demoClientSecretFile(this.#home),
    });
    const { GATEHOUSE_ADMIN_EMAIL: email, GATEHOUSE_ADMIN_PASSWORD: password } = this.#settings;
    return await firstAdministrator({ secrets, startedOnceFile, email, password });
  }
}

/** 32 random bytes as base64. */
function newEncryptionKey(): string {
  return randomBytes(32).toString("base64");
}

/** An Ed25519 private key as PEM (PKCS#8). */
function newSigningKey(): string {
  const { privateKey } = generateKeyPairSync("ed25519");
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString().trim();
}

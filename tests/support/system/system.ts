import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { DATA_ROOT } from "../database/postgres-test-server.ts";
import { freePort } from "./free-port.ts";

const ROOT = resolve(import.meta.dirname, "..", "..", "..");
const START_TIMEOUT_MS = 120_000;
const STOP_TIMEOUT_MS = 60_000;

export const ADMIN = { email: "admin@gatehouse.test", password: "a long first password" };

const PORTS = [
  "GATEWAY_PORT",
  "GATEWAY_OPERATIONS_PORT",
  "IDENTITY_PORT",
  "IDENTITY_HEALTH_PORT",
  "IDENTITY_OPERATIONS_PORT",
  "TOKEN_PORT",
  "TOKEN_HEALTH_PORT",
  "TOKEN_OPERATIONS_PORT",
  "AUDIT_PORT",
  "AUDIT_HEALTH_PORT",
  "AUDIT_OPERATIONS_PORT",
  "EVENT_PORT",
  "EVENT_HEALTH_PORT",
  "EVENT_OPERATIONS_PORT",
  "PAYMENTS_PORT",
  "PAYMENTS_OPERATIONS_PORT",
  "POSTGRES_PORT",
  "SMTP_PORT",
  "MAILBOX_PORT",
  "DEMO_PROVIDER_PORT",
] as const;

export type PortName = (typeof PORTS)[number];

/** A whole Gatehouse, as `npm start` runs it, on free ports and in a home of its own. */
export interface System {
  url: string;
  home: string;
  ports: Record<PortName, number>;
  /** Its settings besides home, ports and administrator. */
  environment: Record<string, string>;
  /** What the launcher has printed. */
  output(): string;
  launcher: ChildProcess;
  /** Sends SIGTERM. @returns the exit code. */
  stop(): Promise<{ code: number | null }>;
  /** `stop`, and the home is removed. */
  remove(): Promise<void>;
}

export interface SystemOptions {
  /** To start again on the home and ports of an earlier one. */
  again?: Pick<System, "home" | "ports">;
  environment?: Record<string, string>;
  arguments?: string[];
  /** Files of a new home by their paths, as its user would have edited them. */
  files?: (ports: Record<PortName, number>) => Record<string, string>;
}

/** Starts the launcher and waits until it says that everything is ready. @throws with all it printed if it does not. */
export async function startSystem(options: SystemOptions = {}): Promise<System> {
  const home = options.again?.home ?? (await mkdtemp(join(DATA_ROOT, "gatehouse-flow-")));
  const ports = options.again?.ports ?? (await freePorts());
  if (options.files !== undefined) await writeHome(home, options.files(ports));
  const launcher = launch({
    home,
    ports,
    ...(options.environment && { environment: options.environment }),
    arguments: options.arguments ?? [],
  });
  await launcher.ready;
  const stop = async () => ({ code: await launcher.end("SIGTERM") });
  return {
    url: `http://localhost:${ports.GATEWAY_PORT}`,
    home,
    ports,
    environment: options.environment ?? {},
    output: launcher.output,
    launcher: launcher.child,
    stop,
    async remove() {
      await stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}

export interface LaunchOptions {
  home: string;
  ports: Record<PortName, number>;
  environment?: Record<string, string>;
  arguments?: string[];
}

/** Starts the launcher without waiting: for starts that are expected to fail. */
export function launch(options: LaunchOptions) {
  const child = spawn(process.execPath, ["deploy/local/start.ts", ...(options.arguments ?? [])], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...BARE_ENVIRONMENT,
      HOME: process.env.HOME ?? "",
      GATEHOUSE_HOME: options.home,
      GATEHOUSE_ADMIN_EMAIL: ADMIN.email,
      GATEHOUSE_ADMIN_PASSWORD: ADMIN.password,
      // A busy machine is slow, not broken: no test is about the second that calls have by default.
      CALL_BUDGET_MS: "10000",
      ...Object.fromEntries(Object.entries(options.ports).map(([name, port]) => [name, String(port)])),
      ...options.environment,
    },
  });
  let output = "";
  const ended = once(child, "close").then(([code]) => code as number | null);
  const ready = new Promise<void>((resolveReady, reject) => {
    const timer = setTimeout(() => reject(new Error(`not ready in time:\n${output}`)), START_TIMEOUT_MS);
    const read = (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes("Gatehouse ready:") && output.includes("Ctrl-C")) {
        clearTimeout(timer);
        resolveReady();
      }
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    void ended.then((code) => {
      clearTimeout(timer);
      reject(new Error(`the launcher ended with ${code}:\n${output}`));
    });
  });
  ready.catch(() => undefined); // whoever waits for it is notified
  return {
    child,
    ready,
    ended,
    output: () => output,
    async end(signal: NodeJS.Signals): Promise<number | null> {
      child.kill(signal);
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
      const code = await ended;
      clearTimeout(timer);
      return code;
    },
  };
}

export async function freePorts(): Promise<Record<PortName, number>> {
  const entries = await Promise.all(PORTS.map(async (name) => [name, await freePort()] as const));
  return Object.fromEntries(entries) as Record<PortName, number>;
}

/** What a process has logged, a line an event. */
export async function readLog(system: Pick<System, "home">, name: string): Promise<string> {
  return readFile(join(system.home, "logs", `${name}.log`), "utf8");
}

/** What all processes of a system have logged, by file. The launcher prints the first administrator's password by design. */
export async function allLogs(system: Pick<System, "home">): Promise<Record<string, string>> {
  const folder = join(system.home, "logs");
  const names = await readdir(folder);
  const texts = names.map(async (name) => [name, await readFile(join(folder, name), "utf8")] as const);
  return Object.fromEntries(await Promise.all(texts));
}

/** With an empty record of defaults, so that none of the files counts as one. */
async function writeHome(home: string, files: Record<string, string>): Promise<void> {
  const all = { "gatehouse-home": "", "defaults.json": "{}", ...files };
  for (const [name, text] of Object.entries(all)) {
    await mkdir(dirname(join(home, name)), { recursive: true, mode: 0o700 });
    await writeFile(join(home, name), text, { mode: 0o600 });
  }
}

/** For a program that a test starts: nothing of the tests' own environment, and what Node has compiled before. */
export const BARE_ENVIRONMENT = {
  PATH: process.env.PATH ?? "",
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(ROOT, "node_modules", ".cache", "gatehouse"),
};

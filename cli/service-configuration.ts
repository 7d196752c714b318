import { spawn } from "node:child_process";
import { getCompileCacheDir } from "node:module";
import { dirname, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { programFile } from "#deploy/programs/programs.ts";

const ROOT = resolve(import.meta.dirname, "..");
const TIMEOUT_MS = 20_000;

export const CONFIGURED_SERVICES = [
  "gateway",
  "identity-service",
  "token-service",
  "audit-service",
  "event-service",
] as const;
export type ConfiguredService = (typeof CONFIGURED_SERVICES)[number];

export function isConfiguredService(name: string): name is ConfiguredService {
  return (CONFIGURED_SERVICES as readonly string[]).includes(name);
}

/** What a service with a database reads. */
export function migrationsOf(service: ConfiguredService): string {
  return resolve(ROOT, service, "migrations");
}

type Environment = Readonly<Record<string, string | undefined>>;

/** @returns the exit code: 78 if the configuration is refused. */
export async function checkServiceConfiguration(
  service: ConfiguredService,
  environment: Environment,
  timeoutMs = TIMEOUT_MS,
): Promise<{ code: number | null; said: string }> {
  return runOfService([`${service}/main.ts`, "--check-config"], environment, timeoutMs);
}

/** Starts a service's own program, which reads its configuration and ends. */
export async function runOfService(
  [program = "", ...argv]: readonly string[],
  environment: Environment,
  timeoutMs: number,
): Promise<{ code: number | null; printed: string; said: string }> {
  const compileCache = getCompileCacheDir();
  const child = spawn(process.execPath, [programFile(program), ...argv], {
    env: { NODE_COMPILE_CACHE: compileCache && dirname(compileCache), ...environment },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: timeoutMs,
    killSignal: "SIGKILL",
  });
  const ended = new Promise<number | null>((done, fail) => child.once("close", done).once("error", fail));
  const [printed, said, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { code, printed, said };
}

/** A line for each. */
export function configurationProblems(said: string): string[] {
  return said
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => line.trim());
}

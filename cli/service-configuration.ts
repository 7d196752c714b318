import { spawn } from "node:child_process";
import { getCompileCacheDir } from "node:module";
import { dirname, resolve } from "node:path";
import { text } from "node:stream/consumers";

const ROOT = resolve(import.meta.dirname, "..");
const TIMEOUT_MS = 20_000;

export const CONFIGURED_SERVICES = ["gateway", "identity-service", "token-service", "audit-service"] as const;
export type ConfiguredService = (typeof CONFIGURED_SERVICES)[number];

export function isConfiguredService(name: string): name is ConfiguredService {
  return (CONFIGURED_SERVICES as readonly string[]).includes(name);
}

/** What a service with a database reads. */
export function migrationsOf(service: ConfiguredService): string {
  return resolve(ROOT, service, "migrations");
}

/** Starts the service's own program, which reads its configuration and ends. @returns its exit code: 78 if it is refused. */
export async function checkServiceConfiguration(
  service: ConfiguredService,
  environment: Readonly<Record<string, string | undefined>>,
  timeoutMs = TIMEOUT_MS,
): Promise<{ code: number | null; said: string }> {
  const compileCache = getCompileCacheDir();
  const child = spawn(process.execPath, [resolve(ROOT, service, "main.ts"), "--check-config"], {
    env: { NODE_COMPILE_CACHE: compileCache && dirname(compileCache), ...environment },
    stdio: ["ignore", "ignore", "pipe"],
    timeout: timeoutMs,
    killSignal: "SIGKILL",
  });
  const ended = new Promise<number | null>((done, fail) => child.once("close", done).once("error", fail));
  const [said, code] = await Promise.all([text(child.stderr), ended]);
  return { code, said };
}

/** A line for each. */
export function configurationProblems(said: string): string[] {
  return said
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => line.trim());
}

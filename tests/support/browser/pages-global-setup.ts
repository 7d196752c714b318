import { execFileSync } from "node:child_process";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "..", "..", "..");
const BUILD_TIMEOUT_MS = 600_000;

/** Vitest's global setup: the pages that gateways serve. Nothing is built if the sources have not changed. */
export function setup(): void {
  execFileSync(process.execPath, [join(ROOT, "web", "build.ts")], {
    cwd: ROOT,
    stdio: ["ignore", "ignore", "inherit"],
    timeout: BUILD_TIMEOUT_MS,
  });
}

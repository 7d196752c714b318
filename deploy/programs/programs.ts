import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "..", "..");
export const DIST = join(ROOT, "dist");

/** What runs for long, or is waited for. */
export const PROGRAMS = [
  "gateway/main.ts",
  "identity-service/main.ts",
  "token-service/main.ts",
  "audit-service/main.ts",
  "event-service/main.ts",
  "clients/examples/payments-service/main.ts",
  "deploy/local/demo/demo-provider.ts",
  "deploy/local/launch.ts",
];

/** The image's entry and health check, and what its `gatehouse` starts. */
export const IMAGE_PROGRAMS = [
  "deploy/image/run.ts",
  "deploy/image/health.ts",
  "gateway/main.ts",
  "identity-service/main.ts",
  "identity-service/mail/main.ts",
  "token-service/main.ts",
  "audit-service/main.ts",
  "event-service/main.ts",
];

/** Of its bundle: a `main.ts` has the name of its folder. */
export function nameOf(entry: string): string {
  return entry.endsWith("/main.ts") ? basename(dirname(entry)) : basename(entry, ".ts");
}

/** @returns where a program's source is, or in the image, which has no sources, its bundle. */
export function programFile(entry: string): string {
  const source = join(ROOT, entry);
  return existsSync(source) ? source : join(DIST, `${nameOf(entry)}.mjs`);
}

/** `dist/programs.json`, written last. */
export interface Programs {
  /** The bundles have absolute paths. */
  root: string;
  /** The file in `dist/` of each program. */
  entries: Record<string, string>;
  /** In `dist/`. */
  files: string[];
  /** What `stampOf` said of each source. */
  sources: Record<string, string>;
}

export const PROGRAMS_FILE = join(DIST, "programs.json");

/** Changes when a file does. */
export function stampOf(source: string): string {
  const { size, mtimeMs } = statSync(join(ROOT, source));
  return `${size} ${mtimeMs}`;
}

/** Of a file that is not known to be what a build has read, one that no file has. */
export function stampBefore(ms: number, source: string): string {
  return statSync(join(ROOT, source)).mtimeMs < ms ? stampOf(source) : "changed";
}

/** @returns undefined if there is no build. */
export function readPrograms(): Programs | undefined {
  try {
    return JSON.parse(readFileSync(PROGRAMS_FILE, "utf8")) as Programs;
  } catch {
    return undefined;
  }
}

/** @returns the path of each program, or undefined if a source has changed since they were built. */
export function builtPrograms(programs = readPrograms()): Record<string, string> | undefined {
  if (programs?.root !== ROOT) return undefined;
  try {
    if (Object.entries(programs.sources).some(([path, stamp]) => stampOf(path) !== stamp)) return undefined;
    for (const file of programs.files) statSync(join(DIST, file));
  } catch {
    return undefined; // A source, or a file of the build, has gone.
  }
  return Object.fromEntries(
    Object.entries(programs.entries).map(([entry, file]) => [entry, join(DIST, file)]),
  );
}

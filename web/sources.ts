import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";

const ROOT = resolve(import.meta.dirname, "..");
/** What the pages have of the clients. */
const CLIENTS = ["browser", "api"].map((name) => join(ROOT, "clients", name));
/** What the pages and the mails have in common. */
const NAMES = join(ROOT, "packages/service-kit/values/name-device.ts");
/** What a build writes. */
export const DIST = join(import.meta.dirname, "dist");
/** The pages of `web/`, by their folder. */
export const PAGES = [
  { folder: "portal", base: "/account/" },
  { folder: "console", base: "/console/" },
] as const;

/** What the gateway reads: `web/dist/<folder>.json`, written last and at once. */
export interface PagesManifest {
  /** Of the sources. */
  sources: string;
  /** `index.html`. */
  page: string;
  /** Below `web/dist/<folder>/`; each stands beside its `.br` and `.gz`. */
  files: string[];
}

export const manifestFile = (folder: string) => join(DIST, `${folder}.json`);

/** A digest of everything that a build depends on: the same after `git clone` on another machine. */
export function sourcesDigest(): string {
  const sources = [import.meta.dirname, ...CLIENTS]
    .flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !path.startsWith(DIST + sep) && !/\.test\.tsx?$|\.md$/.test(path))
    .sort();
  const digest = createHash("sha256");
  for (const path of [...sources, NAMES, join(ROOT, "package-lock.json")]) {
    const text = readFileSync(path);
    digest.update(`${relative(ROOT, path).split(sep).join("/")}\0${text.length}\0`).update(text);
  }
  return digest.digest("hex");
}

/** Whether every page was built from the present sources. */
export function isBuilt(digest = sourcesDigest()): boolean {
  return PAGES.every(({ folder }) => builtFrom(folder) === digest);
}

function builtFrom(folder: string): string | undefined {
  try {
    return (JSON.parse(readFileSync(manifestFile(folder), "utf8")) as PagesManifest).sources;
  } catch {
    return undefined; // No build, or half of one.
  }
}

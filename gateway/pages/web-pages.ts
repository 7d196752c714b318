import { readFileSync, statSync } from "node:fs";
import { extname, join, resolve } from "node:path";
import { z } from "zod";
import { ConfigError } from "#kit/config/config.ts";
import { cacheable, type Encoded } from "../edge/answers/cacheable.ts";

/** Pages that are one document, whose script chooses by the path. */
export interface WebPages {
  /** `/account`. */
  path: string;
  /** HTML, into which the brand is still to be written. */
  document: string;
  /** Keyed by the whole path: `/account/assets/main-4fj2.js`. A name never has another content. */
  files: ReadonlyMap<string, Encoded>;
}

const DIST = resolve(import.meta.dirname, "..", "..", "web", "dist");
const APPS = [
  { folder: "portal", path: "/account" },
  { folder: "console", path: "/console" },
] as const;
const MAX_FILES = 500;
const MAX_BYTES = 32 * 1024 * 1024;

const Manifest = z.object({
  page: z.string().min(1),
  files: z.array(z.string().regex(/^assets\/[\w.-]+$/)).max(MAX_FILES),
});

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

/** Reads what `web/build.ts` has written. @throws {ConfigError} if it is missing or too large. */
export function loadWebPages(dist = DIST): WebPages[] {
  return APPS.map(({ folder, path }) => {
    try {
      return loadPages(
        join(dist, folder),
        path,
        JSON.parse(readFileSync(join(dist, `${folder}.json`), "utf8")),
      );
    } catch (error) {
      throw new ConfigError(
        `the pages of ${path} are not built (npm run build:web): ${(error as Error).message}`,
      );
    }
  });
}

function loadPages(folder: string, path: string, json: unknown): WebPages {
  const manifest = Manifest.parse(json);
  let bytes = 0;
  const read = (file: string) => {
    bytes += statSync(file).size;
    if (bytes > MAX_BYTES) throw new Error(`more than ${MAX_BYTES} bytes`);
    return readFileSync(file);
  };
  const files = manifest.files.map((name): [string, Encoded] => {
    const mediaType = MEDIA_TYPES[extname(name)];
    if (mediaType === undefined) throw new Error(`${name} has an unknown type`);
    const file = join(folder, name);
    const encoded = {
      identity: cacheable(read(file), mediaType),
      br: cacheable(read(`${file}.br`), mediaType),
      gzip: cacheable(read(`${file}.gz`), mediaType),
    };
    return [`${path}/${name}`, encoded];
  });
  return { path, document: manifest.page, files: new Map(files) };
}

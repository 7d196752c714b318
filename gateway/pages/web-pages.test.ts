import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ConfigError } from "#kit/config/config.ts";
import { loadWebPages } from "./web-pages.ts";

let dist: string;
beforeEach(() => {
  dist = mkdtempSync(join(tmpdir(), "gatehouse web pages "));
  for (const folder of ["portal", "console"]) mkdirSync(join(dist, folder, "assets"), { recursive: true });
  writeManifest("console", []);
});
afterEach(() => rmSync(dist, { recursive: true }));

function put(name: string): void {
  for (const suffix of ["", ".br", ".gz"])
    writeFileSync(join(dist, "portal", name + suffix), `${name}${suffix}`);
}
function writeManifest(folder: string, files: unknown, page: unknown = "<!doctype html>"): void {
  writeFileSync(join(dist, `${folder}.json`), JSON.stringify({ sources: "x", page, files }));
}
const manifest = (files: unknown, page?: unknown) => writeManifest("portal", files, page);
const contentOf = (bytes: Buffer | undefined) => bytes?.toString();

test("what was built is read once, each file with its compressed forms", () => {
  put("assets/main-1.js");
  put("assets/style-2.css");
  manifest(["assets/main-1.js", "assets/style-2.css"]);
  const [portal] = loadWebPages(dist);
  rmSync(join(dist, "portal"), { recursive: true });
  expect(portal?.path).toBe("/account");
  expect(portal?.document).toBe("<!doctype html>");
  expect([...(portal?.files.keys() ?? [])]).toEqual([
    "/account/assets/main-1.js",
    "/account/assets/style-2.css",
  ]);
  const style = portal?.files.get("/account/assets/style-2.css");
  expect(contentOf(style?.br.content)).toBe("assets/style-2.css.br");
  expect(style?.gzip.mediaType).toBe("text/css; charset=utf-8");
});

test.each([
  ["nothing was built", () => undefined, "npm run build:web"],
  ["a file is missing", () => manifest(["assets/main-1.js"]), "ENOENT"],
  ["a name leads elsewhere", () => manifest(["assets/../../package.json"]), "npm run build:web"],
  [
    "a type is unknown",
    () => {
      put("assets/a.exe");
      manifest(["assets/a.exe"]);
    },
    "unknown type",
  ],
  ["there is no page", () => manifest([], ""), "npm run build:web"],
  ["there are too many files", () => manifest(Array(501).fill("assets/a.js")), "npm run build:web"],
  [
    "it would take too much memory",
    () => {
      put("assets/main-1.js");
      truncateSync(join(dist, "portal", "assets", "main-1.js"), 33 * 1024 * 1024);
      manifest(["assets/main-1.js"]);
    },
    "more than",
  ],
])("%s: the gateway does not start, and says why", (_what, prepare, said) => {
  prepare();
  expect(() => loadWebPages(dist)).toThrow(ConfigError);
  expect(() => loadWebPages(dist)).toThrow(said);
});

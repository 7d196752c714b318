import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { build, type Rolldown } from "vite";

/** `npm run build:client`: the library as one file, with its types, in `clients/dist/browser/`. */

const MAX_GZIPPED_BYTES = 6 * 1024;
const ROOT = resolve(import.meta.dirname, "..", "..");
const OUT = join(ROOT, "clients", "dist", "browser");

const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
  version: string;
};
const PACKAGE = {
  name: "@gatehouse-auth/browser",
  version,
  description: "The session of a browser at Gatehouse: log in, call APIs, log out, in all tabs at once",
  license: "Apache-2.0",
  type: "module",
  exports: { ".": { types: "./create-client.d.ts", default: "./gatehouse-browser.js" } },
};
const PAPERS = {
  "README.md": "clients/browser/README.md",
  LICENSE: "LICENSE",
  // The library that is bundled.
  "LICENSE-simplewebauthn": "node_modules/@simplewebauthn/browser/LICENSE.md",
};

/** Writes nothing. @throws above 6 kB. */
export async function buildClient(): Promise<{ code: string; gzippedBytes: number }> {
  const [built] = (await build({
    root: import.meta.dirname,
    configFile: false,
    envDir: false,
    publicDir: false,
    logLevel: "warn",
    build: {
      write: false,
      target: "es2022",
      minify: true,
      reportCompressedSize: false,
      lib: { entry: "create-client.ts", formats: ["es"], fileName: "gatehouse-browser" },
      rolldownOptions: { output: { minify: true } },
    },
  })) as Rolldown.RolldownOutput[];
  const file = built?.output[0];
  if (file === undefined || built?.output.length !== 1) throw new Error("the library is not one file");
  const { code } = file;
  const gzippedBytes = gzipSync(code, { level: 9 }).length;
  if (gzippedBytes > MAX_GZIPPED_BYTES)
    throw new Error(`${gzippedBytes} bytes are more than ${MAX_GZIPPED_BYTES}`);
  return { code, gzippedBytes };
}

/** The package in a folder of its own, which is replaced. @returns its size. */
export async function writeClient(folder: string): Promise<number> {
  const { code, gzippedBytes } = await buildClient();
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "gatehouse-browser.js"), code);
  const tsc = join(ROOT, "node_modules", ".bin", "tsc");
  const types = ["-p", join(import.meta.dirname, "tsconfig.json"), "--outDir", folder];
  await promisify(execFile)(process.execPath, [tsc, ...types]);
  await writeFile(join(folder, "package.json"), JSON.stringify(PACKAGE, null, 2));
  for (const [name, source] of Object.entries(PAPERS)) await copyFile(join(ROOT, source), join(folder, name));
  return gzippedBytes;
}

if (import.meta.main) {
  const gzippedBytes = await writeClient(OUT);
  console.log(`@gatehouse-auth/browser: ${gzippedBytes} bytes, compressed`);
}

import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { build, type Rolldown } from "vite";

/** `npm run build:client`: the library as one file, with its types, in `web/dist/client/`. */

const MAX_GZIPPED_BYTES = 6 * 1024;
const OUT = resolve(import.meta.dirname, "..", "dist", "client");

const PACKAGE = {
  name: "@gatehouse/browser",
  version: "0.1.0",
  license: "Apache-2.0",
  type: "module",
  exports: { ".": { types: "./create-client.d.ts", default: "./gatehouse-browser.js" } },
  // Part of the file; for its types.
  dependencies: { "@simplewebauthn/browser": "14.0.0" },
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

if (import.meta.main) {
  const { code, gzippedBytes } = await buildClient();
  await rm(OUT, { recursive: true, force: true });
  await mkdir(OUT, { recursive: true });
  await writeFile(join(OUT, "gatehouse-browser.js"), code);
  const tsc = join(import.meta.dirname, "..", "..", "node_modules", ".bin", "tsc");
  await promisify(execFile)(tsc, ["-p", join(import.meta.dirname, "tsconfig.json")]);
  await writeFile(join(OUT, "package.json"), JSON.stringify(PACKAGE, null, 2));
  console.log(`@gatehouse/browser: ${gzippedBytes} bytes, compressed`);
}

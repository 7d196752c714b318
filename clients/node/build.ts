import { execFile } from "node:child_process";
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

/** `npm run build:token-client`: the package in `clients/dist/node/`, and its tarball beside it. */

const ROOT = resolve(import.meta.dirname, "..", "..");
const DIST = join(ROOT, "clients", "dist");
const NAME = "@gatehouse-auth/token-client";
const run = promisify(execFile);

const entry = (name: string) => ({
  types: `./lib/clients/node/${name}.d.ts`,
  default: `./lib/clients/node/${name}.js`,
});
/** In the versions with which the tests of the repository run, or newer ones. */
const DEPENDENCIES = [
  "@bufbuild/protobuf",
  "@opentelemetry/api",
  "fastify-plugin",
  "lru-cache",
  "uuid",
  "zod",
];
const PEERS = {
  // Its connector and its experimental parts are used, which a minor version may change.
  "@grpc/grpc-js": "~1.14.4",
  "@nestjs/common": ">=11 <13",
  express: ">=4.18 <6",
  fastify: ">=5.12.2 <6",
};

const FRAMEWORKS = ["@nestjs/common", "express", "fastify"];

/** @returns the path of the tarball. */
export async function buildPackage(directory: string = DIST): Promise<string> {
  const out = join(directory, "node");
  await rm(out, { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  const tsc = join(ROOT, "node_modules", ".bin", "tsc");
  await run(tsc, ["-p", join(import.meta.dirname, "tsconfig.json"), "--outDir", join(out, "lib")]);
  await writeFile(join(out, "package.json"), JSON.stringify(await manifest(out), null, 2));
  await copyFile(join(ROOT, "LICENSE"), join(out, "LICENSE"));
  await copyFile(join(import.meta.dirname, "README.md"), join(out, "README.md"));
  const { stdout } = await run("npm", ["pack", out, "--pack-destination", directory, "--silent"]);
  return join(directory, stdout.trim());
}

async function manifest(out: string) {
  const own = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  return {
    name: NAME,
    version: own.version,
    description: "Verifies Gatehouse's access tokens in a service",
    license: own.license,
    type: "module",
    engines: { node: ">=20.9" },
    imports: await importsIn(join(out, "lib"), own.imports),
    exports: {
      ".": entry("index"),
      "./fastify": entry("fastify"),
      "./express": entry("express"),
      "./grpc": entry("grpc"),
      "./nestjs": entry("nestjs"),
      "./testing": entry("testing"),
    },
    files: ["lib", "!lib/clients/node/conformance-driver.*"],
    dependencies: Object.fromEntries(DEPENDENCIES.map((name) => [name, `^${own.dependencies[name]}`])),
    peerDependencies: PEERS,
    peerDependenciesMeta: Object.fromEntries(FRAMEWORKS.map((name) => [name, { optional: true }])),
  };
}

/** What of the repository's import map is in the package, as JavaScript. */
async function importsIn(lib: string, imports: Record<string, string>): Promise<Record<string, string>> {
  const folders = await readdir(lib);
  const own = Object.entries(imports).filter(([, path]) => folders.includes(path.split("/")[1] ?? ""));
  return Object.fromEntries(
    own.map(([name, path]) => [name, path.replace(/^\.\//, "./lib/").replace(/\.ts$/, ".js")]),
  );
}

if (import.meta.main) console.log(await buildPackage());

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { isBuiltin } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { IMAGE_PROGRAMS, nameOf } from "#deploy/programs/programs.ts";
import { startOperationsServer } from "#kit/process/operations-server.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const text = (path: string) => readFileSync(join(ROOT, path), "utf8");
const dockerfile = text("deploy/image/Dockerfile");
const ignore = text(".dockerignore")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"));
const named = ignore.filter((line) => line.startsWith("!")).map((line) => line.slice(1));

/** Whether a path is in the build's context: named, or below a folder that is named, and not left out after that. */
function isInContext(path: string): boolean {
  const isNamed = named.some((line) => {
    if (line.includes("*"))
      return dirname(line) === dirname(path) && path.endsWith(line.slice(line.lastIndexOf("*") + 1));
    return path === line || path.startsWith(`${line}/`);
  });
  const leftOut = ignore.filter((line) => !line.startsWith("!") && line !== "*");
  return (
    isNamed &&
    !leftOut.some((line) => {
      const pattern = line.replace("**/", "").replaceAll(".", "\\.").replaceAll("*", "[^/]*");
      return new RegExp(`(^|/)${pattern}(/|$)`).test(path);
    })
  );
}

test("what the build of the pages reads is in the build's context", () => {
  const extended = JSON.parse(text("web/tsconfig.json")).extends as string;
  const base = relative(ROOT, resolve(ROOT, "web", extended));
  const device = "packages/service-kit/values/name-device.ts";
  expect(["web/build.ts", "web/tsconfig.json", base, device].filter((path) => !isInContext(path))).toEqual(
    [],
  );
  expect(dockerfile).toContain(
    `COPY ${base} ./\nCOPY web web\nCOPY clients/browser clients/browser\nCOPY clients/api clients/api\nCOPY ${device} ${device}\n`,
  );
});

/**
 * The image's `/app`, made of the build's context alone and by the Dockerfile's own commands, at the path at which it was
 * bundled. What it was made of stands beside it.
 */
const folder = realpathSync(mkdtempSync(join(tmpdir(), "gatehouse-image-")));
const [app, image, context] = ["app", "image", "context"].map((name) => join(folder, name)) as [
  string,
  string,
  string,
];
afterAll(() => rmSync(folder, { recursive: true }));
beforeAll(() => {
  const filter = (path: string) => isInContext(relative(ROOT, path));
  for (const path of globSync(named, { cwd: ROOT }))
    cpSync(join(ROOT, path), join(app, path), { recursive: true, filter });
  symlinkSync(join(ROOT, "node_modules"), join(app, "node_modules"));
  cpSync(join(ROOT, "web", "dist"), join(app, "web", "dist"), { recursive: true });
  const [stage = ""] = dockerfile.split("\nCOPY . .\n")[1]?.split("\n\nFROM") ?? [];
  const commands = [...stage.matchAll(/^RUN ((?:.*\\\n)*.*)$/gm)];
  expect(commands.length).toBe(3);
  const env = { PATH: `${dirname(process.execPath)}:${process.env.PATH}`, REVISION: "a revision" };
  for (const [, command = ""] of commands)
    execFileSync("sh", ["-c", command.replaceAll(" /image", ` "${image}"`)], { cwd: app, env });
  unlinkSync(join(app, "node_modules"));
  renameSync(app, context);
  renameSync(image, app);
});

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
}

test("the image has every file that is no source, and no source, and of libraries only what cannot be in a bundle", () => {
  const files = filesIn(app);
  const forBuild = /\.tsx?$|^(web|clients|dist)\/|^(package-lock\.json|tsconfig\.json|\.npmrc)$/;
  const needed = filesIn(context).filter((path) => !forBuild.test(path));
  expect(needed).toEqual(
    expect.arrayContaining(["package.json", "identity-service/migrations/0001_tables.sql", "REVISION"]),
  );
  expect(needed.filter((path) => !files.includes(path))).toEqual([]);
  expect(files).toContain("web/dist/languages.json");
  const libraries = new Set(files.flatMap((path) => /^node_modules\/([^/]+\/[^/]+)/.exec(path)?.[1] ?? []));
  expect([...libraries].filter((name) => !name.startsWith("@node-rs/")).sort()).toEqual([
    "@grpc/reflection",
    "grpc-health-check/proto",
  ]);
  expect(files.filter((path) => /\.tsx?$/.test(path) && !path.endsWith(".d.ts"))).toEqual([]);
});

/** Of each in the bundles' code, the first group, once. */
function inBundles(pattern: RegExp): string[] {
  const bundles = filesIn(join(app, "dist")).filter((name) => name.endsWith(".mjs"));
  const found = bundles.flatMap((name) => [
    ...readFileSync(join(app, "dist", name), "utf8").matchAll(pattern),
  ]);
  return [...new Set(found.map(([, part = ""]) => part))].sort();
}

test("the bundles import nothing else, and libraries in them that look for files find them, or do not need them", () => {
  const imported = inBundles(/(?:^import |^(?:import|export) .* from |(?:import|require)\()"([^".][^"]*)"/gm);
  expect(imported.filter((name) => !isBuiltin(name))).toEqual([
    ...["certificates", "home", "test-token-service/test-token-rpc"].map(
      (name) => `#deploy/local/${name}.ts`,
    ),
    ...["argon2", "bcrypt", "crc32"].map((name) => `@node-rs/${name}`),
    "ajv-formats/dist/formats", // In code that ajv would write to a file.
    "ajv/dist/runtime/validation_error",
    "supports-color", // For colours, which a library has where it is installed.
  ]);
  expect(inBundles(new RegExp(`${app}/node_modules/((?:@[^/"]+/)?[^/"]+)`, "g"))).toEqual([
    "@grpc/grpc-js", // For channelz and load reports, which nothing here serves.
    "@grpc/reflection",
    "grpc-health-check",
    "ioredis", // To shorten stacks.
    "pino", // Threads that write logs, which nothing here has.
    "thread-stream",
  ]);
  for (const version of ["v1", "v1alpha"]) {
    const messages = `node_modules/@grpc/reflection/build/proto/grpc/reflection/${version}/reflection.proto`;
    expect(existsSync(join(app, messages)), messages).toBe(true);
  }
});

test("what programs load when it is needed loads from the image's files alone", async () => {
  const programs = IMAGE_PROGRAMS.map((entry) => `${nameOf(entry)}.mjs`);
  for (const [, name = ""] of readFileSync(join(app, "dist", "run.mjs"), "utf8").matchAll(
    /import\("\.\/([^"]+)"\)/g,
  ))
    programs.push(name);
  const parts = filesIn(join(app, "dist")).filter(
    (name) => name.endsWith(".mjs") && !programs.includes(name),
  );
  expect(parts).toEqual(expect.arrayContaining([expect.stringMatching(/^health-server-/)]));
  const code = "for (const name of process.argv.slice(1)) await import('./dist/' + name)";
  expect(await start(["--input-type=module", "--eval", code, ...parts], {}, app).ended).toEqual({
    code: 0,
    output: "",
  });
});

/** Their archives have no licence, only its name. */
const WITHOUT_TEXT = [
  "@bufbuild/protobuf (Apache-2.0 AND BSD-3-Clause)",
  "abstract-logging MIT",
  "postgres Unlicense",
  "saxes ISC",
  "standardwebhooks MIT",
];

test("bundled libraries are those that the package depends on, and their licences are in the image", () => {
  const { packages } = JSON.parse(text("package-lock.json")) as {
    packages: Record<string, { dev?: boolean; version: string }>;
  };
  const known = Object.entries(packages).flatMap(([path, { dev, version }]) =>
    dev === true ? [] : [`${path.slice(path.lastIndexOf("node_modules/") + 13)} ${version}`],
  );
  const sections = readFileSync(join(app, "dist", "THIRD-PARTY-LICENSES.txt"), "utf8").split(
    `${"-".repeat(80)}\n`,
  );
  const libraries = sections.map((section) => /^(\S+ \S+): /.exec(section.trim())?.[1] ?? section);
  expect(libraries).toEqual(expect.arrayContaining([expect.stringMatching(/^fastify /)]));
  expect(libraries.filter((library) => !known.includes(library))).toEqual([]);
  const named = sections
    .filter((section) => section.trim().split("\n").length === 1)
    .map((section) => section.trim());
  expect(named.map((line) => line.replace(/ \S+:/, ""))).toEqual(WITHOUT_TEXT);
});

test.each(["portal", "console"])(
  "the licences of the libraries in the pages of the %s are in the image",
  (folder) => {
    const licenses = readFileSync(join(app, "web", "dist", folder, "THIRD-PARTY-LICENSES.txt"), "utf8");
    expect(licenses).toMatch(/^## react-dom - [\d.]+ \(MIT\)$/m);
    expect(licenses.match(/^## /gm)?.length).toBeGreaterThan(10);
    expect(licenses).toContain("Permission is hereby granted");
  },
);

const PROGRAMS = [...text("deploy/image/run.ts").matchAll(/^ {2}"?([\w-]+)"?: \(\) => import/gm)].map(
  ([, name = ""]) => name,
);

test.concurrent.each(PROGRAMS)(
  "%s runs from the image's files alone, and says what it lacks",
  async (name) => {
    const { code, output } = await startInImage([name]).ended;
    const usage = { code: 64, output: expect.stringMatching(/^Usage: |A command is missing/) };
    const configuration = { code: 78, output: expect.stringContaining("_FILE: is required") };
    expect({ code, output }).toEqual(/^(migrate|await-schema|gatehouse)$/.test(name) ? usage : configuration);
  },
);

test.concurrent.each([
  ["config check gateway", 78, "LISTEN_ADDRESS: is required"],
  ["mail check", 0, "de: complete"],
  ["certificates issue my-shop", 78, "This command needs the repository"],
])(
  "the image's command line starts services' programs, and lacks what is for development: %s",
  async (line, code, said) => {
    const ended = await startInImage(["gatehouse", ...line.split(" ")]).ended;
    expect(ended).toEqual({ code, output: expect.stringContaining(said) });
  },
);

test("tests, secrets and what belongs to a machine are not", () => {
  expect(ignore[0]).toBe("*");
  const stay = [
    "gateway/app.test.ts",
    "gateway/testing/test-gateway.ts",
    ".git/config",
    ".gatehouse/secrets/x",
    "node_modules/x/y.js",
    "deploy/image/trial.ts",
  ];
  expect(stay.filter(isInContext)).toEqual([]);
});

test("the base is pinned by digest, the user is a number and not root, PID 1 is node itself", () => {
  expect(dockerfile).toMatch(/^ARG BASE=node:26[\w.-]*@sha256:[0-9a-f]{64}$/m);
  const last = dockerfile.slice(dockerfile.lastIndexOf("\nFROM "));
  expect(/^USER (.*)$/m.exec(last)?.[1]).toMatch(/^[1-9]\d+:[1-9]\d+$/);
  expect(last).toContain('ENTRYPOINT ["node", "dist/run.mjs"]');
});

const startInImage = (args: string[]) => start(["dist/run.mjs", ...args], {}, app);

function start(args: string[], env: Record<string, string> = {}, cwd = ROOT) {
  const child = spawn(process.execPath, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk) => {
      output += chunk;
    });
  const ended = once(child, "close").then(([code]) => ({ code, output }));
  return { child, ended, output: () => output };
}

test.each([[[]], [["toString"]], [["migrate"]], [["migrate", "payments"]], [["await-schema", "token", "x"]]])(
  "a command line that is wrong gets the usage and 64: %j",
  async (args) => {
    const { code, output } = await start(["deploy/image/run.ts", ...args]).ended;
    expect({ code, output }).toEqual({ code: 64, output: expect.stringContaining("Usage: <image> PROGRAM") });
  },
);

test("a program without its configuration names what is missing and ends with 78", async () => {
  const { code, output } = await start(["deploy/image/run.ts", "audit-service"]).ended;
  expect(code).toBe(78);
  expect(output).toContain("DATABASE_PASSWORD_FILE: is required");
});

test("a program that waits for its schema says what for, and SIGTERM ends it at once", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-image-"));
  const environment = {
    DATABASE_URL: "postgres://nobody@127.0.0.1:1/token",
    DATABASE_PASSWORD_FILE: join(folder, "password"),
  };
  writeFileSync(environment.DATABASE_PASSWORD_FILE, "nobody's password", { mode: 0o600 });
  const { child, ended, output } = start(["deploy/image/run.ts", "await-schema", "token"], environment);
  while (!output().includes("waiting") && child.exitCode === null) await sleep(20);
  child.kill("SIGTERM");
  expect(await ended).toEqual({ code: 143, output: expect.stringContaining("ECONNREFUSED") });
  rmSync(folder, { recursive: true });
});

test("the health check follows the operations port", async () => {
  const server = await startOperationsServer("127.0.0.1:0", {
    lifecycle: { unreadyReasons: async () => [] },
    metrics: createMetrics("test"),
    logger: createLogger("test", "info", { write: () => undefined }),
  });
  const address = server.address();
  const own = typeof address === "object" ? address?.port : undefined;
  const check = () => start(["deploy/image/health.ts"], { OPERATIONS_ADDRESS: `0.0.0.0:${own}` }).ended;
  expect((await check()).code).toBe(0);
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
  expect((await check()).code).toBe(1);
});

/** Those that ask for a notice at most. */
const NOTICE = [
  "MIT",
  "MIT-0",
  "Apache-2.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "ISC",
  "0BSD",
  "BlueOak-1.0.0",
  "Unlicense",
];
/** Of what is run here and given to nobody. */
const DEVELOPMENT = [...NOTICE, "MPL-2.0", "Python-2.0", "PSF-2.0", "CC-BY-4.0", "CC0-1.0"];
/** Their archives have the text of the MIT licence, and no name of it. */
const UNNAMED = ["node_modules/buildcheck", "node_modules/cpu-features", "node_modules/ssh2"];

test.each([
  ["package-lock.json", NOTICE, "the image installs", "a notice at most"],
  ["package-lock.json", DEVELOPMENT, "is installed for development", "nothing of what is ours"],
  ["tools/package-lock.json", DEVELOPMENT, "is installed for tools", "nothing of what is ours"],
])("of %s, licences %j: what %s asks for %s", (lock, licences) => {
  const { packages } = JSON.parse(text(lock)) as {
    packages: Record<string, { dev?: boolean; license?: string }>;
  };
  const looked = Object.entries(packages).filter(
    ([path, { dev }]) => path !== "" && !UNNAMED.includes(path) && (licences !== NOTICE || dev !== true),
  );
  expect(looked.length).toBeGreaterThan(100);
  const others = looked.filter(
    ([, { license = "none" }]) =>
      !license.split(/[()]| AND | OR /).every((name) => name === "" || licences.includes(name)),
  );
  expect(others.map(([path, { license }]) => `${path}: ${license}`)).toEqual([]);
});

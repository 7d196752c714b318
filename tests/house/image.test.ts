import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startOperationsServer } from "#kit/process/operations-server.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { importedFrom } from "../support/house/imported-from.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const text = (path: string) => readFileSync(join(ROOT, path), "utf8");
const dockerfile = text("deploy/image/Dockerfile");
const ignore = text(".dockerignore")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"));

const NEED_REPOSITORY = ["certificates-issue", "test-token-service"].map(
  (name) => `cli/commands/files/${name}.ts`,
);

/** Every source that the image's programs load, from the root, and every package. */
function loaded(): { files: string[]; packages: string[] } {
  const files = new Set<string>();
  const packages = new Set<string>();
  const queue = ["deploy/image/run.ts", "deploy/image/health.ts"];
  for (const path of queue) {
    if (files.has(path)) continue;
    files.add(path);
    for (const [, typeOnly, specifier = ""] of text(path).matchAll(
      /(import type )?(?:[^"\n]*from |\bimport\(|^import )"([^"]+)"/gm,
    )) {
      const target = importedFrom(path, specifier);
      // They say so themselves where there is no local Gatehouse.
      if (NEED_REPOSITORY.includes(path) && target.startsWith("deploy/local/")) continue;
      if (/^[.#]/.test(specifier)) queue.push(target);
      else if (!specifier.startsWith("node:") && typeOnly === undefined) {
        packages.add(
          specifier
            .split("/")
            .slice(0, specifier.startsWith("@") ? 2 : 1)
            .join("/"),
        );
      }
    }
  }
  return { files: [...files], packages: [...packages] };
}

/** Whether a path is in the build's context: named, or below a folder that is named, and not left out after that. */
function isInContext(path: string): boolean {
  const named = ignore.filter((line) => line.startsWith("!")).map((line) => line.slice(1));
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

test("everything that the image's programs load is in the image", () => {
  const { files, packages } = loaded();
  expect(files.length).toBeGreaterThan(200);
  expect(files.filter((path) => !isInContext(path))).toEqual([]);
  const { dependencies } = JSON.parse(text("package.json")) as { dependencies: object };
  expect(packages.filter((name) => !(name in dependencies))).toEqual([]);
  for (const folder of [
    "identity-service/mail/mail-templates/",
    "identity-service/migrations/",
    "token-service/migrations/",
  ]) {
    expect(existsSync(join(ROOT, folder)) && isInContext(`${folder}any`), folder).toBe(true);
  }
});

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
  expect(last).toContain('ENTRYPOINT ["node", "deploy/image/run.ts"]');
});

function start(args: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ["ignore", "pipe", "pipe"] });
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

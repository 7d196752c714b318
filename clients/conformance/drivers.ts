import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { delimiter, join, resolve } from "node:path";
import { buildPackage } from "../node/build.ts";
import type { DoorName } from "./driver-process.ts";
import { MissingToolError, runTool } from "./tools.ts";

const CLIENTS = resolve(import.meta.dirname, "..");
const JAVA_FOLDER = join(CLIENTS, "java");
const PYTHON_FOLDER = join(CLIENTS, "python");

/** One way into a service that uses a package. */
export interface DriverCase {
  name: string;
  door: DoorName;
  command: readonly string[];
}

interface Driver {
  doors: readonly DoorName[];
  /** @returns its command. @throws {MissingToolError} if this machine cannot build it. */
  build(): Promise<readonly string[]>;
}

declare module "vitest" {
  interface ProvidedContext {
    driverCase: DriverCase;
  }
}

/** The Node.js of the machine, which may be older than that of the repository, if the package runs on it; otherwise the latter. */
export function ownNode(): string {
  const folders = (process.env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => !folder.includes("node_modules"));
  const found = folders.map((folder) => join(folder, "node")).find((path) => existsSync(path));
  const isNewEnough = (node: string) => {
    const { stdout } = spawnSync(node, ["--version"], { encoding: "utf8" });
    return Number(/^v(\d+)/.exec(stdout)?.[1]) >= 20;
  };
  return found !== undefined && isNewEnough(found) ? found : process.execPath;
}

/** Of each framework in a folder of its own: they are built at once. */
async function buildNodeDriver(framework: string): Promise<readonly string[]> {
  const folder = join(CLIENTS, "dist", `conformance-${framework}`);
  await buildPackage(folder);
  const driver = join(folder, "node", "lib", "clients", "node", "conformance-driver.js");
  return [ownNode(), driver, framework];
}

const NEST = ["@nestjs/common", "@nestjs/core", "@nestjs/platform-express", "@nestjs/platform-fastify"];

/** Installs NestJS beside the package, in a folder that later runs use again. */
async function buildNestDriver(platform: string): Promise<readonly string[]> {
  const command = await buildNodeDriver(`nestjs-${platform}`);
  const folder = join(CLIENTS, "dist", `conformance-nestjs-${platform}`);
  await writeFile(join(folder, "package.json"), JSON.stringify({ private: true }));
  const packages = [...NEST.map((name) => `${name}@12`), "reflect-metadata@0.2", "rxjs@7"];
  await runTool("npm", ["install", "--no-fund", "--no-audit", ...packages], { cwd: folder });
  return command;
}

/** In an environment with the libraries of the package, which is kept for the next time. One for each: they are built at once. */
async function buildPythonDriver(kind: "asgi" | "wsgi"): Promise<readonly string[]> {
  const environment = join(CLIENTS, "dist", `conformance-${kind}`);
  await createPythonEnvironment(environment);
  await runTool(join(environment, "bin", "pip"), ["install", "-q", PYTHON_FOLDER, "uvicorn"]);
  return [join(environment, "bin", "python"), join(PYTHON_FOLDER, "conformance_driver.py"), kind];
}

/** Chosen by `TEST_PYTHON`, or `python3`. @throws {MissingToolError} if it is too old, or has no venv. */
export async function createPythonEnvironment(folder: string): Promise<void> {
  const python = process.env.TEST_PYTHON ?? "python3";
  const isNewEnough = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
  await runTool(python, ["-c", isNewEnough]).catch(() => {
    throw new MissingToolError("no Python 3.11 with venv (TEST_PYTHON names one)");
  });
  await runTool(python, ["-m", "venv", folder]);
}

const READING = "sec, nsec, mono := runtimeNow()";
const JUMP = `package time

import "sync/atomic"

var wallJumpS atomic.Int64

// JumpWallClock moves what Now returns, and leaves its monotonic reading alone.
func JumpWallClock(by Duration) { wallJumpS.Add(int64(by / Second)) }
`;

/** Go reads its clock without the C library, so its `time.Now` is replaced at the build. @returns the driver's command. */
async function buildGoDriver(): Promise<readonly string[]> {
  const folder = join(CLIENTS, "dist", "conformance-go");
  await mkdir(folder, { recursive: true });
  const module = join(CLIENTS, "go");
  await runTool("go", ["vet", "./..."], { cwd: module }); // Its own tests compile, too.
  const goroot = await runTool("go", ["env", "GOROOT"]);
  const time = join(goroot.trim(), "src", "time");
  const source = await readFile(join(time, "time.go"), "utf8");
  if (source.split(READING).length !== 2)
    throw new Error("this version of Go reads its clock in another way");
  const files = {
    [join(time, "time.go")]: source.replace(READING, `${READING}\n\tsec += wallJumpS.Load()`),
    [join(time, "wall_jump.go")]: JUMP,
  };
  const overlay: Record<string, string> = {};
  for (const [index, [path, text]] of Object.entries(files).entries()) {
    const changed = join(folder, `${index}.go`);
    await writeFile(changed, text);
    overlay[path] = changed;
  }
  const overlayFile = join(folder, "overlay.json");
  await writeFile(overlayFile, JSON.stringify({ Replace: overlay }));
  const program = join(folder, "driver");
  const options = ["-overlay", overlayFile, "-tags", "jump", "-o", program];
  await runTool("go", ["build", ...options, "./internal/conformance"], { cwd: module });
  return [program];
}

async function buildJavaDriver(): Promise<readonly string[]> {
  await runTool("java", ["-version"]);
  const goals = ["test-compile", "dependency:build-classpath", "-Dmdep.outputFile=target/test-classpath"];
  await runTool("mvn", ["-q", "-B", ...goals], { cwd: JAVA_FOLDER });
  const target = join(JAVA_FOLDER, "target");
  const libraries = await readFile(join(target, "test-classpath"), "utf8");
  const path = [join(target, "classes"), join(target, "test-classes"), libraries.trim()].join(delimiter);
  return ["java", "-cp", path, "example.gatehouse.tokenclient.ConformanceDriver"];
}

/** `npm run conformance` runs all of them that this machine has the tools for. */
export const DRIVERS: Readonly<Record<string, Driver>> = {
  node: { doors: ["http", "grpc"], build: () => buildNodeDriver("fastify") },
  express: { doors: ["http"], build: () => buildNodeDriver("express") },
  "nestjs-express": { doors: ["http"], build: () => buildNestDriver("express") },
  "nestjs-fastify": { doors: ["http"], build: () => buildNestDriver("fastify") },
  go: { doors: ["http", "grpc"], build: buildGoDriver },
  python: { doors: ["http", "grpc"], build: () => buildPythonDriver("asgi") },
  wsgi: { doors: ["http"], build: () => buildPythonDriver("wsgi") },
  java: { doors: ["http", "grpc"], build: buildJavaDriver },
};

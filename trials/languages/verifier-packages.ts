import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { Client, credentials, Metadata, type requestCallback, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { createPythonEnvironment } from "#clients/conformance/drivers.ts";
import { MissingToolError, runTool } from "#clients/conformance/tools.ts";
import { buildPackage } from "#clients/node/build.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import {
  OUTSIDE_ENVIRONMENT as environment,
  outsideNode as node,
  type OutsideService,
  programOfPaper,
  refusalAfterLogoutMs,
} from "#tests/support/system/outside-service.ts";

/** As another team would: an empty folder outside of the repository, a package, and the lines of its papers. */

const ROOT = resolve(import.meta.dirname, "..", "..");
const run = promisify(execFile);

/** Go compiles its own library anew, and others may use the machine. */
const BUILD_TIMEOUT_MS = 900_000;

const TSC = join(ROOT, "node_modules", ".bin", "tsc");
const STRICT = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"];

let folder: string;
let tarball: string;
let inNode: string;
let inNodeWithExpress4: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "gatehouse-outside-"));
  tarball = await buildPackage(folder);
  const types = ["@types/node@24", "@types/express@5"];
  inNode = await npmInstall("express-5", tarball, "express@5", "fastify@5", ...types);
  inNodeWithExpress4 = await npmInstall("express-4", tarball, "express@4");
}, BUILD_TIMEOUT_MS);
afterAll(() => rm(folder, { recursive: true, force: true }));

async function newFolder(name: string): Promise<string> {
  const path = join(folder, name);
  await mkdir(path);
  return path;
}

/** The latency is reported, not asserted: it is the machine's. */
async function refuses(name: string, service: OutsideService): Promise<void> {
  const afterMs = await refusalAfterLogoutMs(service);
  process.stdout.write(`${name}: refused ${afterMs.toFixed(0)} ms after the logout was answered\n`);
}

/** `GET /whoami` of the port. */
function askHttp(port: number): OutsideService["ask"] {
  return async (token) => {
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`http://127.0.0.1:${port}/whoami`, { headers }).catch(() => undefined);
    if (response?.status === 200) {
      expect(await response.json()).toMatchObject({ kind: "user", role: "USER" });
      return "admitted";
    }
    const challenge = response?.headers.get("www-authenticate");
    await response?.arrayBuffer();
    return challenge === 'Bearer error="invalid_token"' ? "refused" : `${response?.status} ${challenge}`;
  };
}

/** Without a registry this fails, and says so. @returns the folder. */
async function npmInstall(name: string, ...packages: string[]): Promise<string> {
  const path = await newFolder(name);
  await writeFile(join(path, "package.json"), JSON.stringify({ private: true, type: "module" }));
  await run("npm", ["install", "--no-fund", "--no-audit", ...packages], { cwd: path, env: environment });
  return path;
}

async function refusesInNode(name: string, path: string, program: string, askOf = askHttp): Promise<void> {
  await writeFile(join(path, program), await programOfPaper(program));
  const port = await freePort();
  // With `test` Express logs no refusals.
  const settings = { PORT: String(port), NODE_ENV: "test" };
  await refuses(name, { folder: path, command: [node, program], settings, ask: askOf(port) });
}

/** Where the machine lacks a language, the test is skipped and its report says why. */
const orSkipped = async ({ skip }: TestContext, work: () => Promise<void>) => {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof MissingToolError)) throw error;
    process.stderr.write(`skipped: ${error.message}\n`);
    skip(error.message);
  }
};

/** The method of the page's service, whose request may be anything. */
function askRpc(port: number): OutsideService["ask"] {
  const options = { "grpc.enable_http_proxy": 0 };
  return (token) => {
    const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), options);
    const metadata = new Metadata();
    metadata.set("authorization", `Bearer ${token}`);
    const deadline = Date.now() + 10_000;
    return new Promise((resolve) => {
      const answer: requestCallback<string> = (error, userId) => {
        client.close();
        const isRefused = error?.code === status.UNAUTHENTICATED;
        resolve(userId ? "admitted" : isRefused ? "refused" : String(error));
      };
      const method = "/orders.v1.OrderService/WhoAmI";
      client.makeUnaryRequest(method, Buffer.from, String, "?", metadata, { deadline }, answer);
    });
  };
}

test("a service by Express 5 refuses a token after its logout", () =>
  refusesInNode("Express 5", inNode, "server.js"));

test("a service by Express 4 does too", () => refusesInNode("Express 4", inNodeWithExpress4, "server.js"));

test("a service by Fastify does too", () => refusesInNode("Fastify", inNode, "fastify.js"));

test("a service by NestJS does too", async () => {
  const nest = ["common", "core", "platform-express"].map((name) => `@nestjs/${name}@11`);
  const path = await npmInstall("nestjs", tarball, ...nest, "reflect-metadata", "rxjs", "@types/node@24");
  await writeFile(join(path, "nestjs.ts"), await programOfPaper("nestjs.ts"));
  const decorators = ["--experimentalDecorators", "--emitDecoratorMetadata"];
  await run(TSC, [...STRICT, "--skipLibCheck", ...decorators, "nestjs.ts"], { cwd: path });
  const port = await freePort();
  await refuses("NestJS", {
    folder: path,
    command: [node, "nestjs.js"],
    settings: { PORT: String(port) },
    ask: askHttp(port),
  });
});

test("the page's test of a service runs without a token-service, and not in production", async () => {
  await writeFile(join(inNode, "orders.test.js"), await programOfPaper("orders.test.js"));
  const tested = (mode: string) =>
    run(node, ["--test", "orders.test.js"], { cwd: inNode, env: { ...environment, NODE_ENV: mode } });
  expect((await tested("test")).stdout).toMatch(/pass 1\n/);
  const stdout = expect.stringContaining("NODE_ENV is production");
  await expect(tested("production")).rejects.toMatchObject({ stdout });
});

test("a service by grpc-js does too", () => refusesInNode("grpc-js", inNode, "grpc.js", askRpc));

test(
  "a service with the Go module does too",
  (context) =>
    orSkipped(context, async () => {
      const path = await newFolder("go");
      const go = (...args: string[]) => runTool("go", args, { cwd: path, env: environment });
      const module = "gatehouse.example/gatehouse";
      await go("mod", "init", "example.com/whoami");
      const source = join(ROOT, "clients", "go");
      await go("mod", "edit", "-require", `${module}@v0.0.0`, "-replace", `${module}=${source}`);
      await writeFile(join(path, "main.go"), await programOfPaper("main.go"));
      await go("mod", "tidy");
      await go("build", "-o", "whoami", ".");
      const port = await freePort();
      await refuses("Go", {
        folder: path,
        command: [join(path, "whoami")],
        settings: { PORT: String(port) },
        ask: askHttp(port),
      });
    }),
  BUILD_TIMEOUT_MS,
);

test(
  "a service with the Python wheel does too",
  (context) =>
    orSkipped(context, async () => {
      const path = await newFolder("python");
      await createPythonEnvironment(join(path, ".venv"));
      const pip = (...args: string[]) => runTool(join(path, ".venv", "bin", "pip"), args);
      const wheels = join(path, "wheels");
      await pip("wheel", "-q", "--no-deps", "-w", wheels, join(ROOT, "clients", "python"));
      const [wheel = ""] = await readdir(wheels);
      await pip("install", "-q", join(wheels, wheel), "fastapi", "uvicorn");
      await writeFile(join(path, "service.py"), await programOfPaper("service.py"));
      const port = await freePort();
      const uvicorn = [join(path, ".venv", "bin", "uvicorn"), "--log-level", "warning", "--port", `${port}`];
      await refuses("Python", { folder: path, command: [...uvicorn, "service:app"], ask: askHttp(port) });
    }),
  BUILD_TIMEOUT_MS,
);

test(
  "a service with the Java package, by its Maven coordinates, does too",
  (context) =>
    orSkipped(context, async () => {
      await runTool("java", ["-version"]);
      const mvn = (cwd: string, ...args: string[]) =>
        runTool("mvn", ["-q", "-B", ...args], { cwd, env: environment });
      await mvn(join(ROOT, "clients", "java"), "install", "-DskipTests");
      const path = await newFolder("java");
      for (const name of ["pom.xml", "Whoami.java"])
        await writeFile(join(path, name), await programOfPaper(name));
      await mvn(path, "dependency:build-classpath", "-Dmdep.outputFile=classpath");
      const classpath = await readFile(join(path, "classpath"), "utf8");
      const port = await freePort();
      await refuses("Java", {
        folder: path,
        command: ["java", "-cp", classpath.trim(), "Whoami.java"],
        settings: { PORT: String(port) },
        ask: askHttp(port),
      });
    }),
  BUILD_TIMEOUT_MS,
);

test("the types of the npm package stand alone, for each of its entries", async () => {
  await writeFile(join(inNode, "all.ts"), CONSUMER);
  await run(TSC, [...STRICT, "--noEmit", "all.ts"], { cwd: inNode });
  await run(node, ["--input-type=module", "-e", "await import('@gatehouse-auth/token-client/grpc')"], {
    cwd: inNode,
  });
});

const CONSUMER = `
import { Server } from "@grpc/grpc-js";
import { createVerifier, DomainError, type Principal } from "@gatehouse-auth/token-client";
import { expressBearerAuth, principalIn as inExpress } from "@gatehouse-auth/token-client/express";
import { fastifyBearerAuth, principalIn } from "@gatehouse-auth/token-client/fastify";
import { principalInMetadata, rpcBearerAuth } from "@gatehouse-auth/token-client/grpc";
import { TestVerifier } from "@gatehouse-auth/token-client/testing";
import express from "express";
import fastify from "fastify";

const tls = { certFile: "tls.crt", keyFile: "tls.key", caFile: "ca.crt" };
const verifier = createVerifier({ address: "token-service:50052", tls, logger: console });
const app = fastify();
await app.register(fastifyBearerAuth, { verifier });
app.get("/", { config: { auth: { roles: ["ADMIN"] } } }, async (request): Promise<Principal> => principalIn(request));
express().get("/", expressBearerAuth({ verifier, auth: "authenticated" }), (request, response) => {
  response.json(inExpress(request));
});
new Server({ interceptors: [rpcBearerAuth({ verifier, methods: { "/a.B/C": "authenticated" } })] });
expressBearerAuth({ verifier: new TestVerifier(), auth: { roles: ["ADMIN"] } });
export const failure: Error = new DomainError("forbidden");
export const read = principalInMetadata;
// @ts-expect-error: who may call is not optional.
expressBearerAuth({ verifier });
`;

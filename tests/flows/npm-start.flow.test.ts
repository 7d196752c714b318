import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { writeClient } from "#clients/browser/build.ts";
import { buildPackage } from "#clients/node/build.ts";
import { createAuthority, issueCertificate } from "#deploy/certificate-pair.ts";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { startTestSmtp } from "#identity-service/testing/test-smtp.ts";
import { CHROMIUM, launchChromium } from "../support/browser/chromium.ts";
import { embeddedServer } from "../support/database/postgres-test-server.ts";
import { findRedisProgram, startRedis } from "../support/database/redis.ts";
import { apiClient } from "../support/people/api-client.ts";
import { newMachineClient, requestToken } from "../support/people/machine-client.ts";
import { mailsTo } from "../support/people/mailbox.ts";
import { freePort } from "../support/system/free-port.ts";
import {
  ADMIN,
  BARE_ENVIRONMENT,
  freePorts,
  launch,
  readLog,
  type System,
  startSystem,
} from "../support/system/system.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");

let system: System;
/** With which curl waits, as `Retry-After` asks, where a busy machine answers 503. */
let patientCurl: NodeJS.ProcessEnv;

beforeAll(async () => {
  system = await startSystem();
  await writeFile(join(system.home, ".curlrc"), "retry = 10\n");
  patientCurl = { ...process.env, CURL_HOME: system.home };
});

afterAll(async () => {
  await system.stop();
  await rm(system.home, { recursive: true, force: true });
});

function pidsIn(output: string): Map<string, number> {
  return new Map(
    [...output.matchAll(/^ {2}(\S+) +127\.0\.0\.1:\d+ +(\d+)$/gm)].map((row) => [
      row[1] ?? "",
      Number(row[2]),
    ]),
  );
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const livingOf = (pids: Map<string, number>) =>
  [...pids].filter(([, pid]) => isAlive(pid)).map(([name]) => name);

async function again(options: { arguments?: string[] } = {}): Promise<void> {
  system = await startSystem({ again: system, ...options });
}

test("what it prints says where everything is and how to try it", async () => {
  const output = system.output();
  expect(output).toContain(`Gatehouse ready: http://localhost:${system.ports.GATEWAY_PORT}`);
  expect([...pidsIn(output).keys()].sort()).toEqual(
    [
      "audit-service",
      "demo-provider",
      "event-service",
      "gateway",
      "identity-service",
      "mailbox",
      "payments-service",
      "postgres",
      "token-service",
    ].sort(),
  );
  expect(output).toContain(ADMIN.email);
  const page = await fetch(/http:\S+\/docs/.exec(output)?.[0] ?? "");
  expect(await page.text()).toContain("<title>Gatehouse API</title>");
  const printed = output.slice(output.indexOf("Gatehouse ready")).replaceAll(system.home, "");
  expect(printed.split("\n").filter((line) => line.length > 80)).toEqual([]);
});

test("the curl lines work as they are printed", async () => {
  const [, commands = ""] = /^Try it.*?\n(.*?)\n\n/ms.exec(system.output()) ?? [];
  expect(commands.match(/curl /g)).toHaveLength(3);
  const { execFile } = await import("node:child_process");
  const printed = await new Promise<string>((resolve, reject) => {
    execFile("sh", ["-e", "-c", commands], { env: patientCurl }, (error, stdout) =>
      error === null ? resolve(stdout) : reject(error),
    );
  });
  expect(printed).toMatch(/"email":"ada@example.com"/);
  expect(printed).toMatch(/"payments":\[\]/);
});

test("README's five minutes work as they are printed, with a step-up, an approval and a client", async () => {
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const [, lines = ""] = /^## Try it in five minutes\n.*?^```sh\n(.*?)^```$/ms.exec(readme) ?? [];
  const { GATEWAY_PORT, MAILBOX_PORT } = system.ports;
  const script = lines
    // In one go: the gateway may have port 10801.
    .replaceAll(
      /localhost:(8080|1080)\b/g,
      (_, port) => `localhost:${port === "8080" ? GATEWAY_PORT : MAILBOX_PORT}`,
    )
    .replaceAll(".gatehouse/", `${system.home}/`)
    .replaceAll("ada@example.com", "eve@example.com")
    .replaceAll("admin@gatehouse.example", ADMIN.email);
  const [beforeMail = "", afterMail = ""] = script.split(/^(?=# Confirm the address)/m);
  const environment = { ...patientCurl, GATEHOUSE_HOME: system.home };
  const shell = spawn("sh", ["-e", "-s"], { cwd: ROOT, env: environment, stdio: ["pipe", "pipe", "pipe"] });
  const ended = once(shell, "close");
  let printed = "";
  for (const output of [shell.stdout, shell.stderr]) output.on("data", (data) => (printed += data));
  shell.stdin.write(beforeMail);
  const hasMail = async () => (await mailsTo(system, "eve@example.com")).length > 0;
  // A mail that the mailbox did not take at once is sent again after half a minute.
  await expect.poll(async () => shell.exitCode ?? (await hasMail()), { timeout: 120_000 }).not.toBe(false);
  expect(shell.exitCode, `${printed}${await readLog(system, "identity-service")}`).toBe(null);
  // The code of the step before must still be accepted when it arrives, on a busy machine, too.
  await expect.poll(() => Date.now() % 30_000).toBeLessThan(10_000);
  shell.stdin.end(afterMail);
  expect(await ended, printed).toEqual([0, null]);

  const answers =
    /"code":"[a-z_]+"|"payments":\[\]|"amount":\d+(?=,"currency)|"payee":\{[^}]*\}|PROVEN|\/payee: .*/g;
  expect(printed.match(answers), printed).toEqual([
    '"amount":1250',
    '"amount":1250',
    '"code":"token_missing"',
    '"code":"step_up_required"',
    '"payee":{"name":"ACME Ltd"}',
    '"code":"approval_required"',
    '"code":"approval_mismatch"',
    '"amount":25000',
    '"code":"token_invalid"',
    '"payments":[]',
    '"code":"forbidden"',
    "PROVEN",
    "PROVEN",
    '/payee: "ACME Ltd"',
    "PROVEN",
  ]);
}, 400_000);

/** With the home's operator. */
const logInAs = (home: string, ...args: string[]) =>
  promisify(execFile)(process.execPath, ["cli/main.ts", "--home", home, "sessions", "issue", ...args], {
    cwd: ROOT,
    env: BARE_ENVIRONMENT,
  });

test("end-to-end tests log in as a user at a level, and the audit log says so", async () => {
  const { stdout } = await logInAs(system.home, ADMIN.email, "--level", "2", "--json");
  const { accessToken: token, refreshToken } = JSON.parse(stdout);
  const api = apiClient(system.url);
  expect((await api.get("/auth/me", { token })).body).toMatchObject({
    data: { user: { email: ADMIN.email } },
  });
  expect(JSON.parse(Buffer.from(token.split(".")[1], "base64url").toString())).toMatchObject({
    acr: "urn:gatehouse:acr:2",
  });
  const entries = async () => (await api.get("/admin/audit?action=user.test_login_asked", { token })).body;
  await expect.poll(async () => JSON.stringify(await entries())).toContain('"operator:');
  expect((await api.post("/auth/refresh", { refreshToken })).status).toBe(200);
});

test("private files are for their owner only", async () => {
  const { stat, readdir } = await import("node:fs/promises");
  for (const folder of ["tls", "secrets"]) {
    expect((await stat(join(system.home, folder))).mode & 0o777).toBe(0o700);
    for (const name of await readdir(join(system.home, folder))) {
      expect((await stat(join(system.home, folder, name))).mode & 0o777, name).toBe(0o600);
    }
  }
});

test("SIGTERM ends everything in order and leaves no process; a second start has all data", async () => {
  const user = await apiClient(system.url).newUser();
  const pids = pidsIn(system.output());
  expect((await system.stop()).code).toBe(0);
  expect(livingOf(pids)).toEqual([]);

  await again();
  const api = apiClient(system.url);
  expect((await api.get("/auth/me", { token: user.accessToken })).body.data.user.id).toBe(user.user.id);
  expect((await api.post("/auth/refresh", { refreshToken: user.refreshToken })).status).toBe(200);
});

/** The example and its packages in folders of their own, as its README makes them; what npm would install is the repository's. */
async function copyOfExample(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-flow-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
  const example = join(folder, "orders-service");
  await cp(join(ROOT, "clients", "examples", "orders-service"), example, { recursive: true });
  const packages = join(example, "node_modules", "@gatehouse-auth");
  await mkdir(packages, { recursive: true });
  await buildPackage(folder);
  await rename(join(folder, "node"), join(packages, "token-client"));
  await writeClient(join(packages, "browser"));
  return example;
}

/** What its README says to do in a running system, until the next start. */
async function connectExample(example: string, origin: string): Promise<void> {
  const readme = await readFile(join(example, "README.md"), "utf8");
  const [, access = "", commands = ""] =
    /^```yaml\n(.*?)^```$.*^```sh\n(.*?)^npm start -- stop/ms.exec(readme) ?? [];
  const file = join(system.home, "access.yaml");
  let policies = await readFile(file, "utf8");
  for (const line of access.split("\n").filter((each) => each.endsWith("]")))
    policies = policies.replace(new RegExp(`^${line.split("[")[0]}\\[.*$`, "m"), line);
  await writeFile(file, policies);
  const script = commands
    .replaceAll("npm exec --silent -- gatehouse", `"${process.execPath}" cli/main.ts`)
    .replaceAll("localhost:8095", new URL(origin).host)
    .replaceAll("127.0.0.1:8095", `127.0.0.1:${new URL(origin).port}`)
    .replaceAll("../orders-service", example)
    .replaceAll(".gatehouse/", `${system.home}/`);
  const env = { ...process.env, GATEHOUSE_HOME: system.home };
  await promisify(execFile)("sh", ["-e", "-c", script], { cwd: ROOT, env });
}

test("README of the example: a service of one's own gets a certificate and a route, and works from the next start on", async () => {
  const { home } = system;
  const settings = join(home, "services", "token-service.env");
  await writeFile(settings, "# ours\nVERIFIERS=other-shop # by hand\n", { mode: 0o600 });
  const example = await copyOfExample();
  const origin = `http://localhost:${await freePort()}`;
  await connectExample(example, origin);
  expect(await readFile(settings, "utf8")).toBe("# ours\nVERIFIERS=other-shop,orders-service\n");
  const service = spawn(process.execPath, ["--env-file=.env", "main.js"], {
    cwd: example,
    env: { ...BARE_ENVIRONMENT, PORT: new URL(origin).port, GATEHOUSE_URL: system.url },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void service.kill());
  let printed = "";
  for (const output of [service.stdout, service.stderr]) output.on("data", (data) => (printed += data));

  const [ada, bob] = [await apiClient(system.url).newUser(), await apiClient(system.url).newUser()];
  const order = { item: "<b>Tea</b>", quantity: 2 };
  const impatient = apiClient(system.url, { isPatient: false });
  const early = () => impatient.post("/orders", order, { token: ada.accessToken });
  await expect.poll(async () => (await early()).status, { timeout: 60_000 }).toBe(503);
  await expect
    .poll(() => printed, { timeout: 60_000 })
    .toContain("orders-service may not call this: add its name to VERIFIERS");
  await system.stop();
  await again();

  const api = apiClient(system.url);
  const listOf = async (token: string) => (await api.get("/orders", { token })).body.orders;
  const made = await api.post("/orders", order, { token: ada.accessToken });
  expect(made, JSON.stringify(made.body)).toMatchObject({
    status: 201,
    body: { order: { owner: ada.user.id } },
  });
  expect(await listOf(ada.accessToken)).toEqual([made.body.order]);
  expect(await listOf(bob.accessToken)).toEqual([]);
  const path = `/orders/${made.body.order.id}`;
  expect((await api.call("DELETE", path, { token: ada.accessToken })).status).toBe(403);
  // A token of the gateway's own audience is none for the service.
  const headers = { authorization: `Bearer ${ada.accessToken}` };
  expect((await fetch(`${origin}/orders`, { headers })).status).toBe(401);

  const program = await newMachineClient(api, ["orders:write"]);
  const { secret } = await program.add({ kind: "secret" });
  const token: string = (await requestToken(api, program.id, secret)).body.access_token;
  const ordered = await api.post("/orders", order, { token });
  expect(ordered.body.order.owner).toBe(`client:${program.id}`);
  expect((await api.get("/orders", { token })).status).toBe(403);

  if (CHROMIUM === undefined) process.stderr.write("skipped: the page of the example: no Chromium\n");
  else await orderOnPage(origin);
  const issue = [
    "cli/main.ts",
    "certificates",
    "issue",
    "orders-service",
    "--home",
    home,
    "--json",
    "--renew",
  ];
  const { stdout } = await promisify(execFile)(process.execPath, issue, { cwd: ROOT });
  expect(JSON.parse(stdout)).toMatchObject({ needsStart: false });
  expect(await readdir(join(home, "tls"))).toContain("other-shop.key");
}, 400_000);

/** The administrator sees the two orders that there are, makes one, deletes one, and logs out. */
async function orderOnPage(origin: string): Promise<void> {
  const browser = await launchChromium();
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(60_000);
    await page.goto(origin);
    await page.getByLabel("E-mail").fill(ADMIN.email);
    await page.getByLabel("Password").fill(ADMIN.password);
    await page.getByRole("button", { name: "Log in" }).click();
    const lines = async () => (await page.locator("li").allInnerTexts()).map((line) => line.trim());
    const theirs = "2 × <b>Tea</b> Delete";
    await expect.poll(lines, { timeout: 60_000 }).toEqual([theirs, theirs]);
    await page.getByLabel("Item").fill("Milk");
    await page.getByRole("button", { name: "Order" }).click();
    await expect.poll(lines, { timeout: 60_000 }).toEqual([theirs, theirs, "1 × Milk Delete"]);
    await page.getByRole("button", { name: "Delete" }).first().click();
    await expect.poll(lines, { timeout: 60_000 }).toEqual([theirs, "1 × Milk Delete"]);
    await page.reload();
    await expect.poll(lines, { timeout: 60_000 }).toEqual([theirs, "1 × Milk Delete"]);
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("button", { name: "Log in" }).waitFor();
  } finally {
    await browser.close();
  }
}

test("a launcher killed with -9 takes everything with it or clears up at the next start", async () => {
  const user = await apiClient(system.url).newUser();
  const pids = pidsIn(system.output());
  system.launcher.kill("SIGKILL");
  await again();
  expect(livingOf(pids)).toEqual([]);
  // PostgreSQL was stopped in order, not killed.
  expect(await readFile(join(system.home, "logs", "postgres.log.1"), "utf8")).toContain(
    "database system is shut down",
  );
  expect((await apiClient(system.url).get("/auth/me", { token: user.accessToken })).status).toBe(200);
});

test("when a child dies the others stop, and the reason is the last thing printed", async () => {
  const pids = pidsIn(system.output());
  const ended = new Promise<number | null>((resolve) => system.launcher.once("close", resolve));
  process.kill(pids.get("token-service") ?? Number.NaN, "SIGKILL");
  expect(await ended).toBe(1);
  expect(livingOf(pids)).toEqual([]);
  expect(system.output().trimEnd().split("\n").at(-1)).toMatch(/token-service.*(SIGKILL|killed)/i);
  const status = await npmStart(system.home, system.ports, "status");
  expect(status.output).toMatch(/: token-service ended \(signal SIGKILL\)/);
  expect(status.output).toContain(join(system.home, "logs"));
  await again();
});

test("a second launcher on the same home says so in one line and disturbs nothing", async () => {
  const second = launch({ home: system.home, ports: await freePorts() });
  expect(await second.ended).not.toBe(0);
  expect(second.output().trim().split("\n").at(-1)).toMatch(/already|running|in use/i);
  expect((await apiClient(system.url).get("/.well-known/jwks.json")).status).toBe(200);
});

test("at 127.0.0.1 the API answers, and pages are sent to the one address of everything", async () => {
  const address = `http://127.0.0.1:${system.ports.GATEWAY_PORT}`;
  const { accessToken: token } = await apiClient(address).logIn(ADMIN);
  expect((await apiClient(address).get("/auth/me", { token })).status).toBe(200);
  const headers = { accept: "text/html" };
  for (const path of ["/", "/account/login"]) {
    const answer = await fetch(address + path, { headers, redirect: "manual" });
    expect(answer.headers.get("location")).toBe(system.url + path);
    expect((await fetch(address + path, { headers })).url).toBe(system.url + path);
  }
});

const hasIPv6 = Object.values(networkInterfaces()).some((rows) =>
  rows?.some(({ address }) => address === "::1"),
);

// Browsers try ::1 first for `localhost`.
test.each(hasIPv6 ? ["127.0.0.1", "::1"] : ["127.0.0.1"])(
  "a port that is taken at %s is named, with the variable that moves it",
  async (host) => {
    const home = await mkdtemp(join(tmpdir(), "gatehouse-flow-"));
    const taken = createServer().listen(0, host);
    await new Promise((resolve) => taken.once("listening", resolve));
    const { port } = taken.address() as { port: number };
    const failed = launch({ home, ports: { ...(await freePorts()), GATEWAY_PORT: port } });
    expect(await failed.ended).toBe(1);
    const naming = failed
      .output()
      .split("\n")
      .filter((line) => line.includes(String(port)));
    expect(naming).toHaveLength(1);
    expect(naming[0]).toContain("GATEWAY_PORT");
    taken.close();
    await rm(home, { recursive: true, force: true });
  },
);

test.each([
  ["key-encryption-key", /restore it, or delete all data/],
  ["mfa-encryption-key", /restore it, or delete all data.*if no user has a second factor/],
])("a lost %s is not replaced while existing data needs it", async (name, advice) => {
  const home = await mkdtemp(join(tmpdir(), "gatehouse-flow-"));
  await writeFile(join(home, "gatehouse-home"), "");
  for (const folder of ["postgres", "secrets"]) await mkdir(join(home, folder));
  const secrets = ["postgres-superuser-password", "key-encryption-key", "mfa-encryption-key"];
  for (const secret of secrets.filter((candidate) => candidate !== name)) {
    await writeFile(join(home, "secrets", secret), "kept");
  }
  const failed = launch({ home, ports: await freePorts() });
  expect(await failed.ended).toBe(1);
  const line = failed.output().trim().split("\n").at(-1) ?? "";
  expect(line).toContain(join(home, "secrets", name));
  expect(line).toMatch(advice);
  expect(await readdir(join(home, "secrets"))).not.toContain(name);
  await rm(home, { recursive: true, force: true });
});

test("wrong settings are all named at once, and nothing is started", async () => {
  const home = await mkdtemp(join(tmpdir(), "gatehouse-flow-"));
  const failed = launch({
    home,
    ports: await freePorts(),
    environment: { TOKEN_PORT: "seven", GATEHOUSE_ADMIN_EMAIL: "nobody" },
  });
  expect(await failed.ended).toBe(78);
  expect(failed.output()).toMatch(/TOKEN_PORT/);
  expect(failed.output()).toMatch(/GATEHOUSE_ADMIN_EMAIL/);
  await rm(home, { recursive: true, force: true });
});

test("without its database what needs it answers 503, neither 401 nor 500; it recovers by itself", async () => {
  const api = apiClient(system.url, { isPatient: false });
  const user = await apiClient(system.url).newUser();
  const pay = () =>
    api.post(
      "/payments",
      { amount: 1, currency: "EUR", payee: "p", reference: "r" },
      { token: user.accessToken },
    );
  const postgres = pidsIn(system.output()).get("postgres") ?? 0;
  // Stopped, not killed: the launcher would end everything. Connections stay open and answer nothing.
  // The parent first: then it clears away no child that is just ending.
  process.kill(postgres, "SIGSTOP");
  const children = (await readFile(`/proc/${postgres}/task/${postgres}/children`, "utf8"))
    .trim()
    .split(" ")
    .map(Number);
  for (const pid of children) process.kill(pid, "SIGSTOP");
  try {
    const [payment, ...answers] = await Promise.all([
      pay(),
      api.post("/auth/login", { email: user.email, password: user.password }),
      api.post("/auth/refresh", { refreshToken: user.refreshToken }),
    ]);
    // The token can be vouched for until 3 s have passed, and the spool takes what the audit log cannot.
    expect([201, 503]).toContain(payment.status);
    for (const { status, body, headers } of answers) {
      expect(status).toBe(503);
      expect(body.error.code).toMatch(/^(service|audit)_unavailable$/);
      expect(headers.get("retry-after")).toMatch(/^\d+$/);
    }
    // After 3 s no token can be vouched for. The gateway stays in its balancer, to say so.
    await expect.poll(async () => (await api.get("/payments", { token: user.accessToken })).status).toBe(503);
    expect((await fetch(`http://127.0.0.1:${system.ports.GATEWAY_OPERATIONS_PORT}/readyz`)).status).toBe(200);
    expect((await fetch(`${system.url}/openapi.json`)).status).toBe(200);
  } finally {
    for (const pid of [...children, postgres]) process.kill(pid, "SIGCONT");
  }
  await expect
    .poll(async () => (await api.post("/auth/login", { email: user.email, password: user.password })).status)
    .toBe(200);
});

test("--fresh begins anew", async () => {
  const user = await apiClient(system.url).newUser();
  await system.stop();
  await again({ arguments: ["--fresh"] });
  expect(
    (await apiClient(system.url).post("/auth/login", { email: user.email, password: user.password })).status,
  ).toBe(401);
  await apiClient(system.url).logIn(ADMIN);
});

/** `npm start -- <arguments>`, until it returns. */
async function npmStart(home: string, ports: Record<string, number>, ...args: string[]) {
  const { ended, output } = launch({ home, ports: ports as typeof system.ports, arguments: args });
  return { code: await ended, output: output() };
}

test("in the background, on an existing PostgreSQL and Redis, with settings and an upstream of one's own", async () => {
  await system.stop();
  const postgres = await embeddedServer();
  onTestFinished(() => postgres.stop());
  const { host, port } = postgres.server;
  const asSuperuser = connectTo(postgres.server, "postgres");
  await asSuperuser.unsafe("create role maker login createrole createdb password 'makes-databases'");
  await asSuperuser.unsafe("grant connect on database postgres to maker");
  await asSuperuser.end();
  const program = findRedisProgram();
  const redis =
    program === undefined ? undefined : await startRedis(program, { password: "a-redis-password" });
  onTestFinished(async () => redis?.remove());
  const upstream = createHttpServer((request, response) => {
    const [, claims = ""] = (request.headers.authorization ?? "").split(".");
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ aud: JSON.parse(Buffer.from(claims, "base64url").toString()).aud }));
  }).listen(0, "127.0.0.1");
  await once(upstream, "listening");
  onTestFinished(() => void upstream.close());

  const home = await mkdtemp(join(tmpdir(), "gatehouse-flow-"));
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  const ports = await freePorts();
  const start = [
    ...["--detach", "--postgres", `postgres://maker:makes-databases@${host}:${port}`],
    ...(redis === undefined ? [] : ["--redis", `redis://:a-redis-password@127.0.0.1:${redis.port}`]),
  ];
  expect(await npmStart(home, ports, ...start, "--set", "gateway.RATE_LIMTS=1")).toEqual({
    code: 78,
    output: expect.stringContaining("gateway reads no RATE_LIMTS: did you mean RATE_LIMITS?"),
  });
  await writeFile(join(home, "services", "gateway.env"), "ALLOWED_ORIGINS=http://localhost:5173\n");
  const started = await npmStart(home, ports, ...start);
  onTestFinished(async () => void (await npmStart(home, ports, "stop")));
  expect(started, started.output).toMatchObject({
    code: 0,
    output: expect.stringContaining("Gatehouse ready"),
  });
  expect(started.output).not.toContain(ADMIN.password);
  const status = await npmStart(home, ports, "status");
  expect(status).toMatchObject({ code: 0, output: expect.stringContaining("\nHome: ") });
  // A path is one word.
  const wide = status.output.split("\n").filter((line) => line.length > 80 && !line.startsWith("Home: "));
  expect(wide).toEqual([]);
  expect(await npmStart(home, ports, "--detach")).toMatchObject({
    code: 1,
    output: expect.stringContaining("already runs"),
  });

  const url = `http://localhost:${ports.GATEWAY_PORT}`;
  const origin = { Origin: "http://localhost:5173", "Access-Control-Request-Method": "POST" };
  const preflight = await fetch(`${url}/auth/login`, { method: "OPTIONS", headers: origin });
  expect(preflight.headers.get("access-control-allow-origin")).toBe("http://localhost:5173");
  // From another folder, with nothing but the home.
  const gatehouse = (...args: string[]) =>
    promisify(execFile)(process.execPath, [join(ROOT, "cli", "main.ts"), "--home", home, ...args], {
      cwd: tmpdir(),
      env: BARE_ENVIRONMENT,
    });
  expect((await gatehouse("health")).stdout.match(/ ready /g)).toHaveLength(5);
  const api = apiClient(url);
  const token = (await api.newUser()).accessToken;
  await gatehouse("routes", "add", "orders", `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`);
  await expect
    .poll(async () => (await api.get("/orders/7", { token })).body, { timeout: 60_000 })
    .toEqual({ aud: "orders" });
  // Who may read may not write.
  expect((await api.post("/orders/7", {}, { token })).status).toBe(405);
  expect((await gatehouse("access", "who-can", "GET", "/orders")).stdout).toMatch(/USER +yes/);
  await gatehouse("routes", "remove", "orders");
  await expect.poll(async () => (await api.get("/orders/7", { token })).status).toBe(404);

  expect(await npmStart(home, ports, "stop")).toEqual({ code: 0, output: "Stopped.\n" });
  expect(await npmStart(home, ports, "status")).toMatchObject({ code: 3 });
  // The data is there, so a start on a database of its own would look like a loss of it.
  expect(await npmStart(home, ports, "--detach")).toMatchObject({
    code: 1,
    output: expect.stringContaining("start with --postgres <url>"),
  });
});

test("mail goes by one's own server with STARTTLS and a login, and neither mail nor password to a stranger", async () => {
  const [authority, stranger] = await Promise.all([createAuthority(new Date()), createAuthority(new Date())]);
  const { certificate: cert, key } = await issueCertificate(authority, "relay", new Date());
  const logins: unknown[] = [];
  // It offers no login before STARTTLS, and takes no mail without a login.
  const relay = await startTestSmtp({
    cert,
    key,
    disabledCommands: [],
    onAuth({ username, password }, { secure }, callback) {
      logins.push({ username, password, secure });
      callback(null, { user: username });
    },
  });
  onTestFinished(() => relay.close());

  const own = await startSystem({
    files: () => ({
      "services/identity-service.env": [
        `SMTP_URL=smtp://gatehouse@127.0.0.1:${relay.port}`,
        "SMTP_PASSWORD_FILE=services/smtp-password",
        "SMTP_REQUIRE_TLS=true",
        "SMTP_CA_FILE=services/stranger.pem",
        "MAIL_FROM=Shop <shop@example.org>",
        "TEST_LOGINS=false\n",
      ].join("\n"),
      "services/smtp-password": "a password",
      "services/stranger.pem": stranger.certificate,
      "services/relay.pem": authority.certificate,
    }),
  });
  onTestFinished(() => own.remove());
  await apiClient(own.url).newUser();
  const refused = await logInAs(own.home, ADMIN.email).catch(({ stderr }: { stderr: string }) => stderr);
  expect(refused).toContain("started without TEST_LOGINS=true");
  const log = () => readFile(join(own.home, "logs", "identity-service.log"), "utf8");
  await expect.poll(log, { timeout: 60_000 }).toMatch(/"problem":"[^"]*certificate.*mail not sent/);
  expect(await log()).not.toContain("a password");
  expect({ logins, mails: relay.mails }).toEqual({ logins: [], mails: [] });
  expect((await own.stop()).code).toBe(0);

  const trusting = `identity-service.SMTP_CA_FILE=${join(own.home, "services", "relay.pem")}`;
  const again = await startSystem({ again: own, arguments: ["--set", trusting] });
  onTestFinished(async () => void (await again.stop()));
  const { email } = await apiClient(own.url).newUser();
  const relayed = () => relay.mails.find(({ to }) => to.includes(email));
  await expect.poll(relayed, { timeout: 60_000 }).toMatchObject({ from: "shop@example.org" });
  expect(logins[0]).toEqual({ username: "gatehouse", password: "a password", secure: true });
});

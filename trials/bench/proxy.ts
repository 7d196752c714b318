/**
 * CPU per forwarded GET, in one run and in turns: the whole gateway (its own process, a real token-service behind it),
 * also for a route that demands a permission, one that demands a level of assurance and one whose upstream has an audience,
 * against the gateways of `peers/` that `peers/setup.sh` has installed. Load and upstream are processes of their own.
 * Linux only: it reads /proc.
 *
 *   npm run trial -- proxy
 *   PROFILE=folder npm run trial -- proxy      also writes a CPU profile of the gateway
 */
import { type ChildProcess, execFileSync, fork, spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { openSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { decodeJwt, SignJWT } from "jose";
import { pino } from "pino";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { AuditServiceService, type RecordRequest } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { createTestCertificates } from "#tests/support/system/certificates.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { startTokenServer } from "#tests/support/system/token-server.ts";
import { logIn, startTokenReplica } from "#tests/support/system/token-service.ts";
import { checkGateway } from "./peers/check-gateway.ts";
import { GATEWAYS } from "./peers/gateways.ts";
import type { RunningPeer } from "./peers/peer.ts";
import { quantile, startWorkbench } from "./support/workbench.ts";

const ROUNDS = Number(process.env.ROUNDS ?? 7);
const REQUESTS = 10_000;
const CONNECTIONS = 16;
const ROOT = resolve(import.meta.dirname, "..", "..");
const TICKS_PER_S = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

interface Subject {
  name: string;
  port: number;
  host: string;
  token: string;
  path: string;
  /** Whose CPU counts. */
  processes(): number[];
}

const folder = await mkdtemp(join(tmpdir(), "gatehouse-bench-proxy-"));
const children: ChildProcess[] = [];
const started: RunningPeer[] = [];
const workbench = await startWorkbench();
const certificates = await createTestCertificates();
const replica = await startTokenReplica(await workbench.connect("token-service"));
const tokenServer = await startTokenServer(replica, certificates);
const auditServer = await silentAuditServer();
const { accessToken } = await logIn(replica, "01936d3e-7a10-7cc0-a51b-4fd2f8a3c001");
const upstreamPort = await forked("trials/bench/support/load.ts", "upstream");
const upstream = `http://127.0.0.1:${upstreamPort}`;

const subjects = [...(await gateways()), ...(await peers())];
const results = new Map<string, number[]>(subjects.map(({ name }) => [name, []]));
for (let round = -1; round < ROUNDS; round += 1) {
  for (const subject of subjects) {
    const us = await cpuPerRequest(subject);
    if (round >= 0) results.get(subject.name)?.push(us);
  }
}
for (const [name, values] of results) {
  const [median, least] = [quantile(values, 0.5), quantile(values, 0)];
  console.log(
    `${name.padEnd(28)} ${median.toFixed(1)} µs CPU a request (quietest round ${least.toFixed(1)})`,
  );
}
const [, ...rivals] = [...results];
for (const [name, values] of rivals) {
  const ratio = (share: number) =>
    (quantile(results.get("gateway") ?? [], share) / quantile(values, share)).toFixed(2);
  console.log(`gateway / ${name.padEnd(28)} ${ratio(0.5)} (quietest rounds ${ratio(0)})`);
}

for (const running of started) await running.stop();
for (const child of children) {
  child.kill();
  await once(child, "exit");
}
await tokenServer.stop();
await auditServer.stop();
replica.stop();
await replica.deps.sql.end();
await workbench.stop();
await certificates.remove();
await rm(folder, { recursive: true, force: true });

/** Sends the requests from another process. @returns microseconds of CPU that the subject took for each. */
async function cpuPerRequest({ port, host, token, path, processes }: Subject): Promise<number> {
  const cpu = () => processes().reduce((sumS, pid) => sumS + cpuOf(pid), 0);
  const beforeS = cpu();
  const load = spawn(
    process.execPath,
    ["trials/bench/support/load.ts", "send", port, host, path, REQUESTS, CONNECTIONS, token].map(String),
    { cwd: ROOT, stdio: ["ignore", "inherit", "inherit"] },
  );
  const [code] = await once(load, "exit");
  if (code !== 0) throw new Error("the load failed");
  await sleep(300); // what is still to be logged or closed
  return ((cpu() - beforeS) / REQUESTS) * 1e6;
}

/** User and system time of a process with all its threads, in seconds. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_S;
}

/** One process, and the route by role, by permission, and with `assurance`. */
async function gateways(): Promise<Subject[]> {
  const [port, operations, nowhere] = [await freePort(), await freePort(), await freePort()];
  const plenty = { calls: 1_000_000_000, perSeconds: 60 };
  const rateLimit = { perUser: plenty, perAddress: plenty, total: plenty };
  const assurance = { acr: 1, maxAgeSeconds: 86_400 };
  const routes = [
    { prefix: "/payments", upstream, rateLimit, methods: { GET: { roles: ["USER"] } } },
    { prefix: "/permitted", upstream, rateLimit, methods: { GET: { permissions: ["payments:read"] } } },
    { prefix: "/demanding", upstream, rateLimit, methods: { GET: { roles: ["USER"], assurance } } },
    {
      prefix: "/audience",
      upstream,
      rateLimit,
      audience: "https://payments.example",
      methods: { GET: { roles: ["USER"] } },
    },
  ];
  const routesFile = join(folder, "routes.yaml");
  await writeFile(routesFile, JSON.stringify({ routes }));
  const profile = process.env.PROFILE;
  const child = spawn(
    process.execPath,
    [...(profile ? ["--cpu-prof", `--cpu-prof-dir=${profile}`] : []), "gateway/main.ts"],
    {
      cwd: ROOT,
      stdio: ["ignore", openSync(join(folder, "gateway.log"), "w"), "inherit"],
      env: {
        PATH: process.env.PATH ?? "",
        ...certificates.environmentOf("gateway"),
        LISTEN_ADDRESS: `127.0.0.1:${port}`,
        WEB: "off",
        OPERATIONS_ADDRESS: `127.0.0.1:${operations}`,
        TOKEN_SERVICE_ADDRESS: tokenServer.address,
        // A GET needs neither. Nobody is at the one; the gateway keeps a stream open to the other.
        IDENTITY_SERVICE_ADDRESS: `127.0.0.1:${nowhere}`,
        AUDIT_SERVICE_ADDRESS: auditServer.address,
        ROUTES_FILE: routesFile,
        ALLOWED_HOSTS: "gateway.test",
      },
    },
  );
  children.push(child);
  await listening(port);
  const gateway = { port, host: "gateway.test", token: accessToken, processes: () => [child.pid ?? 0] };
  return [
    { ...gateway, name: "gateway", path: "/payments/7" },
    { ...gateway, name: "gateway with permissions", path: "/permitted/7" },
    { ...gateway, name: "gateway with assurance", path: "/demanding/7" },
    { ...gateway, name: "gateway with audience", path: "/audience/7" },
  ];
}

/** Takes the gateway's stream and never has anything to acknowledge. */
async function silentAuditServer() {
  const server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("audit-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("audit-service"),
  });
  server.add(
    AuditServiceService,
    { record: ["gateway"], eraseClaimedEmail: [] },
    {
      eraseClaimedEmail: async () => ({ erasedEntries: 0 }),
      async *record(requests: AsyncIterable<RecordRequest>) {
        for await (const _request of requests) yield { acknowledgedSequence: 0 };
      },
    },
  );
  return { address: `127.0.0.1:${await server.listen()}`, stop: () => server.close(0) };
}

/** Those of `peers/` that this machine has, each checked before it is measured. */
async function peers(): Promise<Subject[]> {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { iss: issuer = "", aud, ...claims } = decodeJwt(accessToken);
  const [audience, role] = [String(aud), "USER"];
  const token = await new SignJWT({ ...claims, iss: issuer, aud: audience, roles: [role] })
    .setProtectedHeader({ alg: "ES256", typ: "at+jwt" })
    .sign(privateKey);
  const [jwksFile, pemFile] = [join(folder, "jwks.json"), join(folder, "es256.pem")];
  await writeFile(jwksFile, JSON.stringify({ keys: [publicKey.export({ format: "jwk" })] }));
  await writeFile(pemFile, publicKey.export({ type: "spki", format: "pem" }));
  const subjects: Subject[] = [];
  for (const peer of GATEWAYS) {
    const missing = peer.missing();
    if (missing !== undefined) {
      console.log(`${peer.name}: ${missing}`);
      continue;
    }
    const own = await mkdtemp(join(folder, "peer-"));
    const context = { folder: own, upstreamPort, jwksFile, pemFile, issuer, audience, role };
    const running = await peer.start(context);
    started.push(running);
    await checkGateway(peer, running, context, privateKey);
    const port = Number(new URL(running.url).port);
    subjects.push({ name: peer.name, port, host: "gateway.test", token, path: "/payments/7", ...running });
  }
  return subjects;
}

async function forked(file: string, ...rest: string[]): Promise<number> {
  const child = fork(join(ROOT, file), rest);
  children.push(child);
  const [port] = (await once(child, "message")) as [number];
  return port;
}

async function listening(port: number): Promise<void> {
  for (let tries = 0; tries < 100; tries += 1) {
    const isOpen = await fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    );
    if (isOpen) return;
    await sleep(100);
  }
  throw new Error(`nothing listens on ${port}`);
}

/**
 * The audit log in segments, in a real S3 server (Versity S3 Gateway, built from its Go module), while event-service and the S3
 * server are killed: afterwards every entry is in one segment, and `gatehouse audit verify` proves each of them.
 *
 *   npm run trial -- siem-segments [seconds]
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { access, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { AuditEvent } from "#audit-client/stream/audit-entry.ts";
import { certificateFiles } from "#deploy/local/certificates.ts";
import { databaseUrl, servicePasswordFile } from "#deploy/local/postgres/ensure-database.ts";
import { databaseOf } from "#deploy/service-databases.ts";
import type { Manifest } from "#event-service/siem/segments.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { AuditQueryServiceClient } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { type Replica, startReplica } from "#tests/support/system/replicas.ts";
import { until } from "../support.ts";
import { openAuditLogs } from "./support/audit-logs.ts";
import { rounded } from "./support/report.ts";
import { quantile, startWorkbench } from "./support/workbench.ts";

const SECONDS = Number(process.argv[2] ?? 90);
const PER_S = 1_000;
const LOGS = 2;
const PATIENCE_MS = 60_000;
const S3_SERVER = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
const KEYS = { ROOT_ACCESS_KEY_ID: "trial", ROOT_SECRET_ACCESS_KEY: "trial-of-segments" };
const ROOT = resolve(import.meta.dirname, "..", "..");
const run = promisify(execFile);

const folder = await mkdtemp(join(tmpdir(), "gatehouse-segments-"));
const bucket = join(folder, "s3", "audit");
await mkdir(bucket, { recursive: true });
const program = await installServer();
if (program === undefined) {
  console.log(`SKIPPED: ${S3_SERVER} cannot be built here; it needs Go and its module proxy`);
  process.exit();
}
const s3 = { port: await freePort(), child: undefined as ChildProcess | undefined };
await startServer(program);
const logs = await openAuditLogs(LOGS);
const bench = await startWorkbench();
const audit = await logs.startService(LOGS);
let events = await startEventService(audit);
const recorder = logs.recorderTo(audit, LOGS);
const { certificate: certFile, key: keyFile, authority: caFile } = certificateFiles(logs.tls, "operator");
const certificate = new ProcessCertificate({ certFile, keyFile, caFile });
const client = createRpcClient(AuditQueryServiceClient, {
  address: audit.address,
  service: "audit-service",
  certificate,
});

try {
  const kills = { "event-service": 0, "S3 server": 0 };
  const ids: string[] = [];
  const stop = new AbortController();
  const disturbing = Promise.all([
    every(14_000, stop.signal, async () => {
      await killed(events.child);
      events = await startEventService(audit);
      kills["event-service"] += 1;
    }),
    every(5_000, stop.signal, async () => {
      await killed(s3.child);
      await sleep(500);
      await startServer(program);
      kills["S3 server"] += 1;
    }),
  ]);
  await send(ids);
  stop.abort();
  await disturbing;
  await until("all segments", async () => {
    const ends = manifests().map(({ log, last }) => ({ log, last }));
    const { sizes } = await logHeads();
    return sizes.every((size, log) => ends.some((end) => end.log === log && end.last >= size));
  });
  console.log(`killed: ${JSON.stringify(kills)}`);
  await killed(events.child);
  await judge(ids);
} finally {
  client.close();
  certificate.close();
  await recorder.close(PATIENCE_MS);
  await Promise.all([killed(events.child), audit.stop(), killed(s3.child)]);
  await bench.stop();
  await logs.close();
  await rm(folder, { recursive: true });
}
process.exit();

async function installServer(): Promise<string | undefined> {
  const GOBIN = join(tmpdir(), "gatehouse-trial-s3");
  const program = join(GOBIN, "versitygw");
  const isThere = () =>
    access(program).then(
      () => program,
      () => undefined,
    );
  if ((await isThere()) !== undefined) return program;
  const environment = { ...process.env, GOBIN };
  await run("go", ["install", S3_SERVER], { env: environment, timeout: 900_000 }).catch(() => undefined);
  return isThere();
}

async function startServer(program: string): Promise<void> {
  const options = ["--port", `127.0.0.1:${s3.port}`, "--quiet", "posix", join(folder, "s3")];
  s3.child = spawn(program, options, { env: { ...process.env, ...KEYS }, stdio: "ignore" });
  await until("the S3 server", async () => (await fetch(`http://127.0.0.1:${s3.port}/`)).status > 0);
}

async function startEventService({ address }: Replica): Promise<Replica> {
  const login = await bench.login("event-service");
  const credentials = join(folder, "credentials");
  const { ROOT_ACCESS_KEY_ID: id, ROOT_SECRET_ACCESS_KEY: secret } = KEYS;
  await writeFile(credentials, `[default]\naws_access_key_id = ${id}\naws_secret_access_key = ${secret}\n`, {
    mode: 0o600,
  });
  return startReplica(logs.system, "event-service", {
    DATABASE_URL: databaseUrl(login, login.username, login.database),
    DATABASE_PASSWORD_FILE: servicePasswordFile(join(bench.folder, "secrets"), databaseOf("event-service")),
    AUDIT_SERVICE_ADDRESS: address,
    SIEM_SEGMENTS_URL: "s3://audit/gatehouse",
    SIEM_SEGMENT_SECONDS: "2",
    SIEM_S3_ENDPOINT: `http://127.0.0.1:${s3.port}`,
    SIEM_S3_CREDENTIALS_FILE: credentials,
  });
}

async function killed(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

async function every(ms: number, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await sleep(ms, undefined, { signal }).catch(() => undefined);
    if (!signal.aborted) await work();
  }
}

/** At a fixed rate. */
async function send(ids: string[]): Promise<void> {
  const open: Promise<void>[] = [];
  const startedMs = performance.now();
  while (open.length < PER_S * SECONDS) {
    const id = uuidv7();
    const event: AuditEvent = {
      ...{ kind: "event", id, occurredAt: new Date(), actor: { claimedEmail: "ada@example.com" } },
      ...{ action: "auth.login", resource: uuidv7(), clientIp: "203.0.113.9", userAgent: "Browser 1" },
      ...{ requestId: uuidv7(), traceId: "", outcome: "success" },
    };
    ids.push(id);
    open.push(recorder.recordEvent(event, Date.now() + PATIENCE_MS));
    const dueMs = startedMs + (open.length * 1_000) / PER_S;
    await sleep(Math.max(0, dueMs - performance.now()));
  }
  await Promise.all(open);
}

async function logHeads() {
  const checkpoints = await Promise.all(
    Array.from({ length: LOGS }, (_, log) =>
      callUnary(client, client.getCheckpoint, { atLeastSize: 0, log }, newCallContext({ budgetMs: 5_000 })),
    ),
  );
  return {
    sizes: checkpoints.map(({ checkpoint }) => Number(checkpoint.split("\n")[1])),
    verifierKey: checkpoints[0]?.verifierKey ?? "",
  };
}

function manifests(): Manifest[] {
  const names = globSync("gatehouse/*/*.manifest.json", { cwd: bucket });
  return names.toSorted().map((name) => JSON.parse(readFileSync(join(bucket, name), "utf8")) as Manifest);
}

function nameOf(log: number, first: number): string {
  return `${String(log).padStart(3, "0")}/${String(first).padStart(16, "0")}.jsonl`;
}

/** @throws unless every entry is there once, and every segment is proven by the command line. */
async function judge(ids: readonly string[]): Promise<void> {
  const all = manifests();
  const { verifierKey } = await logHeads();
  const checkpoints = join(folder, "checkpoints.jsonl");
  const noted = all.map(({ checkpoint: note }) => `${JSON.stringify({ type: "checkpoint", note })}\n`);
  await writeFile(checkpoints, noted.join(""));
  const former = new Map<number, Manifest>();
  const counts = new Map<string, number>();
  const problems: string[] = [];
  for (const manifest of all) {
    const before = former.get(manifest.log);
    former.set(manifest.log, manifest);
    if (manifest.first !== (before?.last ?? 0) + 1) problems.push(`${manifest.name}: a gap or an overlap`);
    if (manifest.former !== (before?.name ?? null)) problems.push(`${manifest.name}: former`);
    const path = join(bucket, "gatehouse", manifest.name);
    for (const line of readFileSync(path, "utf8").trimEnd().split("\n")) {
      const { entry } = JSON.parse(line) as { entry?: { id: string } };
      if (entry !== undefined) counts.set(entry.id, (counts.get(entry.id) ?? 0) + 1);
    }
    const arguments_ = [
      "audit",
      "verify",
      path,
      "--key",
      verifierKey,
      "--checkpoints",
      checkpoints,
      "--partial",
    ];
    await run(process.execPath, [join(ROOT, "cli", "main.ts"), ...arguments_]).catch((error: Error) => {
      problems.push(`${manifest.name}: ${error.message}`);
    });
  }
  const lost = ids.filter((id) => !counts.has(id)).length;
  const doubled = [...counts.values()].filter((count) => count > 1).length;
  // What was being written at the end is the next one of its log.
  const known = [
    ...all.map(({ name }) => name),
    ...[...former.values()].map(({ log, last }) => nameOf(log, last + 1)),
  ];
  const names = globSync("*/*.jsonl", { cwd: join(bucket, "gatehouse") });
  const stray = names.filter((name) => !known.includes(name)).length;
  const bytes = all.map((manifest) => manifest.bytes);
  const [p50, most] = [0.5, 1].map((share) => rounded(quantile(bytes, share) / 1_000));
  console.log(
    `${ids.length} entries at ${PER_S}/s in ${all.length} segments of ${p50} kB, at most ${most}: ${lost} lost, ${doubled} doubled, ${stray} without a manifest`,
  );
  if (lost + doubled + stray + problems.length > 0) throw new Error(problems.join("\n"));
  console.log("every segment follows the one before, and is proven by `gatehouse audit verify`");
}

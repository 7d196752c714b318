/**
 * Audit entries a second, from a producer's call over gRPC into PostgreSQL, numbered and signed meanwhile, against a
 * bare multi-row insert by postgres.js into a table of the same columns and as many indexes, in the same run. The
 * service's process has one core where `taskset` is there.
 *
 *   npm run trial -- audit-record
 *   npm run trial -- audit-record repeated
 *
 * `repeated`: only events that another process sends again, as an outbox does after a lost answer.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import postgres from "postgres";
import { createAuditRecorder } from "#audit-client/record/audit-recorder.ts";
import { certificateFiles, ensureCertificates } from "#deploy/local/certificates.ts";
import { makePrivateDirectory } from "#deploy/local/private-file.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { quantile, startWorkbench } from "./support/workbench.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");
const ROUNDS = 5;
const ENTRIES = 40_000;
const PRODUCERS = 4;
const IN_FLIGHT = 2_000;
const GROUP = 500;
const REPEATED = 20_000;
const REPEATED_ALONE = 2_000;
/** A batch of identity-service's outbox. */
const OUTBOX_BATCH = 200;
const ONLY_REPEATED = process.argv[2] === "repeated";

const workbench = await startWorkbench();
const tls = join(workbench.folder, "tls");
await makePrivateDirectory(tls);
await ensureCertificates(tls, new Date());
const sql = await workbench.connect("audit-service", 2);
const { host, port } = await workbench.login("audit-service");
const owner = postgres({
  host,
  port: port,
  database: "audit",
  username: "gatehouse_audit_owner",
  password: (await readFile(join(workbench.folder, "secrets", "db-audit-owner-password"), "utf8")).trim(),
  onnotice: () => undefined,
});
await owner.unsafe("create table bare (like entries including all)");

const grpcPort = await freePort();
const operationsPort = await freePort();
const service = await startService();
const certificate = new ProcessCertificate(filesOf("gateway"));
const recorders = Array.from({ length: PRODUCERS }, () =>
  createAuditRecorder({
    address: `127.0.0.1:${grpcPort}`,
    certificate,
    logger: pino({ level: "silent" }),
    metrics: createMetrics("gateway"),
  }),
);

const producerId = crypto.randomUUID();
let producerSequence = 0;
const rates = { bare: [] as number[], service: [] as number[] };
for (let round = ONLY_REPEATED ? ROUNDS : -1; round < ROUNDS; round += 1) {
  const bare = await bareRate();
  const recorded = await serviceRate();
  if (round < 0) continue;
  rates.bare.push(bare);
  rates.service.push(recorded);
  console.log(`round ${round + 1}: bare ${bare.toFixed(0)}/s, audit-service ${recorded.toFixed(0)}/s`);
}
await sleep(2_000);
const [counts] = await owner<{ stored: number; numbered: number }[]>`
  select (select count(*)::int from log_entries) as stored, (select count(*)::int from leaves) as numbered`;
console.log(`stored ${counts?.stored}, numbered 2 s after the last: ${counts?.numbered}`);
if (!ONLY_REPEATED) {
  console.log(`bare insert of ${GROUP} rows: ${quantile(rates.bare, 0.5).toFixed(0)} entries/s`);
  console.log(`audit-service: ${quantile(rates.service, 0.5).toFixed(0)} entries/s (aim: 10,000)`);
  const ratios = rates.service.map((value, index) => value / (rates.bare[index] ?? Number.NaN));
  console.log(`ratio, median of ${ROUNDS} rounds: ${quantile(ratios, 0.5).toFixed(2)} (aim: at least 0.5)`);
}
const events = Array.from({ length: REPEATED }, (_, index) => ({
  ...entry(index),
  kind: "event" as const,
  id: crypto.randomUUID(),
  occurredAt: new Date(),
}));
const halfNew = events.map((event, index) =>
  index % 2 === 0 ? event : { ...event, id: crypto.randomUUID() },
);
for (const [what, sent, isAlone] of [
  ["new, in messages of a batch", events, false],
  ["repeated, in messages of a batch", events, false],
  ["half of them repeated", halfNew, false],
  ["repeated, each in a message of its own", events.slice(0, REPEATED_ALONE), true],
] as const) {
  console.log(`events of an outbox, ${what}: ${(await outboxRate(sent, isAlone)).toFixed(0)} entries/s`);
}
const [entries] = await owner<{ stored: number }[]>`select count(*)::int as stored from log_entries`;
console.log(`stored ${(entries?.stored ?? 0) - (counts?.stored ?? 0)} of ${REPEATED + REPEATED / 2}`);

for (const recorder of recorders) await recorder.close(500);
certificate.close();
service.kill("SIGTERM");
await once(service, "exit");
await Promise.all([sql.end(), owner.end()]);
await workbench.stop();

async function serviceRate(): Promise<number> {
  const startedMs = performance.now();
  let next = 0;
  const runner = async (index: number) => {
    while (next < ENTRIES) {
      next += 1;
      await recorders[index % PRODUCERS]?.record(entry(next), Date.now() + 20_000);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, (_, index) => runner(index)));
  return (ENTRIES * 1_000) / (performance.now() - startedMs);
}

/** Each batch waits for the one before, as in `packages/service-kit/database/outbox.ts`. */
async function outboxRate(sent: typeof events, isAlone: boolean): Promise<number> {
  const startedMs = performance.now();
  for (let from = 0; from < sent.length; from += OUTBOX_BATCH) {
    const recorded: (Promise<void> | undefined)[] = [];
    for (const [index, event] of sent.slice(from, from + OUTBOX_BATCH).entries()) {
      recorded.push(recorders[index % PRODUCERS]?.recordEvent(event, Date.now() + 600_000));
      // A message has the events of one turn of the event loop.
      if (isAlone) await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all(recorded);
  }
  return (sent.length * 1_000) / (performance.now() - startedMs);
}

async function bareRate(): Promise<number> {
  const groups = Array.from({ length: ENTRIES / GROUP }, (_, group) =>
    Array.from({ length: GROUP }, (_, index) => row(group * GROUP + index)),
  );
  const startedMs = performance.now();
  for (const rows of groups) await owner`insert into bare ${owner(rows)}`;
  return (ENTRIES * 1_000) / (performance.now() - startedMs);
}

function entry(index: number) {
  return {
    kind: "outcome" as const,
    outcome: "success" as const,
    httpStatus: 201,
    latencyUs: 1_500,
    callId: crypto.randomUUID(),
    actor: { userId: `0190b6a0-0000-7000-8000-${String(index % 5_000).padStart(12, "0")}`, role: "USER" },
    clientIp: "203.0.113.7",
    userAgent:
      "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    method: "POST",
    route: "/payments",
    resource: `pay_${index}`,
    action: "payments.create",
    requestId: crypto.randomUUID(),
    traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
  };
}

function row(index: number) {
  const { actor, callId, clientIp, userAgent, method, route, resource, action, requestId, traceId } =
    entry(index);
  producerSequence += 1;
  return {
    id: crypto.randomUUID(),
    producer_id: producerId,
    producer_sequence: producerSequence,
    producer_name: "gateway",
    occurred_at: new Date(),
    kind: "outcome",
    call_id: callId,
    actor_user_id: actor.userId,
    actor_role: actor.role,
    actor_session_id: "",
    claimed_email: "",
    client_ip: clientIp,
    user_agent: userAgent,
    ...{ method, route, resource, action },
    request_id: requestId,
    trace_id: traceId,
    outcome: "success",
    error_code: "",
    reason: "",
    http_status: 201,
    latency_us: 1_500,
  };
}

async function startService(): Promise<ChildProcess> {
  const keyFile = join(workbench.folder, "checkpoint-key");
  const key = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" });
  await writeFile(keyFile, key, { mode: 0o600 });
  const files = filesOf("audit-service");
  const pinned = spawnSync("taskset", ["-c", "0", "true"]).status === 0;
  const command = [...(pinned ? ["taskset", "-c", "0"] : []), process.execPath, "audit-service/main.ts"];
  const child = spawn(command[0] ?? "", command.slice(1), {
    cwd: ROOT,
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      PATH: process.env.PATH ?? "",
      LISTEN_ADDRESS: `127.0.0.1:${grpcPort}`,
      HEALTH_ADDRESS: "127.0.0.1:0",
      OPERATIONS_ADDRESS: `127.0.0.1:${operationsPort}`,
      TLS_CERT_FILE: files.certFile,
      TLS_KEY_FILE: files.keyFile,
      TLS_CA_FILE: files.caFile,
      DATABASE_URL: `postgres://gatehouse_audit@${host}:${port}/audit`,
      DATABASE_PASSWORD_FILE: join(workbench.folder, "secrets", "db-audit-password"),
      CHECKPOINT_KEY_FILE: keyFile,
      CHECKPOINT_ORIGIN: "gatehouse.bench/audit",
      CHECKPOINT_FILE: join(workbench.folder, "checkpoints.jsonl"),
      LOG_LEVEL: "warn",
    },
  });
  const ready = () =>
    fetch(`http://127.0.0.1:${operationsPort}/readyz`).then(
      (response) => response.ok,
      () => false,
    );
  while (!(await ready())) await sleep(100);
  return child;
}

function filesOf(identity: "gateway" | "audit-service") {
  const { certificate: certFile, key: keyFile, authority: caFile } = certificateFiles(tls, identity);
  return { certFile, keyFile, caFile };
}

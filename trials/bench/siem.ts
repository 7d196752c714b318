/**
 * What an OpenTelemetry collector and rsyslog have of the audit log after they were killed (kill -9) and away, and how fast they catch up: a
 * real audit-service and a real event-service, each with a durable PostgreSQL of its own. Ends with 1 if an entry is missing.
 *
 *   npm run trial -- siem [entries a second] [seconds] [seconds away]
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { AuditEvent } from "#audit-client/stream/audit-entry.ts";
import { selectSize } from "#audit-service/log/tree-store.ts";
import { certificateFiles } from "#deploy/local/certificates.ts";
import { databaseUrl, servicePasswordFile } from "#deploy/local/postgres/ensure-database.ts";
import { databaseOf } from "#deploy/service-databases.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { startReplica } from "#tests/support/system/replicas.ts";
import { say, seconds, until } from "../support.ts";
import { openAuditLogs } from "./support/audit-logs.ts";
import { type SiemReceiver, siemReceivers } from "./support/siem-receivers.ts";
import { startWorkbench } from "./support/workbench.ts";

const [PER_S = 200, SECONDS = 20, AWAY_S = 10] = process.argv.slice(2).map(Number);
const PATIENCE_MS = 180_000;
const LOOK_MS = 100;
/** Syslog is confirmed every 5 s. */
const NEAR_S = 7;

interface Sample {
  atMs: number;
  lag: number;
}

const logs = await openAuditLogs(1);
const bench = await startWorkbench();
const audit = await logs.startService(1);
const recorder = logs.recorderTo(audit, 1);
const files = certificateFiles(logs.tls, "payments-service");
const receivers = await siemReceivers(join(bench.folder, "siem"), files);
const [auditSql] = logs.owners;
const eventSql = await bench.connectOwner("event-service");
let lost = 0;
try {
  if (receivers.length > 0) await run();
} finally {
  await recorder.close(PATIENCE_MS);
  for (const receiver of receivers) await receiver.kill();
  await audit.stop();
  await eventSql.end({ timeout: 1 });
  await bench.stop();
  await logs.close();
}
process.exit(lost > 0 ? 1 : 0);

async function run(): Promise<void> {
  for (const receiver of receivers) await receiver.start();
  const login = await bench.login("event-service");
  const events = await startReplica(logs.system, "event-service", {
    DATABASE_URL: databaseUrl(login, login.username, login.database),
    DATABASE_PASSWORD_FILE: servicePasswordFile(join(bench.folder, "secrets"), databaseOf("event-service")),
    AUDIT_SERVICE_ADDRESS: audit.address,
    SIEM_CA_FILE: files.authority,
    ...Object.assign({}, ...receivers.map(({ environment }) => environment)),
  });
  const samples = new Map<string, Sample[]>(receivers.map(({ name }) => [name, []]));
  const look = async () => {
    const text = await events.metrics();
    for (const [name, list] of samples) {
      const lag = lagIn(text, name);
      if (lag !== undefined) list.push({ atMs: performance.now(), lag });
    }
  };
  let isOver = false;
  const watch = (async () => {
    for (; !isOver; await sleep(LOOK_MS)) await look();
  })();
  try {
    say(`${PER_S} entries/s for ${SECONDS} s; killed after ${SECONDS / 4} s and away for ${AWAY_S} s`);
    const sending = send();
    const backMs = await killAndRestart();
    const sent = await sending;
    const size = await until("the log has everything", () => sizeFrom(sent));
    await until("all have everything", () => haveAll(size), PATIENCE_MS);
    say(`${sent} recorded, ${size} in the log`);
    for (const receiver of receivers) await report(receiver, size, samples.get(receiver.name) ?? [], backMs);
  } finally {
    isOver = true;
    await watch;
    await events.stop();
  }
}

async function sizeFrom(least: number): Promise<number | undefined> {
  const size = await selectSize(auditSql as Parameters<typeof selectSize>[0]);
  return size < least ? undefined : size;
}

async function haveAll(size: number): Promise<boolean> {
  const rows = await eventSql`select name from siem_collectors where (places ->> '0')::bigint >= ${size}`;
  return rows.length === receivers.length;
}

function lagIn(text: string, name: string): number | undefined {
  const line = text
    .split("\n")
    .find((one) => one.startsWith("gatehouse_siem_lag_entries{") && one.includes(`collector="${name}"`));
  return line === undefined ? undefined : Number(line.split(" ").at(-1));
}

/** @returns when they were back. */
async function killAndRestart(): Promise<number> {
  await sleep((SECONDS * 1_000) / 4);
  await Promise.all(receivers.map((receiver) => receiver.kill()));
  await sleep(AWAY_S * 1_000);
  await Promise.all(receivers.map((receiver) => receiver.start()));
  return performance.now();
}

async function report(
  { name, read }: SiemReceiver,
  size: number,
  samples: readonly Sample[],
  backMs: number,
): Promise<void> {
  const had = (await read()).filter(({ log }) => log === 0).map(({ sequence }) => sequence);
  const distinct = new Set(had);
  const missing = size - distinct.size;
  lost += missing;
  const after = samples.filter(({ atMs }) => atMs >= backMs);
  const most = Math.max(...after.map(({ lag }) => lag));
  const first = after.find(({ lag }, index) => index > 0 && lag < (after[index - 1]?.lag ?? 0));
  const near = after.find(({ atMs, lag }) => atMs >= (first?.atMs ?? 0) && lag <= PER_S * NEAR_S);
  const waitedMs = (first?.atMs ?? backMs) - backMs;
  const tookMs = (near?.atMs ?? backMs) - backMs - waitedMs;
  const perS = Math.round((most - (near?.lag ?? 0)) / Math.max(tookMs / 1_000, LOOK_MS / 1_000) + PER_S);
  say(
    `${name}: ${missing} lost, ${had.length - distinct.size} doubled; ${most} behind; began after ${seconds(waitedMs)}, ` +
      `caught up ${seconds(tookMs)} later (${perS} entries/s)`,
  );
}

/** At a fixed rate. @returns how many. */
async function send(): Promise<number> {
  const open: Promise<void>[] = [];
  const startedMs = performance.now();
  while (open.length < PER_S * SECONDS) {
    open.push(recorder.recordEvent(event(), Date.now() + PATIENCE_MS));
    await sleep(Math.max(0, startedMs + (open.length * 1_000) / PER_S - performance.now()));
  }
  await Promise.all(open);
  return open.length;
}

function event(): AuditEvent {
  return {
    ...{ kind: "event", id: uuidv7(), occurredAt: new Date(), actor: {}, action: "bench.siem" },
    ...{ resource: uuidv7(), clientIp: "203.0.113.9", userAgent: "Mozilla/5.0 (X11; Linux x86_64)" },
    ...{ requestId: uuidv7(), traceId: "", outcome: "success" },
  };
}

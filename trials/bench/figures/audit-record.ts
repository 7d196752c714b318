import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import postgres, { type Sql } from "postgres";
import { createAuditRecorder } from "#audit-client/record/audit-recorder.ts";
import { SUPERUSER } from "#deploy/local/postgres/data-directory.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { TESSERA, tesseraRate } from "../peers/tessera.ts";
import type { Gatehouse } from "../support/gatehouse.ts";
import { certificateOf } from "../support/tokens.ts";
import type { Figure } from "./figure.ts";
import { besideOf, eachSystem, oursOf } from "./forwarded.ts";

const ENTRIES = 20_000;
const PRODUCERS = 4;
const IN_FLIGHT = 2_000;
const GROUP = 500;
const PATIENCE_MS = 30_000;

export const auditRecord: Figure = {
  name: "audit-record",
  shows: "audit entries stored a second, from a producer's call on, beside inserting the same rows alone",
  quantities: [{ name: "", unit: "/s", aims: [{ of: "insert", atLeast: 0.7 }] }],
  async prepare(bench) {
    const ends: (() => Promise<unknown>)[] = [];
    const subjects = await eachSystem(bench, async (system) => {
      const certificate = certificateOf(system, "gateway");
      const address = `127.0.0.1:${system.ports.AUDIT_PORT}`;
      const logger = pino({ level: "silent" });
      const recorders = Array.from({ length: PRODUCERS }, () =>
        createAuditRecorder({ address, certificate, logger, metrics: createMetrics("gateway") }),
      );
      const sql = await connectTo(system);
      await sql.unsafe("create table bare (like log_entries including all)");
      ends.push(async () => {
        for (const recorder of recorders) await recorder.close(500);
        certificate.close();
        await sql.unsafe("drop table bare");
        await sql.end();
      });
      return [
        oursOf(system, async () => ({ values: { "": await recordedRate(recorders) } })),
        besideOf(system, `insert of ${GROUP} rows`, async () => ({
          values: { "": await insertedRate(sql) },
        })),
      ];
    });
    const end = () => Promise.all(ends.map((each) => each()));
    if (!bench.hasPeers) return { subjects, end };
    const missing = TESSERA.missing();
    if (missing !== undefined) return { subjects, missing: [missing], end };
    const tessera = async () => ({ values: { "": (await tesseraRate(ENTRIES)).perSecond } });
    return { subjects: [...subjects, { name: TESSERA.name, isOurs: false, sample: tessera }], end };
  },
};

/** As the superuser of the system's own PostgreSQL. */
async function connectTo({ home, ports }: Gatehouse): Promise<Sql> {
  const password = (await readFile(join(home, "secrets", "postgres-superuser-password"), "utf8")).trim();
  const server = { host: "127.0.0.1", port: ports.POSTGRES_PORT, database: "audit", username: SUPERUSER };
  return postgres({ ...server, password, max: 1, onnotice: () => undefined });
}

async function recordedRate(recorders: readonly ReturnType<typeof createAuditRecorder>[]): Promise<number> {
  const startedMs = performance.now();
  let next = 0;
  const runner = async (index: number) => {
    while (next < ENTRIES) {
      next += 1;
      await recorders[index % PRODUCERS]?.next().record(entry(next), Date.now() + PATIENCE_MS);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, (_, index) => runner(index)));
  return (ENTRIES * 1_000) / (performance.now() - startedMs);
}

async function insertedRate(sql: Sql): Promise<number> {
  const producerId = randomUUID();
  const groups = Array.from({ length: ENTRIES / GROUP }, (_, group) =>
    Array.from({ length: GROUP }, (_, index) => row(producerId, group * GROUP + index)),
  );
  const startedMs = performance.now();
  for (const rows of groups) await sql`insert into bare ${sql(rows)}`;
  return (ENTRIES * 1_000) / (performance.now() - startedMs);
}

/** The outcome of a payment. */
export function entry(index: number) {
  return {
    kind: "outcome" as const,
    outcome: "success" as const,
    httpStatus: 201,
    latencyUs: 1_500,
    callId: randomUUID(),
    actor: { userId: `0190b6a0-0000-7000-8000-${String(index % 5_000).padStart(12, "0")}`, role: "USER" },
    clientIp: "203.0.113.7",
    userAgent:
      "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    method: "POST",
    route: "/payments",
    resource: `pay_${index}`,
    action: "payments.create",
    requestId: randomUUID(),
    traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
  };
}

function row(producerId: string, index: number) {
  const { actor, callId, clientIp, userAgent, method, route, resource, action, requestId, traceId } =
    entry(index);
  return {
    position: index + 1,
    received_at: new Date(),
    id: randomUUID(),
    producer_id: producerId,
    producer_sequence: index + 1,
    producer_name: "gateway",
    occurred_at: new Date(),
    kind: "outcome",
    call_id: callId,
    actor_user_id: actor.userId,
    actor_role: actor.role,
    actor_session_id: "",
    claimed_email_hash: "",
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

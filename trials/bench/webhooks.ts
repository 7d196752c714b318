/**
 * From an entry's commit in the audit log to its arrival at a webhook, what a delivery costs, and what a dead endpoint costs: a real
 * audit-service and a real event-service, each with a durable PostgreSQL of its own. Receivers are in this process.
 *
 *   npm run trial -- webhooks [seconds of each round]
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type { AuditEvent } from "#audit-client/stream/audit-entry.ts";
import { certificateFiles } from "#deploy/local/certificates.ts";
import { databaseUrl, servicePasswordFile } from "#deploy/local/postgres/ensure-database.ts";
import { databaseOf } from "#deploy/service-databases.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { WebhookServiceClient } from "#proto/gatehouse/events/v1/webhook_service.ts";
import { type Replica, startReplica } from "#tests/support/system/replicas.ts";
import { until } from "../support.ts";
import { openAuditLogs } from "./support/audit-logs.ts";
import { cpuUs } from "./support/processes.ts";
import { rounded } from "./support/report.ts";
import { quantile, serverCpuUs, startWorkbench } from "./support/workbench.ts";

const SECONDS = Number(process.argv[2] ?? 20);
const PATIENCE_MS = 30_000;
const ENDPOINTS = 50;

interface Round {
  name: string;
  perS: number;
  endpoints: number;
  /** One refuses connections, one takes them and never answers. */
  hasBroken?: boolean;
}

const ROUNDS: readonly Round[] = [
  { name: "warm-up", perS: 100, endpoints: 1 },
  { name: "100/s, one endpoint", perS: 100, endpoints: 1 },
  { name: `100/s over ${ENDPOINTS} endpoints`, perS: 100, endpoints: ENDPOINTS },
  { name: `1,000/s over ${ENDPOINTS} endpoints`, perS: 1_000, endpoints: ENDPOINTS },
  {
    name: `1,000/s over ${ENDPOINTS}, one dead, one slow`,
    perS: 1_000,
    endpoints: ENDPOINTS,
    hasBroken: true,
  },
];

const logs = await openAuditLogs(1);
const bench = await startWorkbench();
const audit = await logs.startService(1);
const events = await startEventService(audit);
const recorder = logs.recorderTo(audit, 1);
const delays: number[] = [];
/** Of the round: what is still on its way does not count for the next one. */
let counted = "";
const server = createServer(async (request, response) => {
  const body = await text(request);
  const receivedAtMs = Date.now();
  response.writeHead(204).end();
  const { data } = JSON.parse(body) as { data: { requestId: string; receivedAt: string } };
  if (data.requestId === counted) delays.push(receivedAtMs - Date.parse(data.receivedAt));
});
const silent = createServer(() => undefined);
for (const each of [server, silent]) await once(each.listen(0, "127.0.0.1"), "listening");
const portOf = (each: typeof server) => (each.address() as AddressInfo).port;
const client = createRpcClient(WebhookServiceClient, {
  address: events.address,
  service: "event-service",
  certificate: operator(),
});

try {
  console.log(
    `${SECONDS} s each; delay from the log's commit to the receiver, in ms; CPU for each delivery, in µs`,
  );
  for (const round of ROUNDS) await run(round);
} finally {
  client.close();
  await recorder.close(PATIENCE_MS);
  await Promise.all([events.stop(), audit.stop()]);
  for (const each of [server, silent]) {
    each.closeAllConnections();
    each.close();
  }
  await bench.stop();
  await logs.close();
}
process.exit();

function operator(): ProcessCertificate {
  const { certificate: certFile, key: keyFile, authority: caFile } = certificateFiles(logs.tls, "operator");
  return new ProcessCertificate({ certFile, keyFile, caFile });
}

async function startEventService({ address }: Replica): Promise<Replica> {
  const login = await bench.login("event-service");
  return startReplica(logs.system, "event-service", {
    DATABASE_URL: databaseUrl(login, login.username, login.database),
    DATABASE_PASSWORD_FILE: servicePasswordFile(join(bench.folder, "secrets"), databaseOf("event-service")),
    AUDIT_SERVICE_ADDRESS: address,
  });
}

async function run({ name, perS, endpoints, hasBroken = false }: Round): Promise<void> {
  const ids = await Promise.all(
    Array.from({ length: endpoints }, (_, index) => make(index, hasBroken ? brokenPort(index) : undefined)),
  );
  await until("all are served", async () => (await metric("gatehouse_webhooks_served")) === endpoints);
  delays.length = 0;
  counted = uuidv7();
  const good = hasBroken ? endpoints - 2 : endpoints;
  const before = await usage();
  const sent = await send(perS, endpoints);
  const expected = Math.floor((sent * good) / endpoints);
  await until("deliveries", async () => delays.length >= expected * 0.999);
  const after = await usage();
  const [p50, p99, most] = [0.5, 0.99, 1].map((share) => rounded(quantile(delays, share)));
  const cpu = Object.entries(after)
    .filter(([part]) => part !== "failed")
    .map(
      ([part, us]) => `${part} ${rounded((us - (before[part as keyof typeof before] ?? 0)) / delays.length)}`,
    );
  const failed = hasBroken ? `; ${after.failed - before.failed} failed attempts in all` : "";
  console.log(
    `${name}: ${delays.length} of ${expected}, p50 ${p50}, p99 ${p99}, at most ${most}; ${cpu.join(", ")}${failed}`,
  );
  await Promise.all(ids.map((endpointId) => call(client.deleteEndpoint, { endpointId })));
  await until("none is served", async () => (await metric("gatehouse_webhooks_served")) === 0);
}

function brokenPort(index: number): number | undefined {
  if (index === 0) return 1;
  return index === 1 ? portOf(silent) : undefined;
}

async function make(index: number, port = portOf(server)): Promise<string> {
  const url = `http://127.0.0.1:${port}/`;
  const types = [`gatehouse.bench.${index}.v1`];
  const wanted = { name: `bench ${index}`, url, types, ownerUserId: "", temporary: false };
  return (await call(client.createEndpoint, wanted)).endpoint?.id ?? "";
}

function call<Q, R>(method: Parameters<typeof callUnary<Q, R>>[1], request: Q): Promise<R> {
  return callUnary(client, method, request, newCallContext({ budgetMs: 5_000 }));
}

/** At a fixed rate, each about somebody else. @returns how many. */
async function send(perS: number, endpoints: number): Promise<number> {
  const open: Promise<void>[] = [];
  const startedMs = performance.now();
  while (open.length < perS * SECONDS) {
    const event: AuditEvent = {
      ...{
        kind: "event",
        id: uuidv7(),
        occurredAt: new Date(),
        actor: {},
        action: `bench.${open.length % endpoints}`,
      },
      ...{
        resource: uuidv7(),
        clientIp: "",
        userAgent: "",
        requestId: counted,
        traceId: "",
        outcome: "success",
      },
    };
    open.push(recorder.recordEvent(event, Date.now() + PATIENCE_MS));
    const dueMs = startedMs + (open.length * 1_000) / perS;
    await sleep(Math.max(0, dueMs - performance.now()));
  }
  await Promise.all(open);
  return open.length;
}

async function metric(name: string): Promise<number> {
  const lines = (await events.metrics()).split("\n").filter((line) => line.startsWith(name));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

/** CPU until now, in µs. */
async function usage() {
  const attempts = await metric("gatehouse_webhook_attempts_total");
  const delivered = await metric('gatehouse_webhook_attempts_total{result="delivered"');
  return {
    "event-service": cpuUs(events.child.pid ?? 0),
    "its PostgreSQL": await serverCpuUs(join(bench.folder, "postgres")),
    "audit-service": cpuUs(audit.child.pid ?? 0),
    failed: attempts - delivered,
  };
}

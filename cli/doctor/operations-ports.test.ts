import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { startOperationsServer } from "#kit/process/operations-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { createBackend } from "../backend.ts";
import { checkOperationsPorts } from "./operations-ports.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

const placeOf = (server: Server) => `127.0.0.1:${(server.address() as AddressInfo).port}`;

interface Process {
  reasons?: string[];
  /** Of the database, as the process sees it: positive when it is ahead. */
  skewS?: number;
  /** By caller: the variable that could name it. */
  refused?: Record<string, string>;
}

async function startProcess(
  name: string,
  { reasons = [], skewS, refused = {} }: Process = {},
): Promise<string> {
  const metrics = createMetrics(name);
  metrics.gauge("gatehouse_draining", "As every process has some metric.").set(0);
  if (skewS !== undefined) metrics.gauge("gatehouse_database_clock_skew_seconds", "…").set(skewS);
  const refusals = metrics.counter("gatehouse_rpc_callers_refused_total", "…", ["caller", "setting"]);
  for (const [caller, setting] of Object.entries(refused)) refusals.inc({ caller, setting });
  const server = await startOperationsServer("127.0.0.1:0", {
    lifecycle: { unreadyReasons: async () => reasons },
    metrics,
    logger: pino({ level: "silent" }),
  });
  servers.push(server);
  return placeOf(server);
}

/** A version that this one knows only by its answers. */
async function startOther(name: string, version: string): Promise<string> {
  const server = createServer((request, response) => {
    if (request.url === "/metrics") return response.end(`up{service="${name}"} 1\n`);
    response.end(JSON.stringify({ version, revision: "abc", node: "24.9.0" }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  servers.push(server);
  return placeOf(server);
}

async function check(environment: Record<string, string>, now: () => number = Date.now) {
  const backend = createBackend({ values: new Map(), environment, defaultHome: "/no such home" });
  const findings = await checkOperationsPorts(backend, now);
  return findings
    .filter(({ result }) => result !== "ok")
    .map(({ result, area, subject, found }) => `${result} ${area} ${subject}: ${found}`);
}

const FIVE = {
  GATEWAY_OPERATIONS_ADDRESS: "gateway",
  IDENTITY_OPERATIONS_ADDRESS: "identity-service",
  TOKEN_OPERATIONS_ADDRESS: "token-service",
  AUDIT_OPERATIONS_ADDRESS: "audit-service",
  EVENT_OPERATIONS_ADDRESS: "event-service",
} as const;

async function startFive(of: (name: string) => Process = () => ({})): Promise<Record<string, string>> {
  const started = Object.entries(FIVE).map(async ([variable, name]) => [
    variable,
    await startProcess(name, of(name)),
  ]);
  return Object.fromEntries(await Promise.all(started));
}

test("five processes that are well are found so", async () => {
  expect(await check(await startFive())).toEqual([]);
});

test("a service that token-service does not know is named, with the variable; a person is not", async () => {
  const refused = { "my-shop": "VERIFIERS", "operator:ada": "VERIFIERS", envoy: "" };
  const five = await startFive((name) => (name === "token-service" ? { refused } : {}));
  const backend = createBackend({ values: new Map(), environment: five, defaultHome: "/no such home" });
  const findings = await checkOperationsPorts(backend, Date.now);
  expect(findings.filter(({ result }) => result !== "ok")).toMatchObject([
    {
      result: "warning",
      area: "permission",
      subject: "token-service",
      found: "it has refused my-shop",
      action: "If it is yours, add its name to VERIFIERS of token-service",
    },
  ]);
});

test("a clock of ours that is wrong, and one of a database, as its process sees it", async () => {
  const five = await startFive((name) => (name === "token-service" ? { skewS: 3 } : { skewS: 0.1 }));
  expect(await check(five)).toEqual(["failed clock token-service: at least 3.0 s behind its database"]);
  const wrong = await check(five, () => Date.now() + 60_000);
  expect(wrong).toHaveLength(6);
  expect(wrong).toContainEqual(
    expect.stringMatching(/^failed clock gateway: at least \d\d\.\d s behind this machine$/),
  );
});

test("several versions are reported, and who has which", async () => {
  const five = await startFive();
  const old = { ...five, AUDIT_OPERATIONS_ADDRESS: await startOther("audit-service", "0.0.9") };
  expect(await check(old)).toEqual([
    expect.stringMatching(/^warning version all processes: several: .*; 0\.0\.9 \(abc\): audit-service$/),
  ]);
});

test("another process at the address, one that is not ready, one that is away and one that is not named", async () => {
  const { GATEWAY_OPERATIONS_ADDRESS: place = "" } = await startFive();
  const found = await check({
    GATEWAY_OPERATIONS_ADDRESS: await startProcess("gateway", { reasons: ["audit spool: full"] }),
    IDENTITY_OPERATIONS_ADDRESS: place,
    TOKEN_OPERATIONS_ADDRESS: "127.0.0.1:9",
  });
  expect(found).toEqual([
    "warning port audit-service: not checked: AUDIT_OPERATIONS_ADDRESS is not set",
    "warning port event-service: not checked: EVENT_OPERATIONS_ADDRESS is not set",
    expect.stringMatching(/^failed port gateway: not ready, says 127\.0\.0\.1:\d+: audit spool: full$/),
    `failed port identity-service: gateway answers at ${place}`,
    expect.stringMatching(/^failed port token-service: 127\.0\.0\.1:9 cannot be reached \(.*ECONNREFUSED/),
    "warning version token-service: not checked: 127.0.0.1:9 does not answer",
    "warning clock token-service: not checked: 127.0.0.1:9 does not answer",
  ]);
});

test("without any address it says which variables are missing", async () => {
  const found = await check({});
  expect(found).toHaveLength(3);
  expect(found[0]).toMatch(/^warning port all processes: not checked: .*GATEWAY_OPERATIONS_ADDRESS/);
});

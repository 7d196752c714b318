import { once } from "node:events";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { databaseOf, SERVICE_DATABASES, type ServiceName } from "#deploy/service-databases.ts";
import {
  findRedisProgram,
  HOW_TO_GET_REDIS_PROGRAM,
  startRedis,
  type TestRedis,
} from "#tests/support/database/redis.ts";
import { addAuditLogs } from "#tests/support/system/audit-logs.ts";
import { type CrashingSystem, startCrashingSystem } from "#tests/support/system/crashing-system.ts";
import { type EdgeState, type FaultyEdge, openEdge } from "#tests/support/system/faulty-edge.ts";
import { canMount, HOW_TO_MOUNT, openSmallDisk, type SmallDisk } from "#tests/support/system/small-disk.ts";
import {
  findFaketime,
  HOW_TO_GET_FAKETIME,
  openSteppingClock,
  type SteppingClock,
} from "#tests/support/system/stepping-clock.ts";
import { ADMIN, type PortName } from "#tests/support/system/system.ts";
import {
  ALL_FAULTS,
  CALLS,
  type CallName,
  chosen,
  type Fault,
  HEALTHY,
  type Part,
  REPEATED,
  type Row,
} from "./contract.ts";
import { type Asking, type Caller, callerAt, newPerson, tokensOf } from "./people.ts";

/** Until the answers are those of the fault, or of health again. The machine may be busy: nothing here is about time. */
const SETTLE_MS = 90_000;
const POLL_MS = 100;
const REDIS_USERS = ["gateway", "identity-service", "token-service"];
/** More than any room for clocks, and less than the life of an access token. */
const CLOCK_STEPS_S: Record<string, number> = { "clock ahead": 600, "clock behind": -600 };

let system: CrashingSystem;
let redis: TestRedis | undefined;
/** By `caller>callee`. */
const edges = new Map<string, FaultyEdge>();
/** By process. */
const clocks = new Map<string, SteppingClock>();
/** The gateway's spool is there. */
let disk: SmallDisk | undefined;
const upstream = createServer((request, response) => {
  request.resume().on("end", () => {
    response
      .writeHead(request.method === "POST" ? 201 : 200, { "content-type": "application/json" })
      .end("{}");
  });
});
let call: Caller;
let admin: string;
let twoLogs: Promise<void> | undefined;
const recoveries: string[] = [];

beforeAll(async () => {
  const program = findRedisProgram();
  if (program === undefined) process.stdout.write(HOW_TO_GET_REDIS_PROGRAM);
  else redis = await startRedis(program);
  if (findFaketime() === undefined) process.stdout.write(HOW_TO_GET_FAKETIME);
  disk = await openSmallDisk();
  if (disk === undefined) process.stdout.write(HOW_TO_MOUNT);
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  system = await startCrashingSystem(async ({ name, environment }) => ({
    CALL_BUDGET_MS: name === "gateway" ? "4000" : "",
    ...(await detoured(name, environment)),
  }));
  const { port } = upstream.address() as { port: number };
  edges.set("upstream", await openEdge(port, system.ports.PAYMENTS_PORT));
  call = callerAt(system.ports.GATEWAY_PORT);
  admin = (await tokensOf(await call("127.0.0.1", "POST", "/auth/login", { body: ADMIN }))).accessToken;
});
afterAll(async () => {
  process.stdout.write(`ms until everything was answered as before:\n${recoveries.join("\n")}\n`);
  await system?.remove();
  await Promise.all([...edges.values()].map((edge) => edge.close()));
  await Promise.all([...clocks.values()].map((clock) => clock.remove()));
  await disk?.remove();
  await redis?.remove();
  upstream.closeAllConnections();
  upstream.close();
});

/** Leads what a process calls over edges that can be disturbed. */
async function detoured(
  caller: string,
  environment: Record<string, string>,
): Promise<Record<string, string>> {
  const changed: Record<string, string> = {};
  const library = findFaketime();
  if (library !== undefined) {
    const clock = await openSteppingClock(library);
    clocks.set(caller, clock);
    Object.assign(changed, clock.environment);
  }
  if (disk !== undefined && environment.AUDIT_SPOOL_DIRECTORY !== undefined)
    changed.AUDIT_SPOOL_DIRECTORY = `${disk.path}/spool`;
  const over = async (callee: string, port: number) => {
    const edge = await openEdge(port);
    edges.set(`${caller}>${callee}`, edge);
    return edge.port;
  };
  for (const { service } of SERVICE_DATABASES) {
    const variable = `${service.replace("-", "_").toUpperCase()}_ADDRESS`;
    const address = environment[variable];
    if (address !== undefined)
      changed[variable] = `127.0.0.1:${await over(service, Number(address.split(":")[1]))}`;
  }
  const urls: Record<string, string | undefined> = {
    DATABASE_URL: environment.DATABASE_URL,
    SMTP_URL: environment.SMTP_URL,
    REDIS_URL: REDIS_USERS.includes(caller) ? redis?.url : undefined,
  };
  for (const [variable, text] of Object.entries(urls)) {
    if (text === undefined) continue;
    const url = new URL(text);
    url.port = String(await over(variable, Number(url.port)));
    changed[variable] = url.href;
  }
  return changed;
}

/** Asks again until the answers are as wanted. Meanwhile each must be as before or as after: never a third. */
async function untilAnswered(
  ask: Asking,
  before: Row,
  after: Row,
  names: readonly CallName[] = REPEATED,
): Promise<void> {
  const wanted = chosen(after, names);
  const deadlineMs = performance.now() + SETTLE_MS;
  for (;;) {
    const answers = await ask(names);
    for (const name of names) expect([before[name], after[name]], CALLS[name]).toContain(answers[name]);
    if (names.every((name) => answers[name] === wanted[name])) return;
    if (performance.now() > deadlineMs) expect(answers).toEqual(wanted);
    await sleep(POLL_MS);
  }
}

/** @returns what ends it. */
async function make({ part, what }: Fault, ask: Asking): Promise<() => Promise<unknown> | unknown> {
  const edgesTo = (callee: string, ...callers: string[]) =>
    [...edges]
      .filter(
        ([name]) =>
          name === callee || (name.endsWith(`>${callee}`) && callers.includes(name.split(">")[0] ?? "")),
      )
      .map(([, edge]) => edge);
  const disturb = async (found: FaultyEdge[], state: EdgeState) => {
    expect(found).not.toEqual([]);
    await Promise.all(found.map((edge) => edge.set(state)));
    return () => Promise.all(found.map((edge) => edge.set("open")));
  };
  const state = ({ refused: "refused", "behind a silent network": "silent", slow: "slow" } as const)[what];

  if (part === "PostgreSQL") {
    await system.kill("postgres");
    return () => system.start("postgres");
  }
  if (part === "Redis") {
    if (state !== undefined) return disturb(edgesTo("REDIS_URL", ...REDIS_USERS), state);
    await redis?.kill();
    await redis?.restart();
    return () => undefined;
  }
  if (part === "the mail server") return disturb(edgesTo("SMTP_URL", "identity-service"), state ?? "open");
  if (part === "an upstream") return disturb(edgesTo("upstream"), state ?? "open");

  if (part === "one of two audit logs") {
    twoLogs ??= useTwoLogs();
    await twoLogs;
    return disturb(edgesTo("DATABASE_URL", "audit-service"), state ?? "open");
  }

  const owner = SERVICE_DATABASES.find(({ database }) => part === `${database}'s database`)?.service;
  if (owner !== undefined) {
    if (state !== undefined) return disturb(edgesTo("DATABASE_URL", owner), state);
    return spoilDatabase(owner, what, ask);
  }
  if (CLOCK_STEPS_S[what] !== undefined) return stepClock(part, CLOCK_STEPS_S[what]);
  if (part === "gateway") return fillDisk(what);
  const service = part as ServiceName;
  if (what === "killed") {
    await system.kill(service);
    return () => system.start(service);
  }
  if (what === "frozen") {
    system.freeze(service);
    return () => system.thaw(service);
  }
  const other = service === "audit-service" ? system.ports.TOKEN_PORT : system.ports.AUDIT_PORT;
  // Of the gateway, and of nobody else: so the other services are as healthy as ever.
  return disturb(edgesTo(service, "gateway"), state ?? { port: other });
}

/** From now on: these faults are the last. The edge of audit-service's database leads to log 0 alone. */
async function useTwoLogs(): Promise<void> {
  const file = await addAuditLogs(system, [1]);
  for (const name of ["audit-service", "gateway"] as const) {
    system.configure(name, { LOGS_FILE: file, AUDIT_LOGS: "0,1" });
    await system.kill(name);
    await system.start(name);
  }
  const readLog = async () => (await call("127.0.0.1", "GET", "/admin/audit", { token: admin })).text();
  await expect.poll(readLog, { timeout: SETTLE_MS }).toContain('"log":1');
}

/** Resolves when the process has seen it. */
async function stepClock(part: Part, seconds: number): Promise<() => Promise<void>> {
  const [name = ""] = part.split("-");
  const port = system.ports[`${name.toUpperCase()}_OPERATIONS_PORT` as PortName];
  const set = async (offset: number) => {
    await clocks.get(part)?.set(offset);
    const ahead = async () => {
      const { headers } = await fetch(`http://127.0.0.1:${port}/healthz`);
      return (Date.parse(headers.get("date") ?? "") - Date.now()) / 1_000;
    };
    await expect
      .poll(async () => Math.abs((await ahead()) - offset), { timeout: SETTLE_MS })
      .toBeLessThan(Math.abs(seconds) / 2);
  };
  await set(seconds);
  return () => set(0);
}

async function fillDisk(what: string): Promise<() => Promise<void>> {
  await disk?.fill();
  const isAlone = what === "full disk";
  if (!isAlone) {
    await system.kill("audit-service");
    // The first entry that finds no room notifies the gateway, which then is not ready.
    const ready = `http://127.0.0.1:${system.ports.GATEWAY_OPERATIONS_PORT}/readyz`;
    const isFailing = async () => (await (await fetch(ready)).text()).includes("audit spool");
    const hasNoRoom = async () => {
      await call("127.0.0.1", "POST", "/auth/login", { body: ADMIN });
      if (!(await isFailing())) return false;
      // What the spool has sent before, or cut off, left room.
      await disk?.fill();
      return isFailing();
    };
    await expect.poll(hasNoRoom, { timeout: SETTLE_MS }).toBe(true);
  }
  return async () => {
    if (!isAlone) {
      // First of all: a spool that works again, and no way to audit-service, would be another fault.
      await system.start("audit-service");
      const readLog = () => call("127.0.0.1", "GET", "/admin/audit?limit=1", { token: admin });
      await expect.poll(async () => (await readLog()).status, { timeout: SETTLE_MS }).toBe(200);
    }
    await disk?.free();
  };
}

/** By its superuser. The service's connections are ended, so that it meets the change at once. */
async function spoilDatabase(owner: ServiceName, what: string, ask: Asking): Promise<() => Promise<void>> {
  const { database, serviceRole } = databaseOf(owner);
  const change = async (statement: string) => {
    const sql = connectTo(system.server(), "postgres");
    try {
      await sql.unsafe(statement);
      await sql`
        select pg_terminate_backend(pid, ${SETTLE_MS}) from pg_stat_activity where usename = ${serviceRole}`;
    } finally {
      await sql.end();
    }
    // A statement on a connection that has just ended is 503, and no answer of a database that can be read.
    if (what === "read-only")
      await expect.poll(() => ask(REPEATED), { timeout: SETTLE_MS }).toEqual(chosen(HEALTHY, REPEATED));
  };
  const [spoil, mend] =
    what === "read-only"
      ? [
          `alter database "${database}" set default_transaction_read_only = on`,
          `alter database "${database}" reset default_transaction_read_only`,
        ]
      : [`alter role "${serviceRole}" connection limit 0`, `alter role "${serviceRole}" connection limit -1`];
  await change(spoil);
  return () => change(mend);
}

const isPossible = ({ part, what }: Fault) => {
  // trials/failover/redis.trial.test.ts
  if (part === "Redis under Sentinel") return false;
  if (part === "Redis") return findRedisProgram() !== undefined;
  if (what in CLOCK_STEPS_S) return findFaketime() !== undefined;
  return part !== "gateway" || canMount();
};

describe("each fault has the answers of its row", () => {
  const faults = ALL_FAULTS.map((fault, index) => ({
    ...fault,
    index,
    name: `${fault.part}: ${fault.what}`,
  }));
  test.each(faults.filter(isPossible))("$name", async (fault) => {
    const { expected } = fault;
    const ask = await newPerson(call, admin, fault.index);
    await untilAnswered(ask, HEALTHY, HEALTHY);
    const mend = await make(fault, ask);
    try {
      await untilAnswered(ask, HEALTHY, expected);
      const single = (Object.keys(CALLS) as CallName[]).filter(
        (name) => !REPEATED.some((one) => one === name),
      );
      expect(await ask(single)).toEqual(chosen(expected, single));
      // It lasts: nothing comes back by itself.
      expect(await ask(REPEATED)).toEqual(chosen(expected, REPEATED));
    } finally {
      await mend();
    }
    const mendedMs = performance.now();
    await untilAnswered(ask, expected, HEALTHY);
    await untilAnswered(ask, expected, HEALTHY, ["login", "pay"]);
    // The tokens above are in the gateway's memory. A new one needs a call of token-service, whose channel may still wait
    // for up to a second before it connects again.
    const newcomer = await newPerson(call, admin, 100 + fault.index);
    await untilAnswered(newcomer, { ...HEALTHY, known: "503 service_unavailable" }, HEALTHY, ["known"]);
    recoveries.push(`${String(Math.round(performance.now() - mendedMs)).padStart(6)}  ${fault.name}`);
    expect(system.ended).toEqual([]);
  });
});

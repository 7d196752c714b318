import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Receiver, startReceiver } from "#event-service/delivery/replica.fixture.ts";
import { startTestSmtp, type TestSmtp } from "#identity-service/testing/test-smtp.ts";
import {
  findRedisProgram,
  HOW_TO_GET_REDIS_PROGRAM,
  startRedis,
  type TestRedis,
} from "#tests/support/database/redis.ts";
import { addAuditLogs } from "#tests/support/system/audit-logs.ts";
import { type CrashingSystem, startCrashingSystem } from "#tests/support/system/crashing-system.ts";
import { type FaultyEdge, openEdge } from "#tests/support/system/faulty-edge.ts";
import { say } from "../support.ts";
import { haunt, keepApproving, keepForgetting, keepProving, keepReturning, keepSessions } from "./clients.ts";
import type { Call, CallKind, History } from "./history.ts";
import { readHistory } from "./history.ts";
import { carryOut, type MadeFault, planFaults, planText, SHORT_SECONDS, SHORT_SEED } from "./plan.ts";
import { type Circumstances, report } from "./report.ts";
import { judge, RULES, type RuleName } from "./rules.ts";
import { newWorld, routesTo, startUpstream, UNLIMITED, UNTHROTTLED } from "./system-under-load.ts";
import { registerWebhook } from "./webhooks.ts";

/** `chaos-short` is always the same; `chaos` makes ten minutes of faults by a new seed. A seed that failed can be given again. */
const SECONDS = Number(process.env.CHAOS_SECONDS ?? SHORT_SECONDS);
const SEED = Number(process.env.CHAOS_SEED ?? SHORT_SEED);
const RUN = `CHAOS_SEED=${SEED} CHAOS_SECONDS=${SECONDS}`;
/** How many calls of each kind succeed at least, whatever the seed: the run goes on until then. */
const ENOUGH: Partial<Record<CallKind, number>> = {
  login: 10,
  logout: 3,
  refresh: 20,
  account: 10,
  profile: 10,
  read: 50,
  pay: 10,
  reset: 2,
  approve: 2,
  approved: 2,
  verify: 2,
  return: 2,
  exchange: 2,
};
const LOGS = [0, 1];
/** A machine with ten times the work of its cores needs minutes. */
const PATIENCE_MS = 300_000;
let system: CrashingSystem;
let redis: TestRedis | undefined;
let smtp: TestSmtp;
let upstream: Awaited<ReturnType<typeof startUpstream>>;
/** Of webhooks, by the edges that lead to them. */
const receivers = new Map<string, Receiver>();
const edges = new Map<string, FaultyEdge>();
let history: History;
let verdict: ReturnType<typeof judge>;
let faults: MadeFault[];
let logs: Circumstances["logs"];
let calls: Call[] = [];

beforeAll(
  async () => {
    const plan = planFaults(SEED, SECONDS);
    say(`chaos: ${RUN}, ${plan.length} faults\n${planText(plan)}`);
    const program = findRedisProgram();
    if (program === undefined) say(HOW_TO_GET_REDIS_PROGRAM);
    else redis = await startRedis(program);
    smtp = await startTestSmtp();
    upstream = await startUpstream();
    system = await startCrashingSystem(({ name, environment }) => detoured(name, environment), {
      twins: true,
      provider: true,
    });
    await useSeveralLogs();
    const webhooks = await Promise.all([...receivers].map(([edge, receiver]) => register(edge, receiver)));
    const end = new AbortController();
    const world = newWorld(system, { urls: system.gateways, seed: SEED + 1, signal: end.signal, smtp });
    calls = world.calls;
    const clients = [
      ...Array.from({ length: 5 }, () => keepSessions(world)),
      ...Array.from({ length: 2 }, () => keepApproving(world)),
      keepForgetting(world),
      keepProving(world),
      keepReturning(world),
      haunt(world),
    ];
    await untilEach(1);
    faults = await carryOut(plan, { system, edges, redis });
    // Nothing is started again but what the plan has killed.
    await system.untilReady();
    await untilEach(ENOUGH, calls.length);
    end.abort();
    await Promise.all(clients);
    history = await readHistory(system, { calls, received: upstream.received, webhooks, logs: LOGS });
    verdict = judge(history);
    logs = await readLogs();
    await keep();
    const answered = calls.filter(({ answer }) => answer !== undefined).length;
    say(
      `chaos: ${calls.length} calls, ${answered} answered, ${calls.filter(isSuccess).length} succeeded; ` +
        `${upstream.received.length} reached the upstream; ${history.entries.length} entries; ` +
        `${webhooks.map(({ received }) => received.length).join(" and ")} attempts at the webhooks`,
    );
  },
  1_600_000 + SECONDS * 3_000,
);

afterAll(async () => {
  await keepLogs();
  await system?.remove();
  await Promise.all([...edges.values()].map((edge) => edge.close()));
  await smtp?.close();
  await redis?.remove();
  upstream?.close();
  for (const receiver of receivers.values()) receiver.close();
});

test.each(Object.keys(RULES) as RuleName[])("%s", (name) => {
  const broken = verdict[name];
  const circumstances = { seed: SEED, seconds: SECONDS, faults, logs };
  if (broken.length > 0) expect.fail(`"${name}" was broken ${report(broken, history, circumstances)}`);
});

test("no process ended by itself", () => {
  expect(system.ended, RUN).toEqual([]);
});

test("the clients got through, and felt the faults", () => {
  const counts = Map.groupBy(calls, ({ kind }) => kind);
  const rows = [...counts].map(([kind, all]) => {
    const statuses = Map.groupBy(all, ({ answer }) =>
      `${answer?.status ?? "none"} ${answer?.code ?? ""}`.trim(),
    );
    return `  ${kind}: ${[...statuses].map(([status, some]) => `${some.length} × ${status}`).join(", ")}`;
  });
  say(rows.join("\n"));
  expect(
    calls.some(({ answer }) => (answer?.status ?? 503) >= 500),
    RUN,
  ).toBe(true);
  const refused = calls.filter(({ answer }) => answer?.code === "token_invalid");
  expect(refused.length, RUN).toBeGreaterThan(0);
});

/** For whoever has to find out: `CHAOS_KEEP` names a folder, which gets the calls, the entries and the logs. */
async function keep(): Promise<void> {
  const folder = process.env.CHAOS_KEEP;
  if (folder === undefined) return;
  const plain = { ...history, reasons: [...history.reasons], faults, startedAt: performance.timeOrigin };
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "history.json"), JSON.stringify(plain));
}

/** Also of a run that came to no end. */
async function keepLogs(): Promise<void> {
  const folder = process.env.CHAOS_KEEP;
  if (folder !== undefined && system !== undefined)
    await cp(join(system.home, "logs"), folder, { recursive: true });
}

async function readLogs(): Promise<Circumstances["logs"]> {
  const folder = join(system.home, "logs");
  const names = await readdir(folder);
  const read = names.map(async (name) => {
    const text = await readFile(join(folder, name), "utf8");
    return [name.replace(/\.log$/, ""), text.split("\n")] as const;
  });
  return new Map(await Promise.all(read));
}

const isSuccess = ({ answer }: Call) => (answer?.status ?? 500) < 400 && answer?.code === undefined;

/** Until as many calls of each kind have succeeded, of those after the first `from`. */
async function untilEach(wanted: number | Partial<Record<CallKind, number>>, from = 0): Promise<void> {
  const missing = () => {
    const counts = Map.groupBy(calls.slice(from).filter(isSuccess), ({ kind }) => kind);
    return (Object.keys(ENOUGH) as CallKind[]).filter((kind) => {
      const count = typeof wanted === "number" ? wanted : (wanted[kind] ?? 0);
      return (counts.get(kind)?.length ?? 0) < count;
    });
  };
  for (const endMs = performance.now() + PATIENCE_MS; missing().length > 0; await sleep(100)) {
    if (performance.now() > endMs) throw new Error(`${RUN}: too few calls succeed: ${missing().join(", ")}`);
  }
}

/** The edges of the database lead to log 0 alone, so that one log can be away. */
async function useSeveralLogs(): Promise<void> {
  const file = await addAuditLogs(system, LOGS.slice(1));
  for (const name of ["audit-service", "gateway"] as const) {
    for (const replica of [name, `${name}-2`] as const) {
      system.configure(replica, { LOGS_FILE: file, AUDIT_LOGS: LOGS.join() });
      await system.kill(replica);
      await system.start(replica);
    }
  }
}

function register(edge: string, receiver: Receiver) {
  const url = new URL(receiver.url);
  url.port = String(edges.get(edge)?.port);
  return registerWebhook(system, { receiver, url: url.href, logs: LOGS });
}

/** Leads everything that a process calls over an edge. */
async function detoured(name: string, environment: Record<string, string>): Promise<Record<string, string>> {
  const changed: Record<string, string> = {
    ...(name.startsWith("gateway") ? { CALL_BUDGET_MS: "3000", RATE_LIMITS: UNLIMITED } : {}),
    ...(name.startsWith("identity") ? UNTHROTTLED : {}),
  };
  const over = async (callee: string, port: number) => {
    const edge = await openEdge(port);
    edges.set(`${name}>${callee}`, edge);
    return edge.port;
  };
  for (const service of ["identity-service", "token-service", "audit-service"]) {
    const variable = `${service.replace("-", "_").toUpperCase()}_ADDRESS`;
    const port = environment[variable]?.split(":")[1];
    if (port !== undefined) changed[variable] = `127.0.0.1:${await over(service, Number(port))}`;
  }
  if (environment.DATABASE_URL !== undefined) {
    const url = new URL(environment.DATABASE_URL);
    url.port = String(await over("database", Number(url.port)));
    changed.DATABASE_URL = url.href;
  }
  if (redis !== undefined && !/^(audit|event)/.test(name))
    changed.REDIS_URL = `redis://127.0.0.1:${await over("redis", redis.port)}`;
  if (environment.SMTP_URL !== undefined)
    changed.SMTP_URL = `smtp://127.0.0.1:${await over("mail", smtp.port)}`;
  if (name.startsWith("event")) {
    const receiver = await startReceiver();
    await over("receiver", Number(new URL(receiver.url).port));
    receivers.set(`${name}>receiver`, receiver);
  }
  if (environment.ROUTES_FILE !== undefined) {
    changed.ROUTES_FILE = join(environment.ROUTES_FILE, "..", `routes-of-${name}.yaml`);
    await writeFile(changed.ROUTES_FILE, routesTo(await over("upstream", upstream.port)));
  }
  return changed;
}

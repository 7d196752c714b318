import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestSmtp, type TestSmtp } from "../../identity-service/testing/test-smtp.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import { seededRandom } from "../support/crash-clients.ts";
import { type CrashingSystem, startCrashingSystem } from "../support/crashing-system.ts";
import { type FaultyEdge, openEdge } from "../support/faulty-edge.ts";
import { plainBrowser } from "../support/plain-browser.ts";
import { findRedisProgram, HOW_TO_GET_REDIS_PROGRAM, startRedis, type TestRedis } from "../support/redis.ts";
import { databaseOfSystem } from "../support/system-database.ts";
import {
  haunt,
  keepApproving,
  keepForgetting,
  keepProving,
  keepReturning,
  keepSessions,
  type World,
} from "./chaos/clients.ts";
import { carryOut } from "./chaos/disturb.ts";
import type { Approval, Call, CallKind, Entry, History } from "./chaos/history.ts";
import { planFaults, planText } from "./chaos/plan.ts";
import { judge, RULES, type RuleName } from "./chaos/rules.ts";
import { startUpstream } from "./chaos/upstream.ts";

/** `npm run test:chaos` makes ten minutes of faults; a seed that failed can be given again. */
const SECONDS = Number(process.env.CHAOS_SECONDS ?? 20);
const SEED = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000);
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
const PATIENCE_MS = 120_000;
const UNLIMITED = [
  ...["login", "link", "provider", "refresh", "logout", "account", "unknown"].map(
    (name) => `${name}.address`,
  ),
  ...["logout", "account"].map((name) => `${name}.user`),
  ...["login", "link"].map((name) => `${name}.total`),
]
  .map((name) => `${name}=1000000/60`)
  .join(",");
const PLENTY = JSON.stringify(
  Object.fromEntries(
    ["perUser", "perAddress", "total"].map((scope) => [scope, { calls: 1_000_000, perSeconds: 60 }]),
  ),
);

let system: CrashingSystem;
let redis: TestRedis | undefined;
let smtp: TestSmtp;
let upstream: Awaited<ReturnType<typeof startUpstream>>;
const edges = new Map<string, FaultyEdge>();
let history: History;
let verdict: ReturnType<typeof judge>;
const calls: Call[] = [];

beforeAll(
  async () => {
    const plan = planFaults(SEED, SECONDS);
    say(`chaos: CHAOS_SEED=${SEED} CHAOS_SECONDS=${SECONDS}, ${plan.length} faults\n${planText(plan)}`);
    const program = findRedisProgram();
    if (program === undefined) say(HOW_TO_GET_REDIS_PROGRAM);
    else redis = await startRedis(program);
    smtp = await startTestSmtp();
    upstream = await startUpstream();
    system = await startCrashingSystem(({ name, environment }) => detoured(name, environment), {
      twins: true,
      provider: true,
    });
    const end = new AbortController();
    const world = newWorld(end.signal);
    const clients = [
      ...Array.from({ length: 5 }, () => keepSessions(world)),
      ...Array.from({ length: 2 }, () => keepApproving(world)),
      keepForgetting(world),
      keepProving(world),
      keepReturning(world),
      haunt(world),
    ];
    await untilEach(1);
    await carryOut(plan, { system, edges, redis });
    // Nothing is started again but what the plan has killed.
    await system.untilReady();
    await untilEach(ENOUGH, calls.length);
    end.abort();
    await Promise.all(clients);
    history = await readHistory();
    verdict = judge(history);
    await keep();
    const answered = calls.filter(({ answer }) => answer !== undefined).length;
    say(
      `chaos: ${calls.length} calls, ${answered} answered, ${calls.filter(isSuccess).length} succeeded; ` +
        `${upstream.received.length} reached the upstream; ${history.entries.length} entries`,
    );
  },
  400_000 + SECONDS * 3_000,
);

afterAll(async () => {
  await system?.remove();
  await Promise.all([...edges.values()].map((edge) => edge.close()));
  await smtp?.close();
  await redis?.remove();
  upstream?.close();
});

test.each(Object.keys(RULES) as RuleName[])("%s", (name) => {
  expect(verdict[name]).toEqual([]);
});

test("no process ended by itself", () => {
  expect(system.ended).toEqual([]);
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
  expect(calls.some(({ answer }) => (answer?.status ?? 503) >= 500)).toBe(true);
  const refused = calls.filter(({ answer }) => answer?.code === "token_invalid");
  expect(refused.length).toBeGreaterThan(0);
});

/** For whoever has to find out: `CHAOS_KEEP` names a folder, which gets the calls, the entries and the logs. */
async function keep(): Promise<void> {
  const folder = process.env.CHAOS_KEEP;
  if (folder === undefined) return;
  await cp(join(system.home, "logs"), folder, { recursive: true });
  const plain = { ...history, reasons: [...history.reasons], startedAt: performance.timeOrigin };
  await writeFile(join(folder, "history.json"), JSON.stringify(plain));
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
    if (performance.now() > endMs) throw new Error(`too few calls succeed: ${missing().join(", ")}`);
  }
}

function newWorld(signal: AbortSignal): World {
  const tokens = new Map<string, string>();
  smtp.onMail = async ({ to, raw }) => {
    const [, token] = /reset-password\?token=(?:3D)?([\w-]+)/.exec(raw.replaceAll("=3D", "=")) ?? [];
    if (token !== undefined) tokens.set(to[0] ?? "", token);
  };
  return {
    urls: system.gateways,
    random: seededRandom(SEED + 1),
    calls,
    signal,
    resetToken: (email) => tokens.get(email),
    async proveAddress(userId) {
      await using database = await databaseOfSystem(system, "identity");
      await database.sql`
        update users set email_verified = true, credentials_proven_email = email, credentials_proven_at = created_at
        where id = ${userId}`;
    },
    logInAtProvider,
    ghosts: [],
  };
}

async function logInAtProvider(start: URL): Promise<URL> {
  const browser = plainBrowser();
  const page = (await browser(start.href)).next;
  await browser(page);
  const resumed = (await browser(`${page}/grace`, "POST")).next;
  return new URL((await browser(resumed)).next);
}

/** Leads everything that a process calls over an edge. */
async function detoured(name: string, environment: Record<string, string>): Promise<Record<string, string>> {
  const changed: Record<string, string> = {
    ...(name.startsWith("gateway") ? { CALL_BUDGET_MS: "3000", RATE_LIMITS: UNLIMITED } : {}),
    ...(name.startsWith("identity")
      ? { THROTTLE_CALL_NETWORK_BUDGET: "1000000", THROTTLE_NETWORK_BUDGET: "1000000" }
      : {}),
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
  if (redis !== undefined && !name.startsWith("audit"))
    changed.REDIS_URL = `redis://127.0.0.1:${await over("redis", redis.port)}`;
  if (environment.SMTP_URL !== undefined)
    changed.SMTP_URL = `smtp://127.0.0.1:${await over("mail", smtp.port)}`;
  if (environment.ROUTES_FILE !== undefined) {
    changed.ROUTES_FILE = join(environment.ROUTES_FILE, "..", `routes-of-${name}.yaml`);
    await writeFile(changed.ROUTES_FILE, routes(await over("upstream", upstream.port)));
  }
  return changed;
}

function routes(port: number): string {
  const common = `upstream: "http://127.0.0.1:${port}", timeoutMs: 3000, rateLimit: ${PLENTY}`;
  const approval = "approval: { fields: [/amount, /reference] }";
  return `routes:
  - { prefix: /pay, ${common}, methods: { GET: { roles: [USER] }, POST: { roles: [USER], action: pay.create } } }
  - { prefix: /approved, ${common}, methods: { POST: { roles: [USER], action: approved.create, ${approval} } } }
`;
}

/** What the upstream and the databases hold, once all that waits on disks and in outboxes is in the log. */
async function readHistory(): Promise<History> {
  await untilDrained();
  await using identity = await databaseOfSystem(system, "identity");
  await using token = await databaseOfSystem(system, "token");
  await using audit = await databaseOfSystem(system, "audit");
  const owedEvents = [...(await recordedEvents(identity.sql)), ...(await recordedEvents(token.sql))];
  const { entries, numbered } = await readLog(audit.sql);
  const approvals = await identity.sql<Approval[]>`
    select id, user_id as "userId", encode(digest, 'hex') as digest, transaction_text as transaction
    from approvals where given_at is not null`;
  const used = await identity.sql<{ userId: string; used: number }[]>`
    select users.id as "userId", 10 - count(code)::int as used
    from users left join recovery_codes as code on code.user_id = users.id
    where users.id in (select user_id from recovery_codes union select user_id from approvals)
    group by users.id`;
  const users = await identity.sql<{ id: string; name: string }[]>`select id, first_name as name from users`;
  const ended = await token.sql<{ id: string; reason: string }[]>`
    select id, revoked_reason || ' ' || revoked_at as reason from sessions where revoked_at is not null`;
  return {
    calls,
    received: upstream.received,
    entries,
    owedEvents,
    numbered,
    approvals,
    usedCodes: new Map(used.map((row) => [row.userId, row.used])),
    firstNames: new Map(users.map(({ id, name }) => [id, name])),
    reasons: new Map(ended.map(({ id, reason }) => [id, reason])),
  };
}

async function readLog(sql: Sql): Promise<Pick<History, "entries" | "numbered">> {
  // They are numbered a moment later.
  for (const endMs = performance.now() + PATIENCE_MS; ; await sleep(200)) {
    const entries = await sql<Entry[]>`
      select id, producer_id as "producerId", producer_sequence::int as "producerSequence",
        producer_name as "producerName", kind, call_id as "callId", trace_id as "traceId",
        request_id as "requestId", outcome, http_status as "httpStatus"
      from log_entries`;
    const [numbered] = await sql<{ count: number; last: number }[]>`
      select count(*)::int as count, max(sequence)::int as last from leaves`;
    if (numbered !== undefined && (numbered.count === entries.length || performance.now() > endMs))
      return { entries, numbered };
  }
}

/** The events of a service's outbox, once all are in the log. An unacknowledged one is resent after its lease. */
async function recordedEvents(sql: Sql): Promise<string[]> {
  for (const endMs = performance.now() + PATIENCE_MS; ; await sleep(200)) {
    const events = await sql<{ id: string; isRecorded: boolean }[]>`
      select id, recorded_at is not null as "isRecorded" from security_events`;
    if (events.every(({ isRecorded }) => isRecorded)) return events.map(({ id }) => id);
    if (performance.now() > endMs) throw new Error("an outbox is not empty");
  }
}

/** Until audit-service has all that waits on disks and in memory. */
async function untilDrained(): Promise<void> {
  const waiting = /^gatehouse_audit_(?:queued_entries|spool_bytes)\{[^}]*\} (?!0$)/m;
  for (
    const endMs = performance.now() + PATIENCE_MS;
    waiting.test(await system.metrics());
    await sleep(100)
  ) {
    if (performance.now() > endMs) throw new Error(`not drained:\n${await system.metrics()}`);
  }
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

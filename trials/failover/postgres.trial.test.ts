import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { apiClient } from "#tests/support/people/api-client.ts";
import { type CrashingSystem, startCrashingSystem } from "#tests/support/system/crashing-system.ts";
import { say, seconds, seededRandom, until } from "../support.ts";
import { FailoverLoad, isAcknowledged, startUpstream } from "./failover-load.ts";
import { missingForCluster, type PatroniCluster, startPatroniCluster } from "./patroni-cluster.ts";
import { FAULTS, type Fault, failOver } from "./round.ts";

const ROUNDS = Number(process.env.FAILOVER_ROUNDS ?? 20);
const SEED = Number(process.env.FAILOVER_SEED ?? Date.now() % 1_000_000);
const CHOSEN = (process.env.FAILOVER_FAULTS?.split(",") as typeof FAULTS | undefined) ?? FAULTS;
/** How the services find the primary. */
const WAY = process.env.FAILOVER_WAY ?? "haproxy";
/** From the election of the new primary to the end of the last refused call. */
const LIMIT_MS = Number(process.env.FAILOVER_LIMIT_MS ?? 5_000);
const LIVES = Number(process.env.FAILOVER_LIVES ?? 4);
const PAYERS = 2;
const ROUND_LIMIT_MS = 300_000;
const random = seededRandom(SEED);

const missing = missingForCluster();
if (missing !== undefined) say(`Fail-over of PostgreSQL skipped: ${missing}`);

describe.skipIf(missing !== undefined)("three PostgreSQL under Patroni with a synchronous standby", () => {
  let cluster: PatroniCluster;
  let system: CrashingSystem;
  let load: FailoverLoad;
  let trust: string[];
  let upstream: Awaited<ReturnType<typeof startUpstream>>;

  beforeAll(async () => {
    say(
      `fail-over: seed ${SEED}, ${ROUNDS} rounds, by ${WAY} (FAILOVER_SEED, FAILOVER_ROUNDS, FAILOVER_WAY, FAILOVER_FAULTS)`,
    );
    upstream = await startUpstream();
    cluster = await startPatroniCluster();
    await cluster.whole();
    const { username, password } = cluster.superuser;
    system = await startCrashingSystem(
      ({ environment: { DATABASE_URL } }) =>
        WAY === "hosts" && DATABASE_URL !== undefined
          ? { DATABASE_URL: DATABASE_URL.replace(/(?<=@)[^/]+/, cluster.hosts) }
          : {},
      {
        environment: {
          GATEHOUSE_POSTGRES_URL: `postgres://${username}:${password}@127.0.0.1:${cluster.port}`,
        },
        files: () => ({ "routes.yaml": upstream.routes }),
      },
    );
    load = new FailoverLoad({
      url: `http://127.0.0.1:${system.ports.GATEWAY_PORT}`,
      random,
      lives: LIVES,
      paid: upstream.paid,
      proveAddress: (userId) => proveAddress(userId),
    });
    // The first one is signed some seconds after the start.
    const out = await until("a checkpoint", async () => {
      const answer = await gatehouse("audit", "checkpoint", "--json");
      return answer.code === 0 ? answer.out : undefined;
    });
    const { verifierKey } = JSON.parse(out) as { verifierKey: string };
    trust = ["--key", verifierKey, "--checkpoints", join(system.home, "checkpoints.jsonl")];
  }, ROUND_LIMIT_MS);

  afterAll(async () => {
    await load?.close();
    await system?.remove();
    await cluster?.remove();
    upstream?.close();
  });

  const server = (database: string) =>
    connectTo({ host: "127.0.0.1", port: cluster.port, ...cluster.superuser }, database);

  async function proveAddress(userId: string): Promise<void> {
    const identity = server("identity");
    await identity`
      update users set email_verified = true, credentials_proven_email = email, credentials_proven_at = created_at
      where id = ${userId}`;
    await identity.end();
  }

  function gatehouse(...argv: string[]) {
    return new Promise<{ code: number; out: string; error: string }>((done) => {
      const entry = resolve(import.meta.dirname, "../../cli/main.ts");
      const env = { PATH: process.env.PATH ?? "", GATEHOUSE_HOME: system.home };
      execFile(
        process.execPath,
        [entry, ...argv],
        { env, maxBuffer: 16 * 1024 * 1024 },
        (failure, out, error) => done({ code: failure === null ? 0 : Number(failure.code), out, error }),
      );
    });
  }

  /** Each acknowledged call has one intent and one outcome, and the log is proven. */
  async function checkLog(from: number): Promise<void> {
    const wanted = load.calls.slice(from).filter(isAcknowledged);
    const audit = server("audit");
    try {
      const wrong = async () => {
        const rows = await audit<{ trace_id: string; kind: string; http_status: number }[]>`
          select trace_id, kind, http_status from log_entries
          where trace_id = any(${wanted.map(({ traceId }) => traceId)}) and kind in ('intent', 'outcome')`;
        const byTrace = Map.groupBy(rows, ({ trace_id }) => trace_id);
        return wanted.flatMap(({ kind, traceId, status }) => {
          const found = byTrace.get(traceId) ?? [];
          const intents = found.filter((row) => row.kind === "intent").length;
          const outcomes = found.filter((row) => row.kind === "outcome").map((row) => row.http_status);
          return intents === 1 && outcomes.length === 1 && outcomes[0] === status
            ? []
            : [{ kind, status, intents, outcomes }];
        });
      };
      // Outcomes follow their answers.
      await expect.poll(wrong).toEqual([]);
    } finally {
      await audit.end();
    }
    await expect
      .poll(() => gatehouse("audit", "verify", "--live", ...trust), { interval: 1_000 })
      .toMatchObject({ code: 0 });
  }

  const rounds = Array.from({ length: ROUNDS }, (_, index) => ({
    round: index + 1,
    fault: CHOSEN[index % CHOSEN.length] as Fault,
  }));

  test.for(rounds)(
    "round $round, $fault: nothing acknowledged is lost",
    { timeout: ROUND_LIMIT_MS },
    async ({ round, fault }) => {
      const payers = await Promise.all(Array.from({ length: PAYERS }, () => load.newPayer()));
      const made = await failOver(fault, { cluster, load, payers, random });
      const { old, node, struckMs, electedMs, refused, ofFault, lastMs, callsBefore, factsBefore } = made;
      const longestMs = Math.max(...refused.map(({ startedMs, endedMs }) => endedMs - startedMs), 0);
      say(
        `round ${round}, ${fault} (${old.name}, then ${node.name}): elected after ${seconds(electedMs - struckMs)}, first commit ` +
          `${seconds(made.writableMs - electedMs)} later, last refused call ${seconds(lastMs)} after the election; ${made.calls.length} calls, ${refused.length} refused ` +
          `(longest ${seconds(longestMs)}, ${refused.length - ofFault.length} when the old primary came back), ` +
          `${load.facts.length - factsBefore} facts; load of the machine ${loadavg()[0]?.toFixed(0)}`,
      );
      expect(await load.problems(factsBefore, struckMs)).toEqual([]);
      await checkLog(callsBefore);
      expect(load.violations).toEqual([]);
      expect(system.ended).toEqual([]);
      expect(lastMs).toBeLessThanOrEqual(LIMIT_MS);
    },
  );

  test("at the end everything that was ever acknowledged holds", { timeout: ROUND_LIMIT_MS }, async () => {
    expect(await load.problems(0)).toEqual([]);
    expect(load.violations).toEqual([]);
    const kinds = new Set(load.facts.map(({ what }) => what));
    expect(kinds.size).toBeGreaterThanOrEqual(6);
  });

  test("an asynchronous standby, on purpose: what is lost is noticed, and the restore procedure ends it", {
    timeout: ROUND_LIMIT_MS,
  }, async () => {
    await cluster.configure({ synchronous_mode: false });
    await cluster.whole();
    const api = apiClient(`http://127.0.0.1:${system.ports.GATEWAY_PORT}`);
    const ended = await api.newUser();
    const kept = await api.newUser();
    const old = await cluster.primary();
    if (old === undefined) throw new Error("there is no primary");
    await old.stopReplication();
    const before = await checkpointSize();
    expect((await api.post("/auth/logout", {}, { token: ended.accessToken })).status).toBe(200);
    await api.newUser();
    await expect.poll(checkpointSize).toBeGreaterThan(before);
    await old.kill();
    await cluster.elected(old);

    await expect.poll(() => metric("gatehouse_audit_refused")).toBe(1);
    for (const [service, noticed] of [
      ["token-service", "the revocation log has lost entries"],
      ["identity-service", "the database has lost commits"],
    ] as const)
      await expect
        .poll(() => readFile(join(system.home, "logs", `${service}.log`), "utf8"))
        .toContain(noticed);
    // Whoever knew of the logout still does. Of its refresh token, only the lost data knew.
    expect((await answered(() => api.get("/auth/me", { token: ended.accessToken }))).status).toBe(401);

    const { code, error } = await gatehouse(
      ...["sessions", "revoke-all", "--issued-before", "now", "--reason", "fail-over", "--yes"],
    );
    expect({ code, error }).toEqual({ code: 0, error: "" });
    for (const { accessToken, refreshToken } of [ended, kept]) {
      expect((await answered(() => api.get("/auth/me", { token: accessToken }))).status).toBe(401);
      expect((await answered(() => api.post("/auth/refresh", { refreshToken }))).status).toBe(401);
    }
    await system.kill("audit-service");
    system.configure("audit-service", { CHECKPOINT_ORIGIN: "gatehouse.example/after-the-loss" });
    await system.start("audit-service");
    await expect.poll(() => metric("gatehouse_audit_refused")).toBe(0);
    const numbered = await checkpointSize();
    const again = await api.newUser();
    expect((await api.get("/auth/me", { token: again.accessToken })).status).toBe(200);
    await expect.poll(checkpointSize).toBeGreaterThan(numbered);
    expect(system.ended).toEqual([]);
  });

  async function checkpointSize(): Promise<number> {
    const { out } = await gatehouse("audit", "checkpoint", "--json");
    return Number((JSON.parse(out) as { size: string }).size);
  }

  async function metric(name: string): Promise<number> {
    const url = `http://127.0.0.1:${system.ports.AUDIT_OPERATIONS_PORT}/metrics`;
    const line = new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, "m").exec(await (await fetch(url)).text());
    return Number(line?.[1]);
  }
});

/** The first answer that is not 503. */
async function answered<T extends { status: number }>(ask: () => Promise<T>): Promise<T> {
  let answer = await ask();
  await expect
    .poll(async () => {
      if (answer.status === 503) answer = await ask();
      return answer.status;
    })
    .not.toBe(503);
  return answer;
}

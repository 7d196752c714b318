import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { loadavg } from "node:os";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findRedisProgram } from "#tests/support/database/redis.ts";
import { apiClient } from "#tests/support/people/api-client.ts";
import { dpopClient } from "#tests/support/people/dpop-client.ts";
import { type CrashingSystem, startCrashingSystem } from "#tests/support/system/crashing-system.ts";
import { ADMIN } from "#tests/support/system/system.ts";
import { UNTHROTTLED } from "../chaos/system-under-load.ts";
import { ALL_FAULTS, CALLS, type CallName, chosen, HEALTHY, REPEATED } from "../degradation/contract.ts";
import { callerAt, newPerson, tokensOf } from "../degradation/people.ts";
import { say, seconds, seededRandom } from "../support.ts";
import { type RedisSentinels, type SentinelNode, startRedisSentinels } from "./redis-sentinels.ts";

const ROUNDS = Number(process.env.REDIS_FAILOVER_ROUNDS ?? 10);
const SEED = Number(process.env.REDIS_FAILOVER_SEED ?? Date.now() % 1_000_000);
const FAULTS = [
  "kill the primary",
  "freeze the primary",
  "cut the primary off",
  "cut the primary off from servers and sentinels",
  "leave one of everything alone with the primary",
] as const;
type FaultName = (typeof FAULTS)[number];
const CHOSEN = process.env.REDIS_FAILOVER_FAULTS?.split(",") ?? FAULTS;
/** From the election until every process uses the new primary. */
const LIMIT_MS = Number(process.env.REDIS_FAILOVER_LIMIT_MS ?? 5_000);
/** Of the limited client, which calls all the time. */
const LIMIT = { calls: 10, perSeconds: 20 };
/** A limit allows its number at once and as many in its period; at three counters at worst: docs/operations/high-availability.md. */
const MOST_IN_A_PERIOD = 3 * 2 * LIMIT.calls;
/** Without news for this long, a gateway trusts no memory. */
const REVOCATION_BOUND_MS = 3_000;
/** A gateway trusts a new connection with proofs after 65 s, and a proof lives for 60. */
const LEFT_ALONE_MS = 80_000;
const PROOF_LIFE_MS = 55_000;
const ROUND_LIMIT_MS = 400_000;
/** Of one row of replicas. */
const CONNECTIONS = ["limits", "throttle", "revocations-publisher", "revocations-subscriber"].map(
  (name) => `gatehouse-${name}`,
);
const PLENTY = { calls: 1_000_000, perSeconds: 60 };
const UNLIMITED = ["login.address", "login.total", "account.address", "logout.address", "logout.user"]
  .map((name) => `${name}=1000000/60`)
  .join(",");
const random = seededRandom(SEED);

const program = findRedisProgram();
if (program === undefined) say("Fail-over of Redis skipped: `apt-get install redis-server`");

interface Seen {
  what: string;
  startedMs: number;
  endedMs: number;
  status: number;
}

describe.skipIf(program === undefined)("three Redis under three sentinels", () => {
  let redis: RedisSentinels;
  let system: CrashingSystem;
  const seen: Seen[] = [];
  const violations: string[] = [];
  const delaysMs: number[] = [];
  const proofs = { accepted: 0, shared: 0, replayed: 0 };
  /** The nonce that each gateway gave last. */
  const nonces = new Map<string, string>();
  const end = new AbortController();
  let load: Promise<unknown>;
  const upstream = createServer((request, response) => {
    response
      .writeHead(request.method === "POST" ? 201 : 200, { "content-type": "application/json" })
      .end("{}");
  });

  beforeAll(async () => {
    say(
      `fail-over of Redis: seed ${SEED}, ${ROUNDS} rounds (REDIS_FAILOVER_SEED, _ROUNDS, _FAULTS, _LIMIT_MS)`,
    );
    upstream.listen(0, "127.0.0.1");
    await once(upstream, "listening");
    redis = await startRedisSentinels(program ?? "");
    await redis.whole();
    system = await startCrashingSystem(({ name }) => detour(name), {
      twins: true,
      files: () => ({ "routes.yaml": routes((upstream.address() as AddressInfo).port) }),
    });
    load = Promise.all([keepToLimit("/auth/me"), keepToLimit("/limited"), keepRevoking(), keepProving()]);
    load.catch((error: unknown) => violations.push(`the load ended: ${String(error)}`));
  }, ROUND_LIMIT_MS);

  afterAll(async () => {
    end.abort();
    await load?.catch(() => undefined);
    await system?.remove();
    await redis?.remove();
    upstream.closeAllConnections();
    upstream.close();
  });

  function detour(name: string): Record<string, string> {
    if (name.startsWith("audit")) return {};
    return {
      REDIS_URL: name.endsWith("-2") ? redis.otherWay.url : redis.url,
      REDIS_PLAINTEXT: "true",
      ...(name.startsWith("gateway") && {
        RATE_LIMITS: `${UNLIMITED},account.user=${LIMIT.calls}/${LIMIT.perSeconds}`,
        RATE_LIMIT_REPLICAS: "2",
        CALL_BUDGET_MS: "5000",
      }),
      ...(name.startsWith("identity") && {
        THROTTLE_REPLICAS: "2",
        ...UNTHROTTLED,
      }),
    };
  }

  /** Through a balancer: the host is the first gateway's, whichever is reached. */
  async function ask(
    what: string,
    gateway: string,
    { method = "GET", path, headers = {}, body }: Asked,
  ): Promise<Seen & { answer: Body; nonce: string | undefined }> {
    const { hostname, port } = new URL(gateway);
    const content = body === undefined ? undefined : JSON.stringify(body);
    const startedMs = performance.now();
    const request = httpRequest({
      hostname,
      port,
      method,
      path,
      headers: {
        host: new URL(system.gateways[0] ?? "").host,
        ...(content !== undefined && {
          "content-type": "application/json",
          "content-length": Buffer.byteLength(content),
        }),
        ...headers,
      },
      timeout: 30_000,
    });
    request.end(content);
    const [response] = (await once(request, "response")) as [IncomingMessage];
    const answer = JSON.parse((await text(response)) || "{}") as Body;
    const call = { what, startedMs, endedMs: performance.now(), status: response.statusCode ?? 0 };
    seen.push(call);
    const isRefusal = call.status === 429 || call.status === 503;
    if (call.status >= 500 && call.status !== 503) violations.push(`${what}: ${call.status}`);
    if (isRefusal && response.headers["retry-after"] === undefined)
      violations.push(`${what}: ${call.status} without Retry-After`);
    return { ...call, answer, nonce: response.headers["dpop-nonce"] as string | undefined };
  }

  const gateways = () => system.gateways as [string, string];
  const newUser = () => apiClient(gateways()[0]).newUser();

  /** A user who always calls faster than the limit, at both gateways. */
  async function keepToLimit(path: string): Promise<void> {
    const api = apiClient(gateways()[0]);
    const user = await api.newUser();
    let { accessToken } = user;
    const callAt = async (gateway: string) => {
      for (; !end.signal.aborted; await sleep(40)) {
        const headers = { authorization: `Bearer ${accessToken}` };
        const { status } = await ask(path, gateway, { path, headers });
        if (status === 401) ({ accessToken } = await api.logIn(user));
        else if (![200, 429, 503].includes(status)) violations.push(`${path}: ${status}`);
      }
    };
    await Promise.all(gateways().map(callAt));
  }

  /** Sessions that end at one gateway, and are tried at both. */
  async function keepRevoking(): Promise<void> {
    const api = apiClient(gateways()[0]);
    const user = await api.newUser();
    for (let turn = 0; !end.signal.aborted; turn += 1) {
      const { accessToken } = await api.logIn(user);
      const headers = { authorization: `Bearer ${accessToken}` };
      const use = (gateway: string) => ask("a token", gateway, { path: "/free", headers });
      await Promise.all(gateways().map(use));
      const at = gateways()[turn % 2] as string;
      const ended = await ask("a logout", at, { method: "POST", path: "/auth/logout", headers, body: {} });
      if (ended.status !== 200 && ended.status !== 204) continue;
      await Promise.all(
        gateways().map(async (gateway) => {
          let longestMs = 0;
          while (performance.now() < ended.endedMs + REVOCATION_BOUND_MS + 1_000) {
            const { status, startedMs } = await use(gateway);
            const afterMs = startedMs - ended.endedMs;
            if (status === 200) longestMs = afterMs;
            if (status === 200 && afterMs > (gateway === at ? 0 : REVOCATION_BOUND_MS))
              violations.push(`a revoked token is accepted after ${afterMs.toFixed(0)} ms`);
            await sleep(20);
          }
          if (gateway !== at) delaysMs.push(longestMs);
        }),
      );
    }
  }

  /** Each proof is tried again at both gateways, at once and as long as it lives. */
  async function keepProving(): Promise<void> {
    const user = await newUser();
    const { proof } = await dpopClient();
    const origin = `http://${new URL(gateways()[0]).host}`;
    const used: { jws: string; token: string; atMs: number }[] = [];
    const url = `${origin}/free`;
    const show = async (gateway: string, dpop: string, token: string) => {
      const shown = await ask("a proof", gateway, {
        path: "/free",
        headers: { authorization: `DPoP ${token}`, dpop },
      });
      if (shown.nonce !== undefined) nonces.set(gateway, shown.nonce);
      return shown;
    };
    const replay = async (gateway: string, { jws, token, atMs }: (typeof used)[number]) => {
      proofs.replayed += 1;
      const { status } = await show(gateway, jws, token);
      if (status === 200)
        violations.push(`a proof is accepted again, ${(performance.now() - atMs).toFixed(0)} ms later`);
    };
    let token = "";
    let loggedInMs = Number.NEGATIVE_INFINITY;
    for (let turn = 0; !end.signal.aborted; turn += 1, await sleep(200)) {
      const [one, other] = turn % 2 === 0 ? gateways() : (gateways().toReversed() as [string, string]);
      if (performance.now() - loggedInMs > 60_000) {
        const nonce = nonces.get(one);
        const dpop = await proof({ url: `${origin}/auth/login`, ...(nonce !== undefined && { nonce }) });
        const { email, password } = user;
        const login = await ask("a login", one, {
          method: "POST",
          path: "/auth/login",
          headers: { dpop },
          body: { email, password },
        });
        if (login.nonce !== undefined) nonces.set(one, login.nonce);
        if (login.status !== 200) continue;
        token = login.answer.data.accessToken;
        loggedInMs = performance.now();
      }
      const nonce = nonces.get(one);
      const jws = await proof({ method: "GET", url, token, ...(nonce !== undefined && { nonce }) });
      const { status } = await show(one, jws, token);
      if (status !== 200) continue;
      proofs.accepted += 1;
      if (nonce === "shared") proofs.shared += 1;
      const latest = { jws, token, atMs: performance.now() };
      while ((used[0]?.atMs ?? Number.POSITIVE_INFINITY) < performance.now() - PROOF_LIFE_MS) used.shift();
      const earlier = used[Math.floor(random() * used.length)];
      used.push(latest);
      await replay(other, latest);
      await replay(one, latest);
      if (earlier !== undefined) await replay(other, earlier);
    }
  }

  /** Names of the connections of our processes at a server, with their ages in seconds. */
  async function connectionsAt(node: SentinelNode): Promise<{ name: string; ageS: number }[]> {
    const list = String(await node.ask("CLIENT", "LIST").catch(() => ""));
    return [...list.matchAll(/ name=(gatehouse-\S+) age=(\d+)/g)].map(([, name = "", age]) => ({
      name,
      ageS: Number(age),
    }));
  }

  async function untilUsed(node: SentinelNode, rows: number): Promise<number> {
    await expect
      .poll(
        async () => {
          const names = (await connectionsAt(node)).map(({ name }) => name);
          return CONNECTIONS.filter((name) => names.filter((one) => one === name).length < rows);
        },
        { timeout: 60_000, interval: 20 },
      )
      .toEqual([]);
    return performance.now();
  }

  /** Both gateways trust Redis with proofs: what a fail-over loses then matters. */
  const untilTrusted = () =>
    expect
      .poll(() => gateways().map((gateway) => nonces.get(gateway)), { timeout: 200_000, interval: 100 })
      .toEqual(["shared", "shared"]);

  /** Connections that were made to a former primary after it had come back. */
  async function strayedTo(old: SentinelNode, relievedMs: number, isOver: () => boolean): Promise<string[]> {
    const strayed = new Set<string>();
    for (; !isOver(); await sleep(100)) {
      const sinceS = (performance.now() - relievedMs) / 1_000;
      for (const { name, ageS } of await connectionsAt(old)) if (ageS + 1 < sinceS) strayed.add(name);
    }
    return [...strayed];
  }

  function mostInAPeriod(path: string, fromMs: number): number {
    const admitted = seen
      .filter(({ what, status, startedMs }) => what === path && status === 200 && startedMs >= fromMs)
      .map(({ endedMs }) => endedMs)
      .sort((one, other) => one - other);
    let [first, most] = [0, 0];
    for (const [last, atMs] of admitted.entries()) {
      while ((admitted[first] ?? 0) < atMs - LIMIT.perSeconds * 1_000) first += 1;
      most = Math.max(most, last - first + 1);
    }
    return most;
  }

  const rounds = Array.from({ length: ROUNDS }, (_, index) => ({
    round: index + 1,
    fault: CHOSEN[index % CHOSEN.length] as FaultName,
  }));

  test.for(rounds)("round $round, $fault", { timeout: ROUND_LIMIT_MS }, async ({ round, fault }) => {
    const old = await redis.whole();
    await untilUsed(old, 2);
    await untilTrusted();
    // A random moment: there is no condition to wait for.
    await sleep(random() * 500);
    const [calls, delays] = [seen.length, delaysMs.length];
    const before = { ...proofs };
    const struckMs = performance.now();
    await strike(fault, old);
    const { node, atMs: electedMs } = await redis.elected(old);
    const isLeftAlone = fault === "leave one of everything alone with the primary";
    const usedMs = await untilUsed(node, isLeftAlone ? 1 : 2);
    const relievedMs = await relieved(fault, old, async () => {
      if (!isLeftAlone) return;
      await old.ask("CONFIG", "RESETSTAT");
      await sleep(LEFT_ALONE_MS);
      // Rings for revocations say nothing, and may be sent in vain.
      const stats = String(await old.ask("INFO", "commandstats"));
      expect([...stats.matchAll(/cmdstat_(evalsha|eval|set|get):/g)].map(([, name]) => name)).toEqual([]);
    });
    let isOver = false;
    const whole = redis.whole().finally(() => {
      isOver = true;
    });
    const [strayed] = await Promise.all([strayedTo(old, relievedMs, () => isOver), whole]);
    await untilUsed(node, 2);
    // Until the period of the limit is over.
    await sleep(Math.max(0, struckMs + LIMIT.perSeconds * 1_000 - performance.now()));

    const of = seen.slice(calls);
    const count = (status: number) => of.filter((call) => call.status === status).length;
    const most = ["/auth/me", "/limited"].map((path) =>
      mostInAPeriod(path, struckMs - LIMIT.perSeconds * 1_000),
    );
    say(
      `round ${round}, ${fault} (${old.name}, then ${node.name}): elected after ${seconds(electedMs - struckMs)}, used by all ` +
        `${seconds(usedMs - electedMs)} later; ${of.length} calls, ${count(429)} × 429, ${count(503)} × 503; at most ${most.join(" and ")} ` +
        `calls in ${LIMIT.perSeconds} s of a limit of ${LIMIT.calls}; revoked tokens accepted for up to ` +
        `${seconds(Math.max(...delaysMs.slice(delays), 0))} by the other gateway; ${proofs.accepted - before.accepted} proofs ` +
        `(${proofs.shared - before.shared} by Redis), ${proofs.replayed - before.replayed} replays; load of the machine ${loadavg()[0]?.toFixed(0)}`,
    );
    expect(violations).toEqual([]);
    expect(strayed).toEqual([]);
    expect(system.ended).toEqual([]);
    for (const number of most) expect(number).toBeLessThanOrEqual(MOST_IN_A_PERIOD);
    expect(count(429)).toBeGreaterThan(0);
    expect(delaysMs.length).toBeGreaterThan(delays);
    expect(usedMs - electedMs).toBeLessThanOrEqual(LIMIT_MS);
  });

  /** Whether those of the first row that count use Redis. */
  async function untilShared(shared: "1" | "0"): Promise<number> {
    const { GATEWAY_OPERATIONS_PORT, IDENTITY_OPERATIONS_PORT } = system.ports;
    const look = async (port: number) => {
      const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      return /^gatehouse_(?:throttle|rate_limits)_shared(?:\{.*\})? (\d)$/m.exec(metrics)?.[1];
    };
    const ports = [GATEWAY_OPERATIONS_PORT, IDENTITY_OPERATIONS_PORT];
    await expect.poll(() => Promise.all(ports.map(look)), { interval: 20 }).toEqual([shared, shared]);
    return performance.now();
  }

  const rows = ALL_FAULTS.filter(({ part }) => part === "Redis under Sentinel");
  test.for(rows)("$what: every call has the answer of its row", async ({ what, expected }) => {
    const old = await redis.whole();
    await untilUsed(old, 2);
    await untilShared("1");
    const call = callerAt(system.ports.GATEWAY_PORT);
    const { accessToken } = await tokensOf(await call("127.0.0.1", "POST", "/auth/login", { body: ADMIN }));
    const ask = await newPerson(
      call,
      accessToken,
      rows.findIndex((row) => row.what === what),
    );
    expect(await ask(REPEATED)).toEqual(chosen(HEALTHY, REPEATED));
    const calls = seen.length;
    const struckMs = performance.now();
    const mend = await withoutRedis(what, old);
    let awayMs: number;
    try {
      awayMs = await untilShared("0");
      expect(await ask(Object.keys(CALLS) as CallName[])).toEqual(expected);
      const { accepted } = proofs;
      await expect.poll(() => proofs.accepted).toBeGreaterThan(accepted);
      expect(await ask(REPEATED)).toEqual(chosen(expected, REPEATED));
    } finally {
      await mend();
    }
    const mendedMs = performance.now();
    const usedMs = await untilShared("1");
    const after = [...REPEATED, "login", "pay"] as const;
    expect(await ask(after)).toEqual(chosen(HEALTHY, after));
    const of = seen.slice(calls);
    say(
      `${what}: Redis not used after ${seconds(awayMs - struckMs)}, used again ${seconds(usedMs - mendedMs)} after the end; ` +
        `${of.length} calls beside, ${of.filter(({ status }) => status === 503).length} × 503`,
    );
    expect(of.filter(({ status }) => status === 503)).toEqual([]);
    expect(violations).toEqual([]);
    expect(system.ended).toEqual([]);
  });

  /** @returns what ends it, and resolves when there is a primary. */
  async function withoutRedis(what: string, old: SentinelNode): Promise<() => Promise<void>> {
    if (what === "most sentinels killed") return redis.killMostSentinels();
    await redis.hold(true);
    await old.kill();
    return async () => {
      await redis.hold(false);
      await redis.elected(old);
      await old.start();
    };
  }

  async function strike(fault: FaultName, node: SentinelNode): Promise<void> {
    if (fault === "kill the primary") await node.kill();
    else if (fault === "freeze the primary") node.freeze();
    else if (fault === "cut the primary off") await node.cut();
    else if (fault === "cut the primary off from servers and sentinels") await node.cutFromPeers();
    else {
      // It would refuse writes by itself after some seconds: here only the services' own care counts.
      await node.ask("CONFIG", "SET", "min-replicas-to-write", "0");
      await Promise.all([node.cutFromPeers(), redis.otherWay.set("silent")]);
    }
  }

  /** Also if `work` fails: the next round begins whole. */
  async function relieved(fault: FaultName, node: SentinelNode, work: () => Promise<void>): Promise<number> {
    try {
      await work();
    } finally {
      await relieve(fault, node);
    }
    return performance.now();
  }

  async function relieve(fault: FaultName, node: SentinelNode): Promise<void> {
    if (fault === "kill the primary") await node.start();
    else if (fault === "freeze the primary") node.thaw();
    else await Promise.all([node.mend(), redis.otherWay.set("open")]);
    if (fault === "leave one of everything alone with the primary")
      await node.ask("CONFIG", "SET", "min-replicas-to-write", "1");
  }
});

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the API sent and asserts on it
type Body = any;

interface Asked {
  method?: string;
  path: string;
  headers?: Record<string, string>;
  body?: object;
}

const routes = (port: number) => {
  const route = (prefix: string, perUser: object) =>
    `  - { prefix: ${prefix}, upstream: "http://127.0.0.1:${port}", methods: { GET: { roles: [USER] }, POST: { roles: [USER], action: payments.create } }, rateLimit: ${JSON.stringify({ perUser, perAddress: PLENTY, total: PLENTY })} }\n`;
  return `routes:\n${route("/free", PLENTY)}${route("/payments", PLENTY)}${route("/limited", LIMIT)}`;
};

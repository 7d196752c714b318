import { afterEach, describe, expect, test } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { Principal, Verification } from "#token-client/principal.ts";
import type { Bucket } from "../limits/bucket.ts";
import { createMemoryLimiter } from "../limits/call-limiter.ts";
import type { LetIn } from "../limits/known-callers.ts";
import { defaultLimitClasses, type LimitClass, type LimitClasses } from "../limits/limit-class.ts";
import { ReconciledLimiter } from "../limits/reconciled-limiter.ts";
import { StrangerPlaces } from "../limits/share-counts.ts";
import { parseIntrospectionClients } from "../oauth-server/introspection-clients.ts";
import { ProxyTable } from "../routing/proxy-table.ts";
import {
  account,
  completedLogin,
  testGateway as gatewayWithClock,
  principalWith,
  routesOf,
  send,
  tokens,
  verifierOfUsers,
} from "../testing/test-gateway.ts";
import { deviceKeyOf } from "./request/device-cookie.ts";
import type { GatewayApp } from "./request/request-state.ts";

/** A gateway whose rate-limit clock stands still: no count depends on the speed of the machine. */
function testGateway(options: Parameters<typeof gatewayWithClock>[0] = {}) {
  const now = () => 0;
  return gatewayWithClock({
    callLimiter: createMemoryLimiter({ replicas: 1, now }),
    proxyLimiter: new ReconciledLimiter({ redis: undefined, replicas: 1, now }),
    ...options,
  });
}

let app: GatewayApp;
afterEach(() => app.close());

const once = { calls: 2, perSeconds: 60 };
const LOGIN = {
  method: "POST",
  url: "/auth/login",
  body: { email: "a@example.com", password: "x" },
} as const;

function limited(changes: Partial<LimitClasses>): LimitClasses {
  return { ...defaultLimitClasses(), ...changes };
}

async function statuses(count: number, call: Parameters<typeof send>[1]): Promise<number[]> {
  const found: number[] = [];
  for (let index = 0; index < count; index += 1) found.push((await send(app, call)).statusCode);
  return found;
}

describe("our own routes", () => {
  test("beyond an address's limit: 429 before anything is recorded or asked of a service", async () => {
    let logins = 0;
    const classes = limited({ login: { address: once, total: { calls: 100, perSeconds: 60 } } });
    const gateway = testGateway({
      limitClasses: classes,
      identity: {
        login: () => {
          logins += 1;
          return Promise.reject(new Error("down"));
        },
      },
    });
    ({ app } = gateway);
    expect(await statuses(2, LOGIN)).toEqual([500, 500]);
    const recorded = gateway.entries.length;
    const refused = await send(app, LOGIN);
    expect(refused.statusCode).toBe(429);
    expect(refused.json()).toMatchObject({ error: { code: "too_many_requests" } });
    expect(refused.headers).toMatchObject({
      "retry-after": "30",
      "ratelimit-limit": "2",
      "ratelimit-remaining": "0",
      "ratelimit-reset": "30",
    });
    expect(logins).toBe(2);
    expect(gateway.entries).toHaveLength(recorded);
  });

  test("/v1 is no second budget, and another class is one", async () => {
    ({ app } = testGateway({ limitClasses: limited({ refresh: { address: once, total: once } }) }));
    const refresh = { method: "POST", url: "/auth/refresh", body: {} } as const;
    expect(await statuses(1, { ...refresh, url: "/v1/auth/refresh" })).toEqual([400]);
    expect(await statuses(2, refresh)).toEqual([400, 429]);
    expect(await statuses(1, { ...LOGIN, body: {} })).toEqual([400]);
  });

  test("addresses of one /64 are one, and another is another", async () => {
    ({ app } = testGateway({
      limitClasses: limited({ login: { address: once, total: { calls: 100, perSeconds: 60 } } }),
      isTrustedProxy: (address) => address === "127.0.0.1",
    }));
    const from = (ip: string) => ({ ...LOGIN, body: {}, headers: { "x-forwarded-for": ip } });
    expect(await statuses(1, from("2001:db8:0:7::1"))).toEqual([400]);
    expect(await statuses(2, from("2001:db8:0:7:ffff::2"))).toEqual([400, 429]);
    expect(await statuses(1, from("2001:db8:0:8::1"))).toEqual([400]);
  });

  test("everybody together has a limit, and does not learn which", async () => {
    ({ app } = testGateway({
      limitClasses: limited({ login: { address: { calls: 100, perSeconds: 60 }, total: once } }),
    }));
    expect(await statuses(2, { ...LOGIN, body: {} })).toEqual([400, 400]);
    const refused = await send(app, { ...LOGIN, body: {} });
    expect(refused.statusCode).toBe(429);
    expect(refused.headers["retry-after"]).toBe("30");
    expect(refused.headers["ratelimit-limit"]).toBeUndefined();
  });

  test("a user has a limit wherever calls come from; who has no token uses up nothing of it", async () => {
    const many = { calls: 100, perSeconds: 60 };
    const metrics = createMetrics("gateway");
    ({ app } = testGateway({
      metrics,
      limitClasses: limited({ account: { address: many, user: once } }),
      isTrustedProxy: (address) => address === "127.0.0.1",
      identity: {
        getUser: async () => account,
      },
    }));
    const me = (token: string | undefined, ip: string) => ({
      url: "/auth/me",
      ...(token && { token }),
      headers: { "x-forwarded-for": ip },
    });
    expect(await statuses(20, me("wrong", "192.0.2.9"))).toEqual(Array(20).fill(401));
    expect(await statuses(1, me("user-token", "192.0.2.1"))).not.toEqual([429]);
    expect(await statuses(1, me("user-token", "192.0.2.2"))).not.toEqual([429]);
    expect(await statuses(1, me("user-token", "192.0.2.3"))).toEqual([429]);
    expect(await metrics.render()).toMatch(/gatehouse_rate_limited_total\{limit="user",route="\/auth\/me",/);
  });

  test("an answer says how much is left", async () => {
    ({ app } = testGateway({
      limitClasses: limited({ provider: { address: { calls: 10, perSeconds: 60 }, total: once } }),
    }));
    const { statusCode, headers } = await send(app, { url: "/auth/providers" });
    expect(statusCode).toBe(200);
    expect(headers).toMatchObject({
      "ratelimit-limit": "10",
      "ratelimit-remaining": "9",
      "ratelimit-reset": "6",
    });
  });

  test("the keys and paths that do not exist are limited too, without a question to anybody", async () => {
    const memory = createMemoryLimiter({ replicas: 1, now: () => 0 });
    ({ app } = testGateway({
      limitClasses: limited({ document: { address: once, total: once }, unknown: { address: once } }),
      jwks: { get: async () => ({ json: "{}", maxAgeS: 60 }) },
      callLimiter: { ...memory, take: () => Promise.reject(new Error("asked")) },
    }));
    expect(await statuses(3, { url: "/.well-known/jwks.json" })).toEqual([200, 200, 429]);
    expect(await statuses(3, { url: "/nowhere" })).toEqual([404, 404, 429]);
  });

  test("a /56 has four times what a /64 has, and a /48 sixteen times", async () => {
    ({ app } = testGateway({
      limitClasses: limited({ login: { address: once }, unknown: { address: once } }),
      isTrustedProxy: (address) => address === "127.0.0.1",
    }));
    for (const call of [{ ...LOGIN, body: {} }, { url: "/a//b" }]) {
      const served = async (count: number, group: (index: number) => string) => {
        const found: number[] = [];
        for (let index = 0; index < count; index += 1) {
          const headers = { "x-forwarded-for": `2001:db8:7:${group(index)}::1` };
          found.push((await send(app, { ...call, headers })).statusCode);
        }
        return found.filter((status) => status === 400).length;
      };
      expect(await served(12, (index) => index.toString(16))).toBe(8);
      expect(await served(30, (index) => ((index + 1) * 256).toString(16))).toBe(24);
    }
  });

  test("a call without a user is counted once, and a preflight is sent no limits", async () => {
    let questions = 0;
    const memory = createMemoryLimiter({ replicas: 1, now: () => 0 });
    ({ app } = testGateway({
      callLimiter: {
        ...memory,
        take: (buckets) => {
          questions += 1;
          return memory.take(buckets);
        },
      },
    }));
    expect(await statuses(1, { ...LOGIN, body: {} })).toEqual([400]);
    expect(questions).toBe(1);
    const { statusCode, headers } = await send(app, { method: "OPTIONS", url: "/auth/login" });
    expect([statusCode, headers["ratelimit-limit"]]).toEqual([204, undefined]);
  });

  test("what the guard refuses and what does not exist is counted together, under no route; the guard names no limit", async () => {
    const metrics = createMetrics("gateway");
    ({ app } = testGateway({ metrics, limitClasses: limited({ unknown: { address: once } }) }));
    expect(await statuses(1, { url: "/nowhere" })).toEqual([404]);
    expect(await statuses(1, { url: "/a//b" })).toEqual([400]);
    expect(await statuses(1, { url: "/nowhere" })).toEqual([429]);
    const refused = await send(app, { url: "/a//b" });
    expect([refused.statusCode, refused.headers["ratelimit-limit"]]).toEqual([429, undefined]);
    expect(refused.json()).toMatchObject({ error: { code: "too_many_requests" } });
    expect(await metrics.render()).toMatch(
      /gatehouse_rate_limited_total\{limit="address",route="\(none\)",.*\} 2/,
    );
  });

  test("what is refused is counted by limit and route", async () => {
    const metrics = createMetrics("gateway");
    ({ app } = testGateway({ metrics, limitClasses: limited({ login: { address: once, total: once } }) }));
    await statuses(5, { ...LOGIN, body: {} });
    expect(await metrics.render()).toMatch(
      /gatehouse_rate_limited_total\{limit="address",route="\/auth\/login",.*\} 3/,
    );
    expect(await metrics.render()).toMatch(/gatehouse_rate_limit_entries\{calls="own",.*\} 2/);
  });
});

describe("calls under way", () => {
  const many = { calls: 100, perSeconds: 60 };
  /** A gateway on which logins and logouts are pending until `answer`. */
  function slowGateway(
    changes: Partial<LimitClasses>,
    metrics = createMetrics("gateway"),
    strangerPlaces = new StrangerPlaces(1_000),
  ) {
    const waiting: (() => void)[] = [];
    const wait = () => new Promise<void>((resolve) => void waiting.push(resolve));
    const gateway = testGateway({
      metrics,
      strangerPlaces,
      limitClasses: limited(changes),
      isTrustedProxy: (address) => address === "127.0.0.1",
      identity: {
        login: () => wait().then(() => completedLogin("2.ada.phone.0.1.proof")),
        getUser: () => wait().then(() => account),
      },
      sessions: {
        proveRefreshToken: async () => ({ userId: "u", sessionId: "s" }),
        revokeSession: () => wait().then(() => ({ sequence: 1 })),
        listSessions: async () => ({ sessions: [] }),
      },
    });
    ({ app } = gateway);
    return { waiting, metrics, entries: gateway.entries };
  }
  const from = (ip: string) => ({ headers: { "x-forwarded-for": ip } });

  test.each([
    { what: "logins", limitClass: "login", call: LOGIN },
    {
      what: "logouts by refresh token",
      limitClass: "logout",
      call: { method: "POST", url: "/auth/logout", body: { refreshToken: "good" } },
    },
  ] as const)(
    "half of a network's $what may be under way at once, and answers make room",
    async ({ limitClass, call }) => {
      const limits = { ...defaultLimitClasses()[limitClass], address: { calls: 5, perSeconds: 60 } };
      const { waiting, metrics } = slowGateway({ [limitClass]: limits });
      const begin = (ip: string) => send(app, { ...call, ...from(ip) });
      const open = [begin("192.0.2.1"), begin("192.0.2.1")];
      await expect.poll(() => waiting.length, { interval: 1 }).toBe(2);
      const refused = await begin("192.0.2.1");
      expect(refused.statusCode).toBe(429);
      expect(await metrics.render()).toMatch(
        new RegExp(`gatehouse_rate_limited_total\\{limit="open",route="${call.url}",.*\\} 1`),
      );
      open.push(begin("192.0.2.2"));
      await expect.poll(() => waiting.length, { interval: 1 }).toBe(3);
      for (const end of waiting.splice(0)) end();
      expect((await Promise.all(open)).map(({ statusCode }) => statusCode)).toEqual([200, 200, 200]);
      const next = begin("192.0.2.1");
      await expect.poll(() => waiting.length, { interval: 1 }).toBe(1);
      waiting[0]?.();
      expect((await next).statusCode).toBe(200);
    },
  );

  test("without a place for strangers: 503 before anything is recorded; known networks and devices have their own", async () => {
    const { waiting, metrics, entries } = slowGateway({}, createMetrics("gateway"), new StrangerPlaces(2));
    const begin = (ip: string, headers = {}) =>
      send(app, { ...LOGIN, headers: { "x-forwarded-for": ip, ...headers } });
    const known = begin("192.0.2.9", { "gatehouse-device": "new" });
    await expect.poll(() => waiting.length, { interval: 1 }).toBe(1);
    waiting.splice(0)[0]?.();
    const device = String((await known).headers["gatehouse-device"]);
    const open = [begin("192.0.2.1"), begin("192.0.2.2")];
    await expect.poll(() => waiting.length, { interval: 1 }).toBe(2);
    const recorded = entries.length;
    const refused = await begin("192.0.2.3");
    expect([refused.statusCode, refused.headers["retry-after"]]).toEqual([503, "1"]);
    expect(refused.json()).toMatchObject({ error: { code: "busy" } });
    expect([waiting.length, entries.length]).toEqual([2, recorded]);
    expect(await metrics.render()).toMatch(
      /gatehouse_rate_limited_total\{limit="strangers",route="\/auth\/login",.*\} 1/,
    );
    open.push(begin("192.0.2.9"), begin("192.0.2.4", { "gatehouse-device": device }));
    await expect.poll(() => waiting.length, { interval: 1 }).toBe(4);
    for (const end of waiting.splice(0)) end();
    expect((await Promise.all(open)).map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200]);
    const next = begin("192.0.2.3");
    await expect.poll(() => waiting.length, { interval: 1 }).toBe(1);
    waiting[0]?.();
    expect((await next).statusCode).toBe(200);
  });

  test("a stranger to whom identity-service was busy keeps the place; a refused one does not", async () => {
    const places = new StrangerPlaces(4);
    const codes = ["invalid_credentials", "busy"] as const;
    let turn = 0;
    ({ app } = testGateway({
      strangerPlaces: places,
      isTrustedProxy: (address) => address === "127.0.0.1",
      identity: { login: async () => Promise.reject(new DomainError(codes[turn++] ?? "internal_error")) },
    }));
    expect((await send(app, { ...LOGIN, ...from("192.0.2.1") })).statusCode).toBe(401);
    expect(places.taken).toBe(0);
    expect((await send(app, { ...LOGIN, ...from("192.0.2.2") })).statusCode).toBe(503);
    expect(places.taken).toBe(1);
  });

  test("a limit of one call has a place for it", async () => {
    const { waiting } = slowGateway({ login: { address: { calls: 1, perSeconds: 60 } } });
    const only = send(app, LOGIN);
    await expect.poll(() => waiting.length, { interval: 1 }).toBe(1);
    waiting[0]?.();
    expect((await only).statusCode).toBe(200);
  });

  test("calls with a token have no such limit: they are counted for their user", async () => {
    const { waiting } = slowGateway({ account: { address: once, user: many } });
    const calls = [1, 2].map(() => send(app, { url: "/auth/me", token: "user-token" }));
    await expect.poll(() => waiting.length, { interval: 1 }).toBe(2);
    for (const end of waiting) end();
    expect((await Promise.all(calls)).map(({ statusCode }) => statusCode)).toEqual([200, 200]);
  });
});

describe("nobody uses up what others need", () => {
  /** The limits as they are, in small: a sixtieth. */
  const small = Object.fromEntries(
    Object.entries(defaultLimitClasses()).map(([name, limits]) => [
      name,
      Object.fromEntries(
        Object.entries(limits).map(([scope, { calls, perSeconds }]) => [
          scope,
          { calls: Math.ceil(calls / 60), perSeconds },
        ]),
      ),
    ]),
  ) as unknown as LimitClasses;
  const OTHERS: Principal = { ...principalWith("USER"), userId: "0199a000-0000-7000-8000-00000000000e" };

  /** The device that a login is issued. */
  const DEVICE = "2.ada.phone";
  let nowMs = 0;

  function behindProxy() {
    return testGateway({
      callLimiter: createMemoryLimiter({ replicas: 1, now: () => nowMs }),
      limitClasses: small,
      isTrustedProxy: (address) => address === "127.0.0.1",
      identity: {
        login: async () => completedLogin(`${DEVICE}.0.1.proof`),
        getUser: async () => account,
      },
      sessions: {
        refreshSession: async ({ refreshToken }) => {
          if (refreshToken !== "good") throw new DomainError("refresh_token_invalid");
          return { tokens };
        },
        proveRefreshToken: async () => ({ userId: "u", sessionId: "s" }),
        revokeSession: async () => ({ sequence: 1 }),
        listSessions: async () => ({ sessions: [] }),
      },
      verifier: {
        ...verifierOfUsers(),
        verify: (token) => ({
          kind: "active",
          principal: token === "owner" ? OTHERS : { ...OTHERS, userId: token },
        }),
      },
    });
  }

  const from = (ip: string) => ({ headers: { "x-forwarded-for": ip } });
  const logIn = (ip: string) => send(app, { ...LOGIN, ...from(ip) });
  const refresh = (ip: string, refreshToken = "good") =>
    send(app, { method: "POST", url: "/auth/refresh", body: { refreshToken }, ...from(ip) });
  const logOut = (ip: string) =>
    send(app, { method: "POST", url: "/auth/logout", body: {}, token: "owner", ...from(ip) });

  test("a thousand /64s of one /48 flood login, refresh and account: who comes from elsewhere is served", {
    tags: "exhaustive",
  }, async () => {
    ({ app } = behindProxy());
    const flood: number[] = [];
    for (let index = 0; index < 1_000; index += 1) {
      const ip = `2001:db8:1:${index.toString(16)}::1`;
      const calls = [
        send(app, { ...LOGIN, body: {}, ...from(ip) }),
        refresh(ip, "garbage"),
        send(app, { url: "/auth/sessions", token: `account${index}`, ...from(ip) }),
      ];
      for (const { statusCode } of await Promise.all(calls)) flood.push(statusCode);
    }
    const refused = flood.filter((status) => status === 429).length;
    expect(refused).toBeGreaterThan(2_000);
    const elsewhere = "2001:db8:2::1";
    expect((await logIn(elsewhere)).statusCode).toBe(200);
    expect((await refresh(elsewhere)).statusCode).toBe(200);
    expect((await logOut(elsewhere)).statusCode).toBe(200);
  });

  test("a flood from everywhere: strangers wait, known networks log in, refreshes and logouts are not concerned", async () => {
    ({ app } = behindProxy());
    expect((await logIn("192.0.2.1")).statusCode).toBe(200);
    expect((await refresh("192.0.2.2")).statusCode).toBe(200);
    let refused = 0;
    for (let index = 0; index < 400; index += 1) {
      const ip = `198.51.${index >> 8}.${index & 255}`;
      if ((await send(app, { ...LOGIN, body: {}, ...from(ip) })).statusCode === 429) refused += 1;
      await refresh(ip, "garbage");
    }
    expect(refused).toBeGreaterThan(150);
    expect((await logIn("203.0.113.1")).statusCode).toBe(429);
    expect((await logIn("192.0.2.1")).statusCode).toBe(200);
    expect((await logIn("192.0.2.2")).statusCode).toBe(200);
    // From a network that nobody knows: a phone on its way.
    expect((await refresh("203.0.113.2")).statusCode).toBe(200);
    expect((await logOut("203.0.113.3")).statusCode).toBe(200);
  });

  const logInOn = (ip: string, deviceToken: string) =>
    send(app, { ...LOGIN, headers: { "x-forwarded-for": ip, "gatehouse-device": deviceToken } });
  /** Uses new networks in each call. */
  async function flood() {
    for (let index = 0; index < 400; index += 1)
      await send(app, { ...LOGIN, body: {}, ...from(`198.51.${index >> 8}.${index & 255}`) });
    expect((await logIn("203.0.113.250")).statusCode).toBe(429);
  }

  test("a flood of strangers: a known device logs in from a new network, a made-up one does not", async () => {
    ({ app } = behindProxy());
    const first = await logInOn("192.0.2.1", "new");
    nowMs += 10 * 86_400_000;
    await flood();
    const token = String(first.headers["gatehouse-device"]);
    expect((await logInOn("203.0.113.1", "2.ada.laptop.0.1.proof")).statusCode).toBe(429);
    expect((await logInOn("203.0.113.1", "new")).statusCode).toBe(429);
    expect((await logInOn("203.0.113.2", token)).statusCode).toBe(200);
    const headers = { "x-forwarded-for": "203.0.113.3", cookie: `gatehouse_device=${token}` };
    expect((await send(app, { ...LOGIN, headers })).statusCode).toBe(429); // one a minute, in small
    nowMs += 60_000;
    await flood();
    expect((await send(app, { ...LOGIN, headers })).statusCode).toBe(200);
  });

  test("a flood of strangers: a network from which somebody logged in ten days ago is not refused", async () => {
    ({ app } = behindProxy());
    expect((await logIn("192.0.2.1")).statusCode).toBe(200);
    nowMs += 10 * 86_400_000;
    await flood();
    expect((await logIn("192.0.2.1")).statusCode).toBe(200);
  });

  test("a device that comes along with a refresh does not become known by that", async () => {
    ({ app } = behindProxy());
    const headers = { "x-forwarded-for": "192.0.2.1", "gatehouse-device": "2.eve.made-up.0.1.proof" };
    const call = { method: "POST", url: "/auth/refresh", body: { refreshToken: "good" }, headers } as const;
    expect((await send(app, call)).statusCode).toBe(200);
    await flood();
    expect((await logInOn("203.0.113.1", "2.eve.made-up.0.1.proof")).statusCode).toBe(429);
  });

  test("whoever is let in makes its network known, and a device that it names; a failed login or refresh makes none known", async () => {
    ({ app } = behindProxy());
    const remembered: LetIn[] = [];
    const limiter = createMemoryLimiter({ replicas: 1, now: () => 0 });
    await app.close();
    ({ app } = testGateway({
      callLimiter: { ...limiter, remember: async (letIn) => void remembered.push(letIn) },
      sessions: {
        refreshSession: () => Promise.reject(new DomainError("refresh_token_invalid")),
        proveRefreshToken: async () => ({ userId: "u", sessionId: "s" }),
        revokeSession: async () => ({ sequence: 1 }),
        listSessions: async () => ({ sessions: [] }),
      },
    }));
    expect((await refresh("192.0.2.1")).statusCode).toBe(401);
    expect((await send(app, { url: "/auth/sessions", token: "revoked-token" })).statusCode).toBe(401);
    expect((await send(app, { url: "/admin/users", token: "user-token" })).statusCode).toBe(403);
    expect((await send(app, { url: "/auth/providers" })).statusCode).toBe(200);
    const bad = { method: "POST", url: "/auth/change-password", body: {}, token: "user-token" } as const;
    expect((await send(app, bad)).statusCode).toBe(400);
    expect(remembered).toEqual([]);
    const good = { url: "/auth/sessions", token: "user-token" } as const;
    expect((await send(app, good)).statusCode).toBe(200);
    expect((await send(app, { ...good, headers: { "gatehouse-device": "new" } })).statusCode).toBe(200);
    const named = { ...good, headers: { "gatehouse-device": `${DEVICE}.0.1.proof` } };
    expect((await send(app, named)).statusCode).toBe(200);
    const network = "127.0.0.1";
    const device = { key: deviceKeyOf(named.headers["gatehouse-device"]) };
    expect(remembered).toEqual([{ network }, { network }, { network, device }]);
  });

  test.each([
    { what: "device", of: "login", token: `${DEVICE}.0.1.proof`, device: once, counted: ["login device"] },
    { what: "device", of: "link", token: `${DEVICE}.0.1.proof`, device: once, counted: ["link device"] },
    { what: "client that names none", of: "login", token: "new", device: once, counted: [] },
    {
      what: "device in a class without a limit for it",
      of: "login",
      token: DEVICE,
      device: undefined,
      counted: [],
    },
  ])(
    "the calls of a $what ($of) have a reserve where there is one",
    async ({ of, token, device, counted }) => {
      const memory = createMemoryLimiter({ replicas: 1, now: () => 0 });
      let seen: readonly Bucket[] = [];
      const limits = { address: once, total: once, ...(device && { device }) };
      ({ app } = testGateway({
        limitClasses: limited({ login: limits, link: limits }),
        callLimiter: {
          ...memory,
          take: (buckets) => {
            seen = buckets;
            return memory.take(buckets);
          },
        },
      }));
      const url = of === "login" ? "/auth/login" : "/auth/reset-password";
      await send(app, { method: "POST", url, body: {}, headers: { "gatehouse-device": token } });
      expect(seen.map(({ kind }) => kind.replace("own ", ""))).toEqual([
        `${of} address`,
        ...counted,
        `${of} total`,
      ]);
    },
  );

  test("two hundred users who use up their own limits leave a logout to others", {
    tags: "exhaustive",
  }, async () => {
    ({ app } = behindProxy());
    for (let user = 0; user < 200; user += 1) {
      const call = { url: "/auth/sessions", token: `user${user}`, ...from(`198.51.100.${user}`) };
      expect(await statuses(6, call)).toEqual([200, 200, 200, 200, 200, 429]);
    }
    expect((await logOut("192.0.2.1")).statusCode).toBe(200);
    expect(
      (await send(app, { url: "/auth/sessions", token: "owner", ...from("192.0.2.1") })).statusCode,
    ).toBe(200);
  });

  test.each([
    { what: "paths that do not exist", call: { url: "/nowhere" }, status: 404 },
    { what: "methods that a path has not", call: { method: "DELETE", url: "/auth/login" }, status: 405 },
    {
      what: "hosts that are not served",
      call: { url: "/auth/me", headers: { host: "other.test" } },
      status: 421,
    },
    { what: "targets that the guard refuses", call: { url: "/a//b" }, status: 400 },
  ])("$what are counted for their network", async ({ call, status }) => {
    ({ app } = testGateway({ limitClasses: limited({ unknown: { address: once } }) }));
    expect(await statuses(3, call as Parameters<typeof send>[1])).toEqual([status, status, 429]);
    expect((await send(app, call as Parameters<typeof send>[1])).headers["retry-after"]).toBe("30");
  });
});

describe("forwarded calls", () => {
  const route = (rateLimit: object, auth: object = { roles: ["USER"] }) =>
    routesOf([
      {
        prefix: "/things",
        upstream: "http://127.0.0.1:9",
        rateLimit,
        methods: { GET: auth, POST: { ...auth, action: "things.make" } },
      },
    ]);
  const things = { url: "/things/1", token: "user-token" };

  test("each client has the limit of a user for itself, and the audit log gets its id", async () => {
    const clientWith = (clientId: string): Verification => {
      const client = { kind: "client", userId: "", clientId, role: "", scopes: ["payments:read"] } as const;
      return { kind: "active", principal: { ...principalWith(""), ...client } };
    };
    const verdicts = new Map(["one", "other"].map((name) => [name, clientWith(name)]));
    const auth = { permissions: ["payments:read"] };
    const gateway = testGateway({
      routes: route({ perUser: once }, auth),
      verifier: verifierOfUsers(verdicts),
    });
    ({ app } = gateway);
    expect(await statuses(3, { ...things, method: "POST", token: "one" })).toEqual([502, 502, 429]);
    expect(await statuses(2, { ...things, method: "POST", token: "other" })).toEqual([502, 502]);
    const actors = gateway.entries.map(({ actor }) => `${actor.userId} ${actor.role}`);
    expect(new Set(actors)).toEqual(new Set(["one CLIENT", "other CLIENT"]));
  });

  test("beyond a user's limit: 429, and nothing is recorded or sent", async () => {
    const gateway = testGateway({ routes: route({ perUser: once }) });
    ({ app } = gateway);
    expect(await statuses(2, { ...things, method: "POST" })).toEqual([502, 502]);
    const recorded = gateway.entries.length;
    const refused = await send(app, { ...things, method: "POST" });
    expect(refused.statusCode).toBe(429);
    expect(refused.headers).toMatchObject({ "retry-after": "30", "ratelimit-limit": "2" });
    expect(gateway.entries).toHaveLength(recorded);
  });

  test("one user's calls are not another's", async () => {
    const other: Principal = { ...principalWith("USER"), userId: "0199a000-0000-7000-8000-00000000000f" };
    ({ app } = testGateway({
      routes: route({ perUser: once }),
      verifier: {
        verify: (token) => ({ kind: "active", principal: token === "other" ? other : principalWith("USER") }),
        refuseSession: () => undefined,
        nowMs: () => Date.now(),
        assertReady: () => undefined,
        close: () => undefined,
      },
    }));
    expect(await statuses(3, things)).toEqual([502, 502, 429]);
    expect(await statuses(1, { ...things, token: "other" })).toEqual([502]);
  });

  test("an address that sends wrong tokens is refused before they are looked at", async () => {
    let looks = 0;
    ({ app } = testGateway({
      routes: route({ perAddress: once }),
      verifier: {
        verify: () => {
          looks += 1;
          return { kind: "inactive", reason: "invalid" };
        },
        refuseSession: () => undefined,
        nowMs: () => Date.now(),
        assertReady: () => undefined,
        close: () => undefined,
      },
    }));
    expect(await statuses(4, things)).toEqual([401, 401, 429, 429]);
    expect(looks).toBe(2);
  });

  test("a public route is limited by address and in all", async () => {
    ({ app } = testGateway({ routes: route({ total: once }, { auth: "public" }) }));
    expect(await statuses(3, { url: "/things" })).toEqual([502, 502, 429]);
  });

  test.each([{ auth: { auth: "public" } }, { auth: { roles: ["USER"] } }])(
    "a path's other methods are counted for the network",
    async ({ auth }) => {
      ({ app } = testGateway({ routes: route({ perAddress: once }, auth) }));
      expect(await statuses(3, { url: "/things", method: "DELETE" })).toEqual([405, 405, 429]);
    },
  );

  test("on a public route a known network is not counted with all", async () => {
    ({ app } = testGateway({ routes: route({ total: once }, { auth: "public" }) }));
    expect(await statuses(3, { url: "/things" })).toEqual([502, 502, 429]);
    const { app: other } = testGateway({
      routes: route({ total: once }, { auth: "public" }),
      callLimiter: { ...createMemoryLimiter({ replicas: 1, now: () => 0 }), isKnown: () => true },
    });
    for (const _ of [1, 2, 3]) expect((await send(other, { url: "/things" })).statusCode).toBe(502);
    await other.close();
  });

  test("a forwarded call learns no limit of ours, and any number may be under way", async () => {
    ({ app } = testGateway({ routes: route({ perAddress: once }, { auth: "public" }) }));
    const answers = await Promise.all([1, 2].map(() => send(app, { url: "/things" })));
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([502, 502]);
    for (const { headers } of answers) expect(headers["ratelimit-limit"]).toBeUndefined();
  });

  test("forwarded calls wait for no count that is shared, and are distinguished from our own", async () => {
    const metrics = createMetrics("gateway");
    const memory = createMemoryLimiter({ replicas: 1, now: () => 0 });
    const asked = () => {
      throw new Error("asked");
    };
    ({ app } = testGateway({
      metrics,
      routes: route({ perUser: once }),
      callLimiter: { ...memory, take: asked, takeHere: asked },
    }));
    expect(await statuses(3, things)).toEqual([502, 502, 429]);
    const text = await metrics.render();
    expect(text).toMatch(/gatehouse_rate_limit_entries\{calls="own",.*\} 0/);
    expect(text).toMatch(/gatehouse_rate_limit_entries\{calls="proxied",.*\} 2/);
  });

  test.each([
    { of: "a network", rateLimit: { perAddress: once }, auth: { auth: "public" } },
    { of: "a user", rateLimit: { perUser: once }, auth: { roles: ["USER"] } },
    { of: "all users", rateLimit: { total: once }, auth: { roles: ["USER"] } },
    { of: "all clients", rateLimit: { total: once }, auth: { auth: "public" } },
  ])("the calls of $of to one route are not counted for another", async ({ rateLimit, auth }) => {
    const upstream = "http://127.0.0.1:9";
    const routes = ["/things", "/others"].map((prefix) => ({
      prefix,
      upstream,
      rateLimit,
      methods: { GET: auth },
    }));
    ({ app } = testGateway({ routes: routesOf(routes) }));
    expect(await statuses(3, things)).toEqual([502, 502, 429]);
    expect(await statuses(3, { ...things, url: "/others/1" })).toEqual([502, 502, 429]);
  });

  test("a route's limit for all counts the calls of all users together, and no failed proof", async () => {
    ({ app } = testGateway({ routes: route({ total: once }), verifier: verifierOfUsers() }));
    expect(await statuses(3, { url: "/things" })).toEqual([401, 401, 401]);
    expect(await statuses(1, { url: "/things", token: "ada" })).toEqual([502]);
    expect(await statuses(2, { url: "/things", token: "ben" })).toEqual([502, 429]);
    const refused = await send(app, { url: "/things", token: "ada" });
    expect(refused.headers["ratelimit-limit"]).toBeUndefined();
  });

  test("routes that are read again keep what was counted", async () => {
    const metrics = createMetrics("gateway");
    const proxies = new ProxyTable(route({ perUser: once }), metrics);
    ({ app } = testGateway({ proxies, metrics }));
    expect(await statuses(3, things)).toEqual([502, 502, 429]);
    proxies.replace(route({ perUser: once, total: once }));
    expect(await statuses(1, things)).toEqual([429]);
  });
});

/** Every route of our own, by class. A route that is not here is counted as something by accident. */
const CLASS_OF: Record<string, LimitClass> = {};
for (const [limitClass, routes] of Object.entries({
  login:
    "/auth/login /auth/login/change-password /auth/register /auth/mfa/verify /auth/forgot-password /auth/resend-verification /auth/passkeys/login /auth/passkeys/login/options",
  link: "/auth/verify-email /auth/disown-account /auth/reset-password /auth/confirm-email-change /auth/undo-email-change /auth/undo-access-change /auth/links",
  provider: "/auth/providers /auth/:provider /auth/:provider/callback /auth/oauth/exchange",
  refresh: "/auth/refresh /auth/device-session",
  logout: "/auth/logout",
  client: "/oauth/token /oauth/revoke /auth/:provider/events",
  page: "/ /account /account/* /account/assets/* /auth/return-to",
  document:
    "/.well-known/jwks.json /.well-known/oauth-authorization-server /.well-known/oauth-protected-resource",
} satisfies Partial<Record<LimitClass, string>>)) {
  for (const path of routes.split(" ")) CLASS_OF[path] = limitClass as LimitClass;
}

test("every route of our own is counted as it should be", async () => {
  ({ app } = testGateway({
    webPages: [{ path: "/account", document: "<!doctype html>", files: new Map() }],
    introspectionClients: parseIntrospectionClients(`clients: [{ id: a, secretSha256: ${"a".repeat(64)} }]`),
  }));
  const seen = new Map<string, string | undefined>();
  app.addHook("onRoute", ({ url, config }) => {
    if (config?.isProxy !== true) seen.set(url, config?.limitClass);
  });
  await app.ready();
  expect(seen.size).toBeGreaterThan(60);
  for (const [url, limitClass] of seen) {
    const path = url.replace(/^\/v1(?=\/)/, "");
    const expected =
      CLASS_OF[path] ??
      (path.startsWith("/auth/") || path.startsWith("/ssf/")
        ? "account"
        : path.startsWith("/admin/")
          ? "admin"
          : path === "/oauth/introspect"
            ? "introspection"
            : "document");
    expect([url, limitClass]).toEqual([url, expected]);
  }
  for (const path of Object.keys(CLASS_OF)) expect([...seen.keys()]).toContain(path);
});

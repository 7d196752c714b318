import { afterEach, describe, expect, test } from "vitest";
import { createMetrics } from "../service-kit/metrics.ts";
import type { Principal } from "../token-client/principal.ts";
import { createMemoryLimiter } from "./call-limiter.ts";
import { ada, principalWith, routesOf, send, testGateway } from "./gateway.fixture.ts";
import { defaultLimitClasses, type LimitClasses, limitClassesSchema, limitClassOf } from "./limit-class.ts";
import { ProxyTable } from "./proxy-table.ts";
import type { GatewayApp } from "./request-state.ts";

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
        register: () => Promise.reject(new Error("not part of this test")),
        login: () => {
          logins += 1;
          return Promise.reject(new Error("down"));
        },
        getUser: () => Promise.reject(new Error("not part of this test")),
        close: () => undefined,
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

  test("everybody together has a limit, and is not told which", async () => {
    ({ app } = testGateway({
      limitClasses: limited({ login: { address: { calls: 100, perSeconds: 60 }, total: once } }),
    }));
    expect(await statuses(2, { ...LOGIN, body: {} })).toEqual([400, 400]);
    const refused = await send(app, { ...LOGIN, body: {} });
    expect(refused.statusCode).toBe(429);
    expect(refused.headers["retry-after"]).toBe("30");
    expect(refused.headers["ratelimit-limit"]).toBeUndefined();
  });

  test("a user has a limit wherever calls come from; who has no token uses up nothing of everybody's", async () => {
    const many = { calls: 100, perSeconds: 60 };
    ({ app } = testGateway({
      limitClasses: limited({ account: { address: many, user: once, total: { calls: 4, perSeconds: 60 } } }),
      isTrustedProxy: (address) => address === "127.0.0.1",
      identity: {
        register: () => Promise.reject(new Error("not part of this test")),
        login: () => Promise.reject(new Error("not part of this test")),
        getUser: async () => ada,
        close: () => undefined,
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

  test("the keys are limited too, without a question to anybody", async () => {
    const memory = createMemoryLimiter({ replicas: 1, now: () => performance.now() });
    ({ app } = testGateway({
      limitClasses: limited({ document: { address: once, total: once } }),
      jwks: { get: async () => ({ json: "{}", maxAgeS: 60 }) },
      callLimiter: { ...memory, take: () => Promise.reject(new Error("asked")) },
    }));
    expect(await statuses(3, { url: "/.well-known/jwks.json" })).toEqual([200, 200, 429]);
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

  test("routes that are read again keep what was counted", async () => {
    const metrics = createMetrics("gateway");
    const proxies = new ProxyTable(route({ perUser: once }), metrics);
    ({ app } = testGateway({ proxies, metrics }));
    expect(await statuses(3, things)).toEqual([502, 502, 429]);
    proxies.replace(route({ perUser: once, total: once }));
    expect(await statuses(1, things)).toEqual([429]);
  });
});

test.each([
  ["/auth/login", "login"],
  ["/v1/auth/login/change-password", "login"],
  ["/auth/mfa/verify", "login"],
  ["/auth/refresh", "refresh"],
  ["/auth/:provider/callback", "provider"],
  ["/auth/oauth/exchange", "provider"],
  ["/auth/reset-password", "link"],
  ["/auth/me", "account"],
  ["/auth/mfa/enable", "account"],
  ["/admin/users/:id", "admin"],
  ["/oauth/introspect", "introspection"],
  ["/.well-known/jwks.json", "document"],
])("%s is counted as %s", (pattern, expected) => {
  app = testGateway().app;
  expect(limitClassOf(pattern)).toBe(expected);
});

test("limits are changed one by one", () => {
  app = testGateway().app;
  const classes = limitClassesSchema.parse("login.address=10/1, admin.user=5/60");
  expect(classes.login).toEqual({
    address: { calls: 10, perSeconds: 1 },
    total: defaultLimitClasses().login.total,
  });
  expect(classes.admin.user).toEqual({ calls: 5, perSeconds: 60 });
});

test.each([
  ["login", "must be like"],
  ["logins.address=1/1", "must be of login, link"],
  ["login.user=1/1", "must be of address, total"],
  ["login.address=0/1", "must be 1 to"],
  ["login.address=1/3601", "must be 1 to"],
  ["constructor.name=1/1", "must be of"],
])("%s is no limit", (text, problem) => {
  app = testGateway().app;
  const { error } = limitClassesSchema.safeParse(text);
  expect(error?.issues[0]?.message).toContain(`${text}: ${problem}`);
});

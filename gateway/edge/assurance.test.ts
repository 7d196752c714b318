import { expect, onTestFinished, test, vi } from "vitest";
import type { AssuranceLevel } from "#token-client/assurance.ts";
import type { Verification } from "#token-client/principal.ts";
import { principalWith, routesOf, send, testGateway, verifierOfUsers } from "../testing/test-gateway.ts";
import { challengeOf } from "./answers/http-errors.ts";

interface Demand {
  acr: AssuranceLevel;
  maxAgeSeconds?: number;
}

const PASSKEY = ["passkey"];
const CODES = [...PASSKEY, "totp", "recovery_code"];
const ANY = [...CODES, "password"];
const FRESH: Demand[] = [
  { acr: 1, maxAgeSeconds: 300 },
  { acr: 2, maxAgeSeconds: 300 },
  { acr: 3, maxAgeSeconds: 300 },
];
const LEVELS: Demand[] = [{ acr: 2 }, { acr: 3 }];

/** The level of the token, the age of its proof in seconds, the demand, and the methods of a refusal. */
const ROWS: [AssuranceLevel, number, Demand, string[] | "passes"][] = [
  ...([2, 3] as const).flatMap((level): typeof ROWS =>
    [0, 86_400].map((age) => [level, age, { acr: 2 }, "passes"]),
  ),
  [3, 86_400, { acr: 3 }, "passes"],
  [1, 0, { acr: 2 }, CODES],
  [1, 0, { acr: 3 }, PASSKEY],
  [2, 0, { acr: 3 }, PASSKEY],
  ...([1, 2, 3] as const).flatMap((level): typeof ROWS =>
    FRESH.filter(({ acr }) => acr <= level).map((demand) => [level, 295, demand, "passes"]),
  ),
  [1, 305, { acr: 1, maxAgeSeconds: 300 }, ANY],
  [2, 305, { acr: 1, maxAgeSeconds: 300 }, CODES],
  [3, 305, { acr: 1, maxAgeSeconds: 300 }, PASSKEY],
  [1, 0, { acr: 2, maxAgeSeconds: 300 }, CODES],
  [1, 305, { acr: 2, maxAgeSeconds: 300 }, CODES],
  [2, 305, { acr: 2, maxAgeSeconds: 300 }, CODES],
  [3, 305, { acr: 2, maxAgeSeconds: 300 }, PASSKEY],
  [1, 0, { acr: 3, maxAgeSeconds: 300 }, PASSKEY],
  [1, 305, { acr: 3, maxAgeSeconds: 300 }, PASSKEY],
  [2, 0, { acr: 3, maxAgeSeconds: 300 }, PASSKEY],
  [2, 305, { acr: 3, maxAgeSeconds: 300 }, PASSKEY],
  [3, 305, { acr: 3, maxAgeSeconds: 300 }, PASSKEY],
];

test("the rows have every pair of a level and a demand", () => {
  const pairs = ROWS.map(([level, _age, demand]) => `${level} ${JSON.stringify(demand)}`);
  expect(new Set(pairs).size).toBe(3 * (LEVELS.length + FRESH.length));
});

function gatewayFor(acr: AssuranceLevel, ageS: number, parts: Parameters<typeof testGateway>[0] = {}) {
  const principal = { ...principalWith("ADMIN"), acr, authTime: new Date(Date.now() - ageS * 1_000) };
  const verdict: Verification = { kind: "active", principal };
  return testGateway({ ...parts, verifier: verifierOfUsers(new Map([["token", verdict]])) });
}

const CALL = { headers: { authorization: "Bearer token" } };

test.each(ROWS)(
  "level %i, proven %i s ago, with the demand %j: %j",
  async (level, ageS, demand, expected) => {
    const { acr, maxAgeSeconds } = demand;
    const demanding = gatewayFor(level, ageS, {
      adminAssurance: demand,
      users: { listUsers: async () => ({ users: [], nextCursor: "", total: 0, totalIs: 0 }) },
    });
    const answer = await send(demanding.app, { method: "GET", url: "/admin/users", ...CALL });
    if (expected === "passes") {
      expect(answer.statusCode).toBe(200);
      return;
    }
    expect(answer.statusCode).toBe(401);
    const age = maxAgeSeconds === undefined ? "" : `, max_age=${maxAgeSeconds}`;
    expect(answer.headers["www-authenticate"]).toBe(
      `Bearer error="insufficient_user_authentication", acr_values="urn:gatehouse:acr:${acr}"${age}`,
    );
    const { error } = answer.json();
    expect(error).toMatchObject({ code: "step_up_required" });
    expect(error.details).toEqual({ ...demand, methods: expected });
  },
);

test("a proxied method has its own demand, nothing below it reaches the upstream, and the refusal has its user", async () => {
  const routes = routesOf([
    {
      prefix: "/payments",
      upstream: "http://127.0.0.1:9",
      methods: {
        GET: { auth: "authenticated" },
        POST: { roles: ["ADMIN"], action: "payments.create", assurance: { acr: 2, maxAgeSeconds: 300 } },
      },
    },
  ]);
  const { app, entries } = gatewayFor(1, 0, { routes });
  const call = (method: "GET" | "POST", url: string) => send(app, { method, url, ...CALL });
  for (const url of ["/payments", "/payments/7", "/v1/payments"]) {
    const refused = await call("POST", url);
    expect([refused.statusCode, refused.json().error.code]).toEqual([401, "step_up_required"]);
    expect((await call("GET", url)).statusCode).toBe(502);
  }
  const refusal = { kind: "outcome", action: "payments.create", errorCode: "step_up_required" };
  const recorded = { ...refusal, actor: { role: "ADMIN" } };
  expect(entries).toMatchObject([recorded, recorded, recorded]);
  const passed = gatewayFor(2, 0, { routes });
  expect((await send(passed.app, { method: "POST", url: "/payments", ...CALL })).statusCode).toBe(502);
});

test.each([-10_000, 10_000])(
  "with its own clock wrong by %d ms, the gateway counts ages by the time of token-service",
  async (aheadMs) => {
    const wallMs = Date.now();
    vi.spyOn(Date, "now").mockImplementation(() => wallMs + aheadMs);
    onTestFinished(() => void vi.restoreAllMocks());
    const statusAt = async (ageS: number) => {
      const authTime = new Date(wallMs - ageS * 1_000);
      const verdict: Verification = { kind: "active", principal: { ...principalWith("ADMIN"), authTime } };
      const { app } = testGateway({
        verifier: { ...verifierOfUsers(new Map([["token", verdict]])), nowMs: () => wallMs },
        adminAssurance: { acr: 1, maxAgeSeconds: 300 },
        users: { listUsers: async () => ({ users: [], nextCursor: "", total: 0, totalIs: 0 }) },
      });
      return (await send(app, { method: "GET", url: "/admin/users", ...CALL })).statusCode;
    };
    const statuses = [await statusAt(0), await statusAt(300), await statusAt(301), await statusAt(-6)];
    expect(statuses).toEqual([200, 200, 401, 401]);
  },
);

test.each(["Bearer", "DPoP"])(
  "without a demand of its own, a step-up is challenged for by %s too",
  (scheme) => {
    expect(challengeOf("step_up_required", `${scheme} token`)).toMatch(
      new RegExp(`^${scheme} error="insufficient_user_authentication", max_age=300`),
    );
  },
);

test("problem details have the demand too", async () => {
  const { app } = gatewayFor(1, 0, { adminAssurance: { acr: 2 } });
  const headers = { ...CALL.headers, accept: "application/problem+json" };
  const answer = await send(app, { method: "GET", url: "/admin/audit", headers });
  expect(answer.json()).toMatchObject({ status: 401, code: "step_up_required" });
  expect(answer.json().details).toEqual({ acr: 2, methods: CODES });
});

test("every route under /admin demands the level of the setting", async () => {
  const { app } = gatewayFor(1, 0, { adminAssurance: { acr: 2 } });
  const { paths } = (await send(app, { method: "GET", url: "/openapi.json" })).json();
  const routes = Object.entries<object>(paths)
    .filter(([path]) => path.startsWith("/admin"))
    .flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({ path, method: method.toUpperCase() })),
    );
  expect(routes.length).toBeGreaterThan(25);
  const open: string[] = [];
  for (const { path, method } of routes.filter(
    ({ method }) => /^[A-Z]+$/.test(method) && method !== "PARAMETERS",
  )) {
    const url = path.replace(/\{[^}]+\}/g, "019a0000-0000-7000-8000-00000000000a");
    const answer = await send(app, { method: method as "GET", url, ...CALL });
    if (answer.statusCode !== 401 || answer.json().error.code !== "step_up_required")
      open.push(`${method} ${path}`);
  }
  expect(open).toEqual([]);
});

test("without a setting, administration needs no second factor", async () => {
  const { app } = gatewayFor(1, 86_400, {
    users: { listUsers: async () => ({ users: [], nextCursor: "", total: 0, totalIs: 0 }) },
  });
  expect((await send(app, { method: "GET", url: "/admin/users", ...CALL })).statusCode).toBe(200);
});

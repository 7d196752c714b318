import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import type { Verification } from "#token-client/principal.ts";
import { principalWith, routesOf, SESSION_ID, send, testGateway, USER_ID } from "../testing/test-gateway.ts";

const actor = { userId: USER_ID, sessionId: SESSION_ID, role: "USER" };
const subject = { ...actor, kind: "user", clientId: "", scopes: [] } as const;
const VERDICTS: Record<string, Verification> = {
  "user-token": { kind: "active", principal: principalWith("USER") },
  "revoked-token": { kind: "inactive", reason: "revoked", subject },
  "expired-token": { kind: "inactive", reason: "expired", subject },
  "unsigned-token": { kind: "inactive", reason: "expired" },
};
const invalid: Verification = { kind: "inactive", reason: "invalid" };
const routes = routesOf([
  {
    prefix: "/payments",
    upstream: "http://127.0.0.1:9",
    methods: { GET: { roles: ["ADMIN"] }, DELETE: { roles: ["ADMIN"], action: "payments.delete" } },
  },
]);

function gateway() {
  const metrics = createMetrics("gateway");
  const made = testGateway({
    metrics,
    routes,
    verifier: {
      verify: (token) => VERDICTS[token] ?? invalid,
      refuseSession: () => undefined,
      nowMs: () => Date.now(),
      assertReady: () => undefined,
      close: () => undefined,
    },
  });
  const call = (method: "GET" | "POST" | "PATCH" | "DELETE", url: string, token: string) =>
    send(made.app, { method, url, headers: { authorization: `Bearer ${token}` } });
  return { ...made, call, leftOut: async () => /left_out_total\S* (\d+)/.exec(await metrics.render())?.[1] };
}

describe("a refused call of a known caller is one outcome in the audit log", () => {
  test.each([
    { method: "PATCH", url: `/admin/users/${USER_ID}`, action: "admin.users.update", resource: USER_ID },
    { method: "DELETE", url: "/payments/7", action: "payments.delete", resource: "7" },
    { method: "GET", url: "/payments/7", action: "call.refused", resource: "7" },
  ] as const)("$method $url without the role", async ({ method, url, action, resource }) => {
    const { call, entries } = gateway();
    expect((await call(method, url, "user-token")).statusCode).toBe(403);
    expect(entries).toMatchObject([
      {
        kind: "outcome",
        outcome: "failure",
        errorCode: "forbidden",
        httpStatus: 403,
        actor: { userId: USER_ID, role: "USER", sessionId: SESSION_ID },
        method,
        action,
        resource,
      },
    ]);
  });

  test.each([
    ["revoked-token", "token_invalid"],
    ["expired-token", "token_expired"],
  ])("a changing call with a %s", async (token, errorCode) => {
    const { call, entries } = gateway();
    expect((await call("POST", "/auth/logout", token)).statusCode).toBe(401);
    expect(entries).toMatchObject([
      {
        kind: "outcome",
        outcome: "failure",
        errorCode,
        httpStatus: 401,
        actor,
        action: "auth.logout",
      },
    ]);
  });
});

test("a token whose signature nobody checked names nobody, and reading with one that is over is not recorded", async () => {
  const { call, entries } = gateway();
  for (const token of ["unsigned-token", "forged"]) await call("POST", "/auth/logout", token);
  for (const token of ["revoked-token", "expired-token"]) await call("GET", "/auth/me", token);
  await send(gateway().app, { method: "POST", url: "/auth/logout" });
  expect(entries).toEqual([]);
});

test("a user's refusals are recorded ten times, and then counted", async () => {
  // The clock stands still, so that the bucket does not refill on a slow machine.
  const nowMs = vi.spyOn(performance, "now").mockReturnValue(performance.now());
  onTestFinished(() => nowMs.mockRestore());
  const { call, entries, leftOut } = gateway();
  for (let times = 0; times < 15; times += 1) await call("DELETE", "/payments/7", "user-token");
  expect(entries).toHaveLength(10);
  expect(await leftOut()).toBe("5");
});

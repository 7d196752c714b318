import fastify from "fastify";
import { afterEach, expect, test, vi } from "vitest";
import { type BearerAuthOptions, fastifyBearerAuth, principalIn } from "./fastify.ts";
import { type TestPrincipal, TestVerifier } from "./testing.ts";

afterEach(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

const ADA = { userId: "ada", role: "USER" } as const;
const SHOP = { kind: "client", clientId: "shop", scopes: ["payments:read"] } as const;

async function callsOf(verifier: BearerAuthOptions["verifier"]) {
  const app = fastify();
  await app.register(fastifyBearerAuth, { verifier });
  const auth = { roles: ["USER"], scopes: ["payments:read"] };
  app.get("/", { config: { auth } }, async (request) => principalIn(request));
  const assurance = { acr: 2, maxAgeSeconds: 300 } as const;
  app.get("/transfers", { config: { auth, assurance } }, async () => ({}));
  return async (token: string, url = "/") => {
    const answer = await app.inject({ url, headers: { authorization: `Bearer ${token}` } });
    return answer.statusCode === 200 ? answer.json() : answer.json().error.code;
  };
}

test("what it issues is accepted with the principal that was asked for, and nothing else is", async () => {
  const verifier = new TestVerifier();
  const call = await callsOf(verifier);
  expect(await call(verifier.issue({ ...ADA, sessionId: "s" }))).toMatchObject({
    kind: "user",
    userId: "ada",
    role: "USER",
    sessionId: "s",
    clientId: "",
    scopes: [],
    acr: 1,
  });
  expect(await call(verifier.issue(SHOP))).toMatchObject({ ...SHOP, userId: "", role: "" });
  expect(await call(verifier.issue({ ...ADA, role: "CLERK" }))).toBe("forbidden");
  expect(await call(verifier.issue({ ...SHOP, scopes: ["payments:write"] }))).toBe("forbidden");
  expect(await call(new TestVerifier().issue(ADA))).toBe("token_invalid");
});

test("the end of a session ends its tokens, and the revocation of a client's token that token alone", async () => {
  const verifier = new TestVerifier();
  const call = await callsOf(verifier);
  const phone = [1, 2].map(() => verifier.issue({ ...ADA, sessionId: "phone" }));
  const laptop = verifier.issue(ADA);
  const [key, otherKey] = [1, 2].map(() => verifier.issue({ ...SHOP, sessionId: "credential" }));
  verifier.revoke(phone[0] ?? "");
  verifier.revoke(key ?? "");
  for (const token of [...phone, key ?? ""]) expect(await call(token)).toBe("token_invalid");
  for (const token of [laptop, otherKey ?? ""]) expect(await call(token)).toHaveProperty("sessionId");
  verifier.revokeSession("credential");
  verifier.revokeUser("ada");
  for (const token of [laptop, otherKey ?? ""]) expect(await call(token)).toBe("token_invalid");
  expect(verifier.verify(laptop)).toMatchObject({ reason: "revoked", subject: ADA });
  expect(await call(verifier.issue(ADA))).toHaveProperty("userId", "ada");
});

test("a token expires by a call, or by the clock of the test", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const verifier = new TestVerifier();
  const call = await callsOf(verifier);
  const [ended, lasting] = [verifier.issue(ADA), verifier.issue(ADA)];
  verifier.expire(ended);
  expect(await call(ended)).toBe("token_expired");
  expect(await call(lasting)).toHaveProperty("userId");
  vi.setSystemTime(Date.now() + 3_600_000);
  expect(await call(lasting)).toBe("token_expired");
});

test("a step-up is demanded by the level and its age", async () => {
  const verifier = new TestVerifier();
  const call = await callsOf(verifier);
  const transfer = (principal: object) => call(verifier.issue({ ...ADA, ...principal }), "/transfers");
  expect(await transfer({})).toBe("step_up_required");
  expect(await transfer({ acr: 2 })).toEqual({});
  expect(await transfer({ acr: 3, authTime: new Date(Date.now() - 600_000) })).toBe("step_up_required");
  expect(await call(verifier.issue(SHOP), "/transfers")).toBe("user_required");
});

test("while it is unavailable every call is a 503, and readiness fails", async () => {
  const verifier = new TestVerifier();
  const call = await callsOf(verifier);
  const token = verifier.issue(ADA);
  verifier.isAvailable = false;
  expect(await call(token)).toBe("service_unavailable");
  expect(() => verifier.assertReady()).toThrow();
  verifier.isAvailable = true;
  expect(await call(token)).toHaveProperty("userId");
});

test("principals that no token has are refused, and tokens of others", () => {
  const verifier = new TestVerifier();
  const impossible = [
    { userId: "", role: "USER" },
    { userId: "ada", role: "user" },
    { userId: "ada" },
    { ...ADA, sessionId: "" },
    { ...ADA, acr: 4 },
    { ...SHOP, scopes: [] },
    { kind: "client", scopes: ["payments:read"] },
  ];
  for (const principal of impossible)
    expect(() => verifier.issue(principal as TestPrincipal), JSON.stringify(principal)).toThrow(
      /need|empty|acr/,
    );
  for (const act of ["revoke", "expire"] as const)
    expect(() => verifier[act]("a token of somebody else")).toThrow("has not issued");
});

test("it does not start in production", () => {
  vi.stubEnv("NODE_ENV", "production");
  expect(() => new TestVerifier()).toThrow("NODE_ENV is production");
});

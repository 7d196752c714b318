import fastify, { type FastifyRequest } from "fastify";
import { expect, test } from "vitest";
import { DomainError } from "../service-kit/errors.ts";
import { fastifyBearerAuth, principalIn } from "./fastify-bearer-auth.ts";
import type { Role, Verification } from "./principal.ts";

function active(role: Role): Verification {
  const at = new Date(0);
  const times = { authTime: at, issuedAt: at, expiresAt: at };
  return {
    kind: "active",
    principal: {
      userId: `a ${role}`,
      role,
      sessionId: "s",
      tokenId: "t",
      keyId: "k",
      amr: ["pwd"],
      acr: 1,
      ...times,
    },
  };
}

const VERDICTS: Record<string, Verification> = {
  user: active("USER"),
  admin: active("ADMIN"),
  expired: { kind: "inactive", reason: "expired" },
  revoked: { kind: "inactive", reason: "revoked" },
};

async function app() {
  const instance = fastify();
  await instance.register(fastifyBearerAuth, {
    verifier: {
      verify(token) {
        if (token === "unknowable")
          throw new DomainError("service_unavailable", "away", { retryAfterMs: 1_500 });
        if (token === "many") throw new DomainError("too_many_requests", "many", { retryAfterMs: 2_001 });
        if (token === "strange") throw new DomainError("conflict");
        if (token === "bug") throw new TypeError("a bug");
        if (token === "foreign") throw Object.assign(new Error("of another library"), { statusCode: 418 });
        return VERDICTS[token] ?? { kind: "inactive", reason: "invalid" };
      },
    },
  });
  instance.get("/open", { config: { auth: "public" } }, async (request) => ({
    principal: request.principal,
  }));
  instance.get("/any", { config: { auth: "authenticated" } }, async (request) => principalIn(request).userId);
  instance.get(
    "/admin",
    { config: { auth: { roles: ["ADMIN"] } } },
    async (request) => principalIn(request).userId,
  );
  instance.get("/nobody", { config: { auth: "public" } }, async (request) => principalIn(request).userId);
  return instance;
}

test.each([
  ["/open", undefined, 200, undefined],
  ["/open", "Bearer nonsense", 200, undefined],
  ["/any", "Bearer user", 200, undefined],
  ["/any", "bEaReR user", 200, undefined],
  ["/admin", "Bearer admin", 200, undefined],
  ["/admin", "Bearer user", 403, undefined],
  ["/any", undefined, 401, "Bearer"],
  ["/any", "Basic dXNlcjp4", 401, "Bearer"],
  ["/any", "Bearer ", 401, 'Bearer error="invalid_token"'],
  ["/any", "Bearer user user", 401, 'Bearer error="invalid_token"'],
  ["/any", "Bearer revoked", 401, 'Bearer error="invalid_token"'],
  ["/any", "Bearer expired", 401, 'Bearer error="invalid_token"'],
  ["/any", "Bearer unknowable", 503, undefined],
  ["/any", "Bearer strange", 500, undefined],
  ["/any", "Bearer bug", 500, undefined],
  ["/any", "Bearer foreign", 418, undefined],
  ["/nobody", "Bearer user", 500, undefined],
  ["/nowhere", undefined, 404, undefined],
  ["/nowhere", "Bearer bug", 404, undefined],
])("%s with %j: %i", async (url, authorization, status, challenge) => {
  const instance = await app();
  const answer = await instance.inject({
    url,
    headers: authorization === undefined ? {} : { authorization },
  });
  expect(answer.statusCode).toBe(status);
  expect(answer.headers["www-authenticate"]).toBe(challenge);
  expect(answer.headers["retry-after"]).toBe(status === 503 ? "2" : undefined);
});

test("too many attempts are answered with the time to wait, in whole seconds", async () => {
  const instance = await app();
  const answer = await instance.inject({ url: "/any", headers: { authorization: "Bearer many" } });
  expect([answer.statusCode, answer.headers["retry-after"]]).toEqual([429, "3"]);
});

test("a public route has no principal, and other handlers have the caller's", async () => {
  const instance = await app();
  const open = await instance.inject({ url: "/open", headers: { authorization: "Bearer user" } });
  expect(open.json()).toEqual({ principal: null });
  const any = await instance.inject({ url: "/any", headers: { authorization: "Bearer user" } });
  expect(any.body).toBe("a USER");
});

test("principalIn() throws on a public route", () => {
  const request = { principal: null, routeOptions: { url: "/open" } } as FastifyRequest;
  expect(() => principalIn(request)).toThrow(/public/);
});

test("other plugins can depend on it by name", async () => {
  expect((await app()).hasPlugin("gatehouse-bearer-auth")).toBe(true);
});

test("an empty configuration also stops the start", async () => {
  const instance = await app();
  expect(() => instance.route({ method: "GET", url: "/bare", config: {}, handler: async () => "" })).toThrow(
    /has no config.auth/,
  );
});

test("a route without config.auth stops the start", async () => {
  const instance = await app();
  expect(() => instance.get("/forgotten", async () => "open to all?")).toThrow(/has no config.auth/);
});

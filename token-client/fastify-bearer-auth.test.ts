import fastify from "fastify";
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
  ["/nowhere", undefined, 404, undefined],
])("%s with %j: %i", async (url, authorization, status, challenge) => {
  const instance = await app();
  const answer = await instance.inject({
    url,
    headers: authorization === undefined ? {} : { authorization },
  });
  expect(answer.statusCode).toBe(status);
  expect(answer.headers["www-authenticate"]).toBe(challenge);
  if (status === 503) expect(answer.headers["retry-after"]).toBe("2");
});

test("a route that does not say who may call it stops the start", async () => {
  const instance = await app();
  expect(() => instance.get("/forgotten", async () => "open to all?")).toThrow(
    /does not say who may call it/,
  );
});

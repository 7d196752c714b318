import fastify, { type FastifyRequest, LogController } from "fastify";
import { expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { type BearerAuthOptions, fastifyBearerAuth, principalIn } from "./fastify-bearer-auth.ts";
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
      kind: "user",
      clientId: "",
      scopes: [],
      amr: ["pwd"],
      acr: 1,
      ...times,
    },
  };
}

const user = active("USER");
const confirmation = { jkt: "k", x5tS256: "" };
const bound: Verification =
  user.kind === "active" ? { ...user, principal: { ...user.principal, confirmation } } : user;

const VERDICTS: Record<string, Verification> = {
  bound,
  user: active("USER"),
  admin: active("ADMIN"),
  expired: { kind: "inactive", reason: "expired" },
  revoked: { kind: "inactive", reason: "revoked" },
};

let addresses: (string | undefined)[] = [];

async function app(acceptsBound = true, options: Partial<BearerAuthOptions> = {}, lines: string[] = []) {
  addresses = [];
  const instance = fastify({
    logger: { stream: { write: (line: string) => void lines.push(line) } },
    logController: new LogController({ disableRequestLogging: true }),
  });
  await instance.register(fastifyBearerAuth, {
    ...options,
    verifier: {
      verify(token, clientIp) {
        if (token === "unknowable")
          throw new DomainError("service_unavailable", "away", { retryAfterMs: 1_500 });
        if (token === "many") throw new DomainError("too_many_requests", "many", { retryAfterMs: 2_001 });
        if (token === "strange") throw new DomainError("conflict");
        if (token === "bug") throw new TypeError("a bug");
        if (token === "foreign") throw Object.assign(new Error("of another library"), { statusCode: 418 });
        addresses.push(clientIp);
        return VERDICTS[token] ?? { kind: "inactive", reason: "invalid" };
      },
      nowMs: () => Date.now(),
      acceptsBound,
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
  ["/admin", "Bearer user", 403, 'Bearer error="insufficient_scope"'],
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

test("a refusal is answered as the gateway does, whatever handler and schema the application has, and logged by a line", async () => {
  const lines: string[] = [];
  const instance = await app(true, {}, lines);
  instance.setErrorHandler((_error, _request, reply) => reply.code(500).send("not reached"));
  const schema = { response: { "4xx": { type: "object", properties: {} } } };
  instance.get("/strict", { config: { auth: "authenticated" }, schema }, async () => "");
  for (const method of ["GET", "HEAD"] as const) {
    const answer = await instance.inject({ url: "/strict", method, headers: { authorization: "Bearer x" } });
    expect(answer.statusCode).toBe(401);
    expect(answer.headers).toMatchObject({
      "cache-control": "no-store",
      "content-type": "application/json; charset=utf-8",
    });
    const message = "The access token was not issued here, is malformed or has been revoked.";
    if (method === "GET")
      expect(answer.json()).toEqual({ success: false, message, error: { code: "token_invalid" } });
    else expect(answer.body).toBe("");
  }
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ level: 30, errorCode: "token_invalid" }),
    expect.objectContaining({ level: 30, errorCode: "token_invalid" }),
  ]);
});

test("with onRefusal next the error handler of the application answers, and keeps the headers", async () => {
  const instance = await app(true, { onRefusal: "next" });
  const answer = await instance.inject({ url: "/any", headers: { authorization: "Bearer unknowable" } });
  expect(answer.json()).toMatchObject({ statusCode: 503, code: "service_unavailable" });
  expect(answer.headers).toMatchObject({ "retry-after": "2", "cache-control": "no-store" });
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

test("a route demands a level and a recent proof of it, by the challenge of RFC 9470", async () => {
  const nowMs = Date.now() - 86_400_000;
  const provenMs = { fresh: nowMs, old: nowMs - 3_600_000 };
  const principalOf = (acr: 1 | 2, authTimeMs: number): Verification => {
    const verification = active("USER");
    if (verification.kind !== "active") throw new Error("not active");
    return {
      ...verification,
      principal: { ...verification.principal, acr, authTime: new Date(authTimeMs) },
    };
  };
  const verdicts: Record<string, Verification> = {
    low: principalOf(1, provenMs.fresh),
    old: principalOf(2, provenMs.old),
    high: principalOf(2, provenMs.fresh),
  };
  const invalid: Verification = { kind: "inactive", reason: "invalid" };
  const instance = fastify();
  await instance.register(fastifyBearerAuth, {
    // Behind the clock of this machine.
    verifier: {
      verify: (token) => verdicts[token] ?? invalid,
      nowMs: () => Date.now() - 86_400_000,
      acceptsBound: false,
    },
  });
  const config = { auth: "authenticated", assurance: { acr: 2, maxAgeSeconds: 300 } } as const;
  instance.get("/pay", { config }, async () => "paid");
  const call = (token: string) =>
    instance.inject({ url: "/pay", headers: { authorization: `Bearer ${token}` } });
  for (const token of ["low", "old"]) {
    const answer = await call(token);
    expect([answer.statusCode, answer.json().error.code]).toEqual([401, "step_up_required"]);
    expect(answer.headers["www-authenticate"]).toBe(
      'Bearer error="insufficient_user_authentication", acr_values="urn:gatehouse:acr:2", max_age=300',
    );
  }
  expect((await call("high")).body).toBe("paid");
  expect((await call("x")).headers["www-authenticate"]).toBe('Bearer error="invalid_token"');
});

test("a public route that demands a level stops the start", async () => {
  const instance = fastify();
  await instance.register(fastifyBearerAuth, {
    verifier: { verify: () => active("USER"), nowMs: () => 0, acceptsBound: false },
  });
  const config = { auth: "public", assurance: { acr: 2 } } as const;
  expect(() => instance.get("/open", { config }, async () => "")).toThrow(
    "GET /open is public and demands a level of assurance",
  );
});

test("a token of a key, which the verifier accepts because its proof is checked, comes with its scheme only", async () => {
  const instance = await app();
  const call = (authorization: string) => instance.inject({ url: "/any", headers: { authorization } });
  expect((await call("DPoP bound")).statusCode).toBe(200);
  for (const authorization of ["Bearer bound", "DPoP user", "DPoP expired"]) {
    const answer = await call(authorization);
    expect([answer.statusCode, answer.headers["www-authenticate"]]).toEqual([
      401,
      'DPoP error="invalid_token"',
    ]);
  }
});

test("where no proofs are checked, DPoP is another scheme", async () => {
  const instance = await app(false);
  for (const authorization of ["DPoP bound", "DPoP user", "DPoP"]) {
    const answer = await instance.inject({ url: "/any", headers: { authorization } });
    expect([answer.json().error.code, answer.headers["www-authenticate"]]).toEqual([
      "token_missing",
      "Bearer",
    ]);
  }
  expect(addresses).toEqual([]);
});

test("a client has the share of its network, by its address; a neighbour speaks for many", async () => {
  const instance = await app();
  for (const remoteAddress of ["127.0.0.1", "198.51.100.1"])
    await instance.inject({ url: "/any", headers: { authorization: "Bearer user" }, remoteAddress });
  expect(addresses).toEqual([undefined, "198.51.100.1"]);
});

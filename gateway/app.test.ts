import { expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { account, ada, completedLogin, HOST, send, testGateway } from "./testing/test-gateway.ts";

const login = { email: ada.email, password: "correct horse" };

test("a route without auth or limitClass, or a mutating one without action, stops the start", async () => {
  const { app } = testGateway();
  expect(() => app.get("/x", async () => "")).toThrow(/GET \/x has no config.auth/);
  expect(() => app.get("/x", { config: { auth: { roles: [] } } }, async () => "")).toThrow(/allows no role/);
  expect(() =>
    app.delete("/x", { config: { auth: "public", limitClass: "account" } }, async () => ""),
  ).toThrow(/no audit action/);
  expect(() => app.get("/x", { config: { auth: "public" } }, async () => "")).toThrow(
    /GET \/x has no config.limitClass/,
  );
});

test("a path that is not there is 404, in the documented shape and with the standard headers", async () => {
  const { app } = testGateway();
  const response = await send(app, { url: "/nothing/here" });
  const requestId = response.headers["x-request-id"];
  expect(response.statusCode).toBe(404);
  expect(requestId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
  expect(response.json()).toEqual({
    success: false,
    message: expect.any(String),
    error: { code: "not_found", requestId },
  });
  expect(response.headers).toMatchObject({
    "content-type": "application/json; charset=utf-8",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "content-security-policy": expect.stringContaining("default-src 'none'"),
  });
  expect(response.headers.server).toBeUndefined();
  expect(response.headers["strict-transport-security"]).toBeUndefined();
});

test.each([
  "/AUTH/me",
  "/auth/me/",
  "/auth/me;x=1",
  "/auth/me%20",
  "/%2561uth/me",
  "/auth/mee",
  "/v2/auth/me",
])("%s is no spelling of /auth/me", async (url) => {
  const { app } = testGateway();
  expect((await send(app, { url, token: "user-token" })).statusCode).toBe(404);
});

test("another spelling that the router takes is protected like the plain one", async () => {
  const { app } = testGateway();
  expect((await send(app, { url: "/%61uth/me" })).json().error.code).toBe("token_missing");
});

test("a known path with another method is 405 and says which there are; OPTIONS asks the same", async () => {
  const { app } = testGateway();
  for (const url of ["/auth/login", "/v1/auth/login"]) {
    const wrong = await send(app, { method: "PUT", url, body: {} });
    expect(wrong.statusCode).toBe(405);
    expect(wrong.headers.allow).toBe("POST, OPTIONS");
    expect(wrong.json().error.code).toBe("method_not_allowed");
    const options = await send(app, { method: "OPTIONS", url });
    expect(options.statusCode).toBe(204);
    expect(options.headers.allow).toBe("POST, OPTIONS");
  }
  const sessions = await send(app, {
    method: "GET",
    url: "/auth/sessions/0199a000-0000-7000-8000-000000000002",
  });
  expect(sessions.headers.allow).toBe("DELETE, OPTIONS");
});

test("HEAD is answered and protected as GET is", async () => {
  const { app } = testGateway({
    identity: { getUser: async () => account },
  });
  const anonymous = await send(app, { method: "HEAD", url: "/auth/me" });
  expect(anonymous.statusCode).toBe(401);
  expect(anonymous.body).toBe("");
  const known = await send(app, { method: "HEAD", url: "/auth/me", token: "user-token" });
  expect(known.statusCode).toBe(200);
  expect(known.body).toBe("");
});

test.each([
  {
    header: undefined,
    code: "token_missing",
    challenge: 'Bearer error="invalid_request", realm="gatehouse"',
  },
  {
    header: "Basic YTpi",
    code: "token_missing",
    challenge: 'Bearer error="invalid_request", realm="gatehouse"',
  },
  { header: "Bearer", code: "token_invalid", challenge: /error="invalid_token"/ },
  { header: "Bearer a b", code: "token_invalid", challenge: /error="invalid_token"/ },
  { header: "Bearer unheard-of", code: "token_invalid", challenge: /error="invalid_token"/ },
  { header: "Bearer revoked-token", code: "token_invalid", challenge: /error="invalid_token"/ },
  { header: "Bearer expired-token", code: "token_expired", challenge: /error="invalid_token"/ },
  { header: `Bearer ${"a".repeat(4_097)}`, code: "token_invalid", challenge: /error="invalid_token"/ },
])("Authorization: $header is 401 $code", async ({ header, code, challenge }) => {
  const { app } = testGateway();
  const response = await send(app, {
    url: "/auth/me",
    ...(header && { headers: { authorization: header } }),
  });
  expect(response.statusCode).toBe(401);
  expect(response.json().error.code).toBe(code);
  if (typeof challenge === "string") expect(response.headers["www-authenticate"]).toBe(challenge);
  else expect(response.headers["www-authenticate"]).toMatch(challenge);
});

test("the scheme's name has no case", async () => {
  const { app } = testGateway({ identity: { getUser: async () => account } });
  for (const scheme of ["bearer", "BEARER", "Bearer"]) {
    const headers = { authorization: `${scheme} user-token` };
    expect((await send(app, { url: "/auth/me", headers })).statusCode).toBe(200);
  }
});

test("when a token's state cannot be known the answer is 503, not 401 and not 200", async () => {
  const { app } = testGateway({
    verifier: {
      verify: () => Promise.reject(new DomainError("service_unavailable")),
      refuseSession: () => undefined,
      nowMs: () => Date.now(),
      assertReady: () => undefined,
      close: () => undefined,
    },
  });
  const response = await send(app, { url: "/auth/me", token: "user-token" });
  expect(response.statusCode).toBe(503);
  expect(response.headers["retry-after"]).toBe("1");
  expect(response.json().error.code).toBe("service_unavailable");
});

test("a caller without permission learns nothing from validation: 403 comes before 400", async () => {
  const { app } = testGateway();
  const response = await send(app, { url: "/admin/audit?limit=rubbish", token: "user-token" });
  expect(response.json().error.code).toBe("forbidden");
  expect(response.headers["www-authenticate"]).toBe('Bearer error="insufficient_scope", realm="gatehouse"');
});

test("a defect is 500 without details, and logged completely", async () => {
  const { app, log } = testGateway({
    identity: {
      login: () => Promise.reject(new Error("select secret_column from users")),
    },
  });
  const response = await send(app, { method: "POST", url: "/auth/login", body: login });
  expect(response.statusCode).toBe(500);
  expect(response.json().error.code).toBe("internal_error");
  expect(response.body).not.toMatch(/secret_column|at |\.ts/);
  expect(log()).toContain("secret_column");
  expect(log()).not.toContain(login.password);
});

test("what a service says about itself stays inside; what it says to the client passes", async () => {
  const failWith = (error: DomainError) =>
    testGateway({ identity: { login: () => Promise.reject(error) } }).app;
  const call = { method: "POST", url: "/auth/login", body: login } as const;

  const down = await send(failWith(new DomainError("service_unavailable", "db-7.internal is away")), call);
  expect(down.body).not.toContain("db-7");
  const misconfigured = await send(failWith(new DomainError("caller_not_allowed", "gateway")), call);
  expect(misconfigured.json().error.code).toBe("internal_error");
  const busy = await send(failWith(new DomainError("busy", undefined, { retryAfterMs: 2_500 })), call);
  expect([busy.statusCode, busy.headers["retry-after"]]).toEqual([503, "3"]);
  expect(busy.headers).not.toHaveProperty("ratelimit-limit");
  const spent = new DomainError("too_many_requests", undefined, { retryAfterMs: 8_500, limit: 100 });
  const { statusCode, headers } = await send(failWith(spent), call);
  expect([statusCode, headers]).toMatchObject([
    429,
    { "retry-after": "9", "ratelimit-limit": "100", "ratelimit-remaining": "0", "ratelimit-reset": "9" },
  ]);
  const wrong = await send(failWith(new DomainError("invalid_credentials", "No.")), call);
  expect([wrong.statusCode, wrong.json().message]).toEqual([401, "No."]);
  expect(wrong.headers["www-authenticate"]).toMatch(/^Bearer error=/);
});

test("problem details are sent on request", async () => {
  const { app } = testGateway();
  const ask = (accept: string) =>
    send(app, { method: "POST", url: "/auth/login", body: { email: "x" }, headers: { accept } });
  const problem = await ask("application/problem+json");
  expect(problem.headers["content-type"]).toBe("application/problem+json");
  expect(problem.json()).toEqual({
    type: "urn:gatehouse:error:validation_failed",
    title: expect.any(String),
    status: 400,
    detail: expect.any(String),
    instance: `urn:uuid:${problem.headers["x-request-id"]}`,
    code: "validation_failed",
    requestId: problem.headers["x-request-id"],
    errors: [
      { field: "email", code: "invalid_format", message: expect.any(String) },
      { field: "password", code: "required", message: "is required" },
    ],
  });
  for (const accept of [
    "*/*",
    "application/json",
    "application/json, application/problem+json;q=0.5",
    "application/problem+json;q=0.5, */*;q=0.8",
    "application/problem+json;q=0",
    "application/problem+json;q=none",
  ]) {
    expect((await ask(accept)).json().success, accept).toBe(false);
  }
  for (const accept of [
    "application/json;q=0.5, application/problem+json",
    "*/*, Application/Problem+JSON",
    "application/*;q=0.9, application/problem+json;q=0.9",
    "application/json;q=0.2, */*;q=0.8, application/problem+json;q=0.4",
  ]) {
    expect((await ask(accept)).json().status, accept).toBe(400);
  }
});

test("a request id from outside counts only from a trusted proxy, and only if it is one", async () => {
  const id = "0199a000-0000-4000-8000-000000000009";
  const idWith = async (isTrusted: boolean, sent: string) => {
    const { app } = testGateway({ isTrustedProxy: () => isTrusted });
    const response = await send(app, { url: "/", headers: { "x-request-id": sent } });
    return response.headers["x-request-id"];
  };
  expect(await idWith(true, id)).toBe(id);
  expect(await idWith(false, id)).not.toBe(id);
  expect(await idWith(true, "not-an-id")).not.toBe("not-an-id");
});

test("HTTPS is remembered by browsers only where a trusted proxy says it was HTTPS", async () => {
  const headers = { "x-forwarded-proto": "https" };
  const behindProxy = testGateway({ isTrustedProxy: () => true });
  const direct = testGateway();
  const sts = "strict-transport-security";
  expect((await send(behindProxy.app, { url: "/", headers })).headers[sts]).toMatch(/^max-age=/);
  expect((await send(direct.app, { url: "/", headers })).headers[sts]).toBeUndefined();
});

test("one request is one log line, without address, headers or body of it", async () => {
  const { app, log } = testGateway({
    identity: { login: async () => completedLogin() },
  });
  await send(app, { method: "POST", url: "/v1/auth/login", body: login, headers: { cookie: "c=canary" } });
  const lines = log().trim().split("\n");
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({
    msg: "request",
    method: "POST",
    route: "/v1/auth/login",
    status: 200,
  });
  expect(log()).not.toMatch(/canary|correct horse|ada@|access\.jwt/);
});

test("an unknown host is misdirected, before any other check", async () => {
  const { app } = testGateway();
  const response = await send(app, { url: "/auth/me", headers: { host: `x.${HOST}` } });
  expect([response.statusCode, response.json().error.code]).toEqual([421, "misdirected_request"]);
});

test.each([
  { url: "/auth/sessions/%zz", status: 400, code: "bad_request" },
  { url: `/auth/sessions/${"a".repeat(101)}`, status: 414, code: "uri_too_long" },
])(
  "what the router itself refuses looks like every other failure: $status",
  async ({ url, status, code }) => {
    const { app } = testGateway();
    const response = await send(app, { method: "DELETE", url, token: "user-token" });
    expect([response.statusCode, response.json().error.code]).toEqual([status, code]);
    expect(response.headers["x-request-id"]).toBe(response.json().error.requestId);
    expect(response.headers["x-content-type-options"]).toBe("nosniff");
  },
);

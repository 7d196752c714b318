import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import type { Verification } from "#token-client/principal.ts";
import type { GatewayDeps } from "../app.ts";
import { principalWith, SESSION_ID, send, testGateway, USER_ID } from "../testing/test-gateway.ts";
import { parseIntrospectionClients } from "./introspection-clients.ts";

const ISSUER = "https://gateway.test";
const OTHER_SESSION = "0199a000-0000-7000-8000-0000000000ff";
const SECRET = "pqAsFNc2yu6Q0Fhj3tBkmcTwfYV4n1c7";
const GOOD = `head.${Buffer.from(JSON.stringify({ iss: ISSUER })).toString("base64url")}.signature`;
const digest = createHash("sha256").update(SECRET).digest("hex");
const introspectionClients = parseIntrospectionClients(`clients: [{ id: ledger, secretSha256: ${digest} }]`);

const principal = {
  ...principalWith("AUDITOR"),
  amr: ["pwd", "otp"],
  acr: 2 as const,
  authTime: new Date(1_700_000_000_000),
  issuedAt: new Date(1_700_000_100_000),
  expiresAt: new Date(1_700_001_000_000),
};

function gateway(
  verify: GatewayDeps["verifier"]["verify"] = (token): Verification =>
    token === GOOD ? { kind: "active", principal } : { kind: "inactive", reason: "revoked" },
  overrides: Partial<GatewayDeps> = {},
) {
  const verifier = { verify, refuseSession() {}, nowMs: () => Date.now(), assertReady() {}, close() {} };
  return testGateway({ verifier, introspectionClients, ...overrides });
}

const basic = (id = "ledger", secret = SECRET) =>
  `Basic ${Buffer.from(`${id}:${secret}`).toString("base64")}`;

function introspect(
  app: ReturnType<typeof gateway>["app"],
  body: string | undefined,
  headers: Record<string, string> = {},
  url = "/oauth/introspect",
) {
  return send(app, {
    method: "POST",
    url,
    body,
    headers: { authorization: basic(), "content-type": "application/x-www-form-urlencoded", ...headers },
  });
}

test("a good token: whose it is and until when, in the words of the RFC", async () => {
  const { app } = gateway();
  for (const url of ["/oauth/introspect", "/v1/oauth/introspect"]) {
    const response = await introspect(app, `token=${GOOD}&token_type_hint=access_token`, {}, url);
    expect(response.statusCode).toBe(200);
    expect(response.headers).toMatchObject({
      "content-type": "application/json; charset=utf-8",
      "cache-control": "no-store",
    });
    expect(response.json()).toEqual({
      active: true,
      iss: ISSUER,
      sub: USER_ID,
      sid: SESSION_ID,
      exp: 1_700_001_000,
      iat: 1_700_000_100,
      jti: "token-id",
      role: "AUDITOR",
      amr: ["pwd", "otp"],
      acr: "urn:gatehouse:acr:2",
      auth_time: 1_700_000_000,
      token_type: "Bearer",
    });
  }
});

test.each(["revoked", "expired", "invalid"] as const)(
  "a token that is %s: inactive, and not a word more",
  async (reason) => {
    const { app } = gateway(async () => ({ kind: "inactive", reason }));
    const response = await introspect(app, "token=some.other.token");
    expect(response.statusCode).toBe(200);
    expect(response.payload).toBe('{"active":false}');
    expect(response.headers["cache-control"]).toBe("no-store");
  },
);

test("where nothing certain is known: 503, neither active nor inactive", async () => {
  const { app } = gateway(async () => {
    throw new DomainError("service_unavailable");
  });
  const response = await introspect(app, `token=${GOOD}`);
  expect(response.statusCode).toBe(503);
  expect(response.headers["retry-after"]).toBe("1");
  expect(response.payload).not.toContain("active");
});

test.each([
  ["no credentials", ""],
  ["a wrong secret", basic("ledger", "wrong")],
  ["another's id", basic("reports")],
  ["a user's token", `Bearer ${GOOD}`],
])(
  "with %s: 401 invalid_client, before the body is looked at or the token asked about",
  async (_name, authorization) => {
    let asked = 0;
    const { app, entries } = gateway(() => {
      asked += 1;
      return { kind: "active", principal };
    });
    for (const body of [`token=${GOOD}`, "nonsense=1", undefined]) {
      const response = await introspect(app, body, { authorization });
      expect(response.statusCode).toBe(401);
      expect(response.json().error).toBe("invalid_client");
      expect(response.headers).toMatchObject({
        "www-authenticate": 'Basic realm="gatehouse", charset="UTF-8"',
        "cache-control": "no-store",
      });
    }
    expect([asked, entries]).toEqual([0, []]);
  },
);

test.each([
  ["", 400, "invalid_request"],
  ["token_type_hint=access_token", 400, "invalid_request"],
  ["token=", 400, "invalid_request"],
  [`token=${"a".repeat(8_193)}`, 400, "invalid_request"],
  [`token=${GOOD}&token=other`, 400, "invalid_request"],
  [`token=${"a".repeat(17_000)}`, 413, "invalid_request"],
  // RFC 6749 §2.3: two proofs of who asks.
  [`token=${GOOD}&client_assertion=e30.e30.AA`, 400, "invalid_request"],
  [`token=${GOOD}&client_secret=other`, 400, "invalid_request"],
])("the form %j is %d %s", async (body, status, code) => {
  const { app, entries } = gateway();
  const response = await introspect(app, body);
  expect([response.statusCode, response.json().error]).toEqual([status, code]);
  expect(entries).toEqual([]);
});

test("JSON is not what this route reads, and a form not what the others read", async () => {
  const { app } = gateway();
  const json = await introspect(app, JSON.stringify({ token: GOOD }), { "content-type": "application/json" });
  expect([json.statusCode, json.json().error]).toEqual([415, "invalid_request"]);
  const form = await introspect(app, "email=a@example.com&password=x", {}, "/auth/login");
  expect(form.json().error.code).toBe("unsupported_media_type");
});

test("parameters that we do not know are ignored", async () => {
  const { app } = gateway();
  const response = await introspect(app, `token=${GOOD}&resource=x&__proto__=y&constructor=z`);
  expect(response.json().active).toBe(true);
});

test("who has learned of which session is in the audit log once, by both paths, and neither token nor secret is there or in the log", async () => {
  const { app, entries, readings, log } = gateway((token) =>
    token.startsWith("head")
      ? { kind: "active", principal: token === GOOD ? principal : { ...principal, sessionId: OTHER_SESSION } }
      : { kind: "inactive", reason: "invalid" },
  );
  const asked = [GOOD, GOOD, "unknown", "unknown too", `${GOOD}2`, GOOD];
  for (const [index, token] of asked.entries()) {
    const url = index % 2 === 0 ? "/oauth/introspect" : "/v1/oauth/introspect";
    expect((await introspect(app, `token=${token}`, {}, url)).statusCode).toBe(200);
  }
  const entry = {
    kind: "event",
    action: "token.introspect",
    actor: { userId: "client:ledger" },
    outcome: "success",
  };
  expect(readings).toMatchObject([
    { ...entry, resource: SESSION_ID },
    { ...entry, resource: "" },
    { ...entry, resource: OTHER_SESSION },
  ]);
  expect(entries).toEqual([]);
  expect(log()).toContain('"clientId":"ledger"');
  for (const secret of [GOOD, SECRET, basic().slice(6)]) {
    expect(JSON.stringify([entries, readings]) + log()).not.toContain(secret);
  }
});

test("an introspection that cannot be recorded is not answered", async () => {
  let mayRecord = false;
  const noteReading = async () => {
    if (!mayRecord) throw new DomainError("audit_unavailable");
  };
  const { app } = gateway(undefined, { noteReading });
  for (const _again of [1, 2]) {
    const response = await introspect(app, `token=${GOOD}`);
    expect(response.statusCode).toBe(503);
    expect(response.payload).not.toContain(USER_ID);
  }
  mayRecord = true;
  expect((await introspect(app, `token=${GOOD}`)).statusCode).toBe(200);
});

test("a client introspects its own tokens, and learns nothing of others", async () => {
  const clientId = "0199a000-0000-7000-8000-00000000000c";
  const own = {
    ...principal,
    kind: "client" as const,
    clientId,
    userId: clientId,
    role: "",
    scopes: ["payments:read"],
  };
  const authenticateClient = async () => ({ clientId, credentialId: SESSION_ID });
  const verify = (token: string): Verification => ({
    kind: "active",
    principal: token === GOOD ? own : principal,
  });
  const { app, readings } = gateway(verify, {
    clients: { authenticateClient } as never,
    introspectionClients: undefined,
  });
  expect((await introspect(app, `token=${GOOD}`)).json()).toEqual({
    active: true,
    iss: ISSUER,
    sub: clientId,
    client_id: clientId,
    sid: SESSION_ID,
    scope: "payments:read",
    exp: 1_700_001_000,
    iat: 1_700_000_100,
    jti: "token-id",
    token_type: "Bearer",
  });
  expect((await introspect(app, "token=a.users.token")).payload).toBe('{"active":false}');
  const actor = { userId: clientId, role: "CLIENT", sessionId: SESSION_ID };
  // Both tokens are of the same session.
  expect(readings).toMatchObject([{ actor, resource: SESSION_ID }]);
});

test("without a file of clients, a client's id and secret are asked about", async () => {
  const { app } = gateway(undefined, { introspectionClients: undefined });
  const response = await introspect(app, `token=${GOOD}`);
  expect([response.statusCode, response.json().error]).toEqual([401, "invalid_client"]);
});

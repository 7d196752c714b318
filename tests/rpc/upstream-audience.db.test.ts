import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { openBackends } from "#gateway/backends/backends.ts";
import { parseIntrospectionClients } from "#gateway/oauth-server/introspection-clients.ts";
import { HOST, routesOf, send, testGateway } from "#gateway/testing/test-gateway.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { TokenServiceClient } from "#proto/gatehouse/token/v1/token_service.ts";
import { parseCompactJws } from "#token-client/compact-jws.ts";
import { TokenVerifier } from "#token-client/token-verifier.ts";
import { rotateSigningKey } from "#token-service/keys/rotate-signing-key.ts";
import { refreshSession } from "#token-service/sessions/refresh-session.ts";
import { revokeClientTokens, revokeSession } from "#token-service/sessions/revoke-session.ts";
import { exchangeToken } from "#token-service/tokens/exchange-token.ts";
import { issueClientToken } from "#token-service/tokens/issue-client-token.ts";
import type { ProvenApiKey } from "#token-service/tokens/verify-token.ts";
import { createTestDatabase, type TestDatabase } from "../support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "../support/system/certificates.ts";
import { startTokenServer, type TokenServer } from "../support/system/token-server.ts";
import { logIn, startTokenReplica, type TokenReplica } from "../support/system/token-service.ts";

const A = "https://payments.example";
const B = "ledger";
const SECRET = "pqAsFNc2yu6Q0Fhj3tBkmcTwfYV4n1c7";
const digest = createHash("sha256").update(SECRET).digest("hex");
const CAUSE = { reason: "test", requestId: "r", traceId: "t" };
const ORIGIN = { ip: "", userAgent: "", requestId: "r", traceId: "t" };
const logger = pino({ level: "silent" });

let certificates: TestCertificates;
let database: TestDatabase;
let replica: TokenReplica;
let server: TokenServer;
let gateway: ReturnType<typeof testGateway>;
let payments: TokenVerifier;
let rpc: TokenServiceClient;
const apiKeys = new Map<string, ProvenApiKey>();
const cleanUps: (() => unknown)[] = [];

/** Verifies by itself, and says whether it accepts its caller. */
const upstream = createServer((request, response) => {
  judge(request).then(
    (verdict) => response.setHeader("x-verdict", verdict).end(request.headers.authorization ?? ""),
    () => response.writeHead(503).end(),
  );
});
upstream.on("upgrade", (request, socket) => {
  void judge(request).then((verdict) => {
    const lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"];
    socket.end(`${lines.join("\r\n")}\r\n\r\n${verdict}`);
  });
});

async function judge({ headers: { authorization = "" } }: IncomingMessage): Promise<string> {
  if (authorization === "") return "none";
  const verdict = await payments.verify(authorization.slice("Bearer ".length), undefined);
  if (verdict.kind === "inactive") return verdict.reason;
  const { kind, userId, clientId } = verdict.principal;
  return kind === "user" ? userId : clientId;
}

function startVerifier(name: "gateway" | "payments-service", audience?: string) {
  const verifier = new TokenVerifier({
    address: server.address,
    certificate: certificates.of(name),
    logger,
    metrics: createMetrics(name),
    callTimeoutMs: 10_000,
    audience,
  });
  cleanUps.push(() => verifier.close());
  return verifier;
}

beforeAll(async () => {
  certificates = await createTestCertificates();
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql, { apiKeys });
  server = await startTokenServer(replica, certificates);
  rpc = createRpcClient(TokenServiceClient, {
    address: server.address,
    service: "token-service",
    certificate: certificates.of("payments-service"),
  });
  const edge = startVerifier("gateway");
  payments = startVerifier("payments-service", A);
  for (const verifier of [edge, payments])
    await vi.waitFor(() => verifier.assertReady(), { interval: 5, timeout: 60_000 });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  const addresses = {
    identity: "127.0.0.1:1",
    token: server.address,
    audit: "127.0.0.1:1",
    event: "127.0.0.1:1",
  };
  const { backends, close } = openBackends(addresses, certificates.of("gateway"));
  cleanUps.push(close);
  const methods = {
    GET: { permissions: ["payments:read"] },
    POST: { permissions: ["payments:write"], action: "payments.create" },
  };
  gateway = testGateway({
    verifier: edge,
    isKeyBanned: (keyId) => edge.isKeyBanned(keyId),
    tokenIssuer: edge.issuer,
    exchangeTimeoutMs: 10_000,
    sessions: backends.sessions,
    introspectionClients: parseIntrospectionClients(`clients: [{ id: ledger, secretSha256: ${digest} }]`),
    routes: routesOf([
      { prefix: "/plain", upstream: origin, methods },
      { prefix: "/payments", upstream: origin, methods, audience: A, websocket: true },
      { prefix: "/ledger", upstream: origin, methods, audience: B },
      { prefix: "/none", upstream: origin, methods, passToken: false },
    ]),
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
});

afterAll(async () => {
  await gateway.app.close();
  for (const cleanUp of cleanUps) cleanUp();
  rpc.close();
  upstream.closeAllConnections();
  upstream.close();
  await server.stop();
  replica.stop();
  await database.drop();
  await certificates.remove();
});

/** The upstream's verdict and what it got, or the status of the gateway's own answer. */
async function call(url: string, token: string, method: "GET" | "POST" = "GET") {
  const { statusCode, headers, body } = await send(gateway.app, { method, url, token });
  const verdict = headers["x-verdict"];
  return verdict === undefined
    ? { verdict: String(statusCode), token: "" }
    : { verdict, token: body.slice(7) };
}
const claimsIn = (token: string) => {
  const jws = parseCompactJws(token);
  if (typeof jws === "string") throw new Error(jws);
  return jws.payload;
};
const tokenFor = async (token: string, audience: string) =>
  (await exchangeToken(replica.deps, { token, audience })).accessToken;
const newClient = () => ({
  clientId: randomUUID(),
  credentialId: randomUUID(),
  scopes: ["payments:read", "payments:write"],
  provenAt: new Date(),
});
function newApiKey() {
  const publicId = randomUUID().replaceAll("-", "");
  const text = `gh_${publicId}_${"A".repeat(43)}`;
  const proven = { ...newClient(), publicId };
  apiKeys.set(text, proven);
  return { text, proven };
}

test("the upstream gets a token that it accepts, and that names the same caller", async () => {
  const user = await logIn(replica, randomUUID());
  const client = newClient();
  const clientToken = issueClientToken(replica.deps, client).accessToken;
  const { text: apiKey, proven } = newApiKey();
  for (const [token, subject] of [
    [user.accessToken, user.userId],
    [clientToken, client.clientId],
    [apiKey, proven.clientId],
  ] as const) {
    for (const method of ["GET", "POST"] as const) {
      const { verdict, token: passed } = await call("/payments", token, method);
      expect([verdict, claimsIn(passed).aud]).toEqual([subject, A]);
      expect(passed).not.toBe(token);
    }
    expect(await call("/ledger", token)).toMatchObject({ verdict: "invalid" });
    expect(await call("/none", token)).toEqual({ verdict: "none", token: "" });
    expect(await call("/plain", token)).toEqual({ verdict: "invalid", token });
  }
});

test("a WebSocket too", async () => {
  const { accessToken, userId } = await logIn(replica, randomUUID());
  const socket = connect({ port: (gateway.app.server.address() as AddressInfo).port, host: "127.0.0.1" });
  let received = "";
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
  });
  const lines = ["GET /payments/live HTTP/1.1", `Host: ${HOST}`, "Connection: Upgrade", "Upgrade: websocket"];
  socket.write(`${[...lines, `Authorization: Bearer ${accessToken}`].join("\r\n")}\r\n\r\n`);
  await expect.poll(() => received).toContain(userId);
  socket.destroy();
});

test("who refuses whose token", async () => {
  const { accessToken: issuers } = await logIn(replica, randomUUID());
  const { text: apiKey } = newApiKey();
  const tokens = { issuers, a: await tokenFor(issuers, A), b: await tokenFor(issuers, B), apiKey };
  const asked = async (token: string, audience?: string) =>
    (await callUnary(rpc, rpc.verifyToken, { token, audience }, newCallContext({ budgetMs: 60_000 }))).active;
  const introspected = async (token: string) => {
    const { body } = await send(gateway.app, {
      method: "POST",
      url: "/oauth/introspect",
      body: `token=${token}`,
      headers: {
        authorization: `Basic ${Buffer.from(`ledger:${SECRET}`).toString("base64")}`,
        "content-type": "application/x-www-form-urlencoded",
      },
    });
    return JSON.parse(body).active as boolean;
  };
  const refreshed = (token: string) =>
    send(gateway.app, { method: "POST", url: "/auth/refresh", body: { refreshToken: token } });
  const accepted: Record<string, string[]> = {};
  for (const [name, token] of Object.entries(tokens)) {
    const verdicts = {
      edge: (await send(gateway.app, { url: "/plain", token })).statusCode === 200,
      own: (await send(gateway.app, { url: "/auth/sessions", token })).statusCode === 200,
      introspection: await introspected(token),
      refresh: (await refreshed(token)).statusCode === 200,
      VerifyToken: await asked(token),
      "VerifyToken for A": await asked(token, A),
      "VerifyToken for B": await asked(token, B),
      "token-client of A": (await payments.verify(token, undefined)).kind === "active",
    };
    accepted[name] = Object.entries(verdicts).flatMap(([who, isAccepted]) => (isAccepted ? [who] : []));
  }
  expect(accepted).toEqual({
    issuers: ["edge", "own", "introspection", "VerifyToken"],
    a: ["VerifyToken for A", "token-client of A"],
    b: ["VerifyToken for B"],
    apiKey: ["edge", "introspection", "VerifyToken"],
  });
});

test("the upstream's token ends with its session, its credential and its signing key", async () => {
  const user = await logIn(replica, randomUUID());
  const passed = (await call("/payments", user.accessToken)).token;
  await revokeSession(replica.deps, { sessionId: user.sessionId, userId: user.userId, reason: "logout" });
  const verdictOf = async (token: string) => {
    const verdict = await payments.verify(token, undefined);
    return verdict.kind === "active" ? "active" : verdict.reason;
  };
  await expect.poll(() => verdictOf(passed)).toBe("revoked");
  await expect.poll(async () => (await call("/payments", user.accessToken)).verdict).toBe("401");

  const { text: apiKey, proven } = newApiKey();
  const before = (await call("/payments", apiKey)).token;
  const next = { ...proven, credentialId: randomUUID() };
  apiKeys.set(apiKey, next);
  await revokeClientTokens(replica.deps, [proven.credentialId]);
  await expect.poll(() => verdictOf(before)).toBe("revoked");
  // The key is live again under another id: so is its token.
  await expect.poll(async () => (await call("/payments", apiKey)).verdict).toBe(next.clientId);
});

test("after the rotation of the signing key and a refresh of the session, the next tokens are as good", async () => {
  const { accessToken, refreshToken, userId } = await logIn(replica, randomUUID());
  const first = (await call("/payments", accessToken)).token;
  await rotateSigningKey(replica.deps, { force: true }, CAUSE);
  await replica.deps.keys.reload();
  const next = await refreshSession(replica.deps, refreshToken, ORIGIN);
  for (const token of [accessToken, next.accessToken])
    expect(await call("/payments", token)).toMatchObject({ verdict: userId });
  const second = (await call("/payments", next.accessToken)).token;
  expect(second).not.toBe(first);
  expect(claimsIn(second).origin_jti).toBe(claimsIn(next.accessToken).jti);
  for (const [original, passed] of [
    [accessToken, first],
    [next.accessToken, second],
  ] as const)
    expect(Number(claimsIn(passed).exp)).toBeLessThanOrEqual(Number(claimsIn(original).exp));
});

test("what an upstream got opens nothing at the gateway", async () => {
  const { accessToken } = await logIn(replica, randomUUID());
  const { token } = await call("/payments", accessToken);
  for (const url of ["/payments", "/plain", "/none", "/ledger", "/auth/me"])
    expect((await send(gateway.app, { url, token })).json()).toMatchObject({
      error: { code: "token_invalid" },
    });
});

test("only the gateway exchanges", async () => {
  const { accessToken } = await logIn(replica, randomUUID());
  const addresses = {
    identity: "127.0.0.1:1",
    token: server.address,
    audit: "127.0.0.1:1",
    event: "127.0.0.1:1",
  };
  for (const name of ["payments-service", "identity-service", "envoy", "operator"] as const) {
    const { backends, close } = openBackends(addresses, certificates.of(name));
    const exchange = backends.sessions.exchangeToken(
      { token: accessToken, audience: A },
      newCallContext({ budgetMs: 60_000 }),
    );
    await expect(exchange).rejects.toMatchObject({ code: "caller_not_allowed" });
    close();
  }
  const { backends, close } = openBackends(addresses, certificates.of("gateway"));
  for (const audience of ["", "a/b", "two words", `urn:x:${"a".repeat(200)}`]) {
    const exchange = backends.sessions.exchangeToken(
      { token: accessToken, audience },
      newCallContext({ budgetMs: 60_000 }),
    );
    await expect(exchange).rejects.toMatchObject({ code: "validation_failed" });
  }
  close();
});

test("without token-service a token that was not exchanged yet is 503, and soon every token", async () => {
  const [known, fresh] = [await logIn(replica, randomUUID()), await logIn(replica, randomUUID())];
  expect((await call("/payments", known.accessToken)).verdict).toBe(known.userId);
  // The edge knows it, the exchange does not.
  expect((await call("/none", fresh.accessToken)).verdict).toBe("none");
  await server.stop();
  const { verdict, token } = await call("/payments", fresh.accessToken);
  expect([verdict, token]).toEqual(["503", ""]);
  await expect.poll(async () => (await call("/payments", known.accessToken)).verdict).toBe("503");
});

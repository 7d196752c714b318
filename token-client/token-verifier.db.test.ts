import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { createMetrics } from "../service-kit/metrics.ts";
import { createTestCertificates, type TestCertificates } from "../tests/support/certificates.ts";
import { createTestDatabase, type TestDatabase } from "../tests/support/postgres.ts";
import { startTokenServer, type TokenServer } from "../tests/support/token-server.ts";
import { logIn, startTokenReplica, type TokenReplica } from "../tests/support/token-service.ts";
import { revokeSession } from "../token-service/revoke-session.ts";
import { revokeSigningKey } from "../token-service/revoke-signing-key.ts";
import type { TokenVerifier, Verification } from "./principal.ts";
import { createTokenVerifier } from "./token-verifier.ts";

let database: TestDatabase;
let certificates: TestCertificates;
let replica: TokenReplica;
let server: TokenServer;
const verifiers: TokenVerifier[] = [];

beforeAll(async () => {
  certificates = await createTestCertificates();
});

beforeEach(async () => {
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql);
  server = await startTokenServer(replica, certificates);
});

afterEach(async () => {
  for (const verifier of verifiers.splice(0)) verifier.close();
  await server.stop();
  replica.stop();
  await database.drop();
});

afterAll(() => certificates.remove());

async function createVerifier(options: { maxCachedTokens?: number } = {}): Promise<TokenVerifier> {
  const verifier = createTokenVerifier({
    address: server.address,
    certificate: certificates.of("gateway"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("gateway"),
    ...options,
  });
  verifiers.push(verifier);
  await expect.poll(() => isReady(verifier), { interval: 5 }).toBe(true);
  return verifier;
}

function isReady(verifier: TokenVerifier): boolean {
  try {
    verifier.assertReady();
    return true;
  } catch {
    return false;
  }
}

const verdictOf = async (verification: Verification | Promise<Verification>) =>
  Promise.resolve(verification).then(
    (verdict) => (verdict.kind === "active" ? "active" : verdict.reason),
    (error: { code: string }) => error.code,
  );

test("a token is asked for once, and then known from memory, without waiting", async () => {
  const verifier = await createVerifier();
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(replica, userId, "ADMIN");
  expect(await verifier.verify(accessToken)).toMatchObject({
    kind: "active",
    principal: { userId, sessionId, role: "ADMIN", amr: ["pwd"] },
  });
  for (let index = 0; index < 100; index += 1)
    expect(verifier.verify(accessToken)).toMatchObject({ kind: "active" });
  expect(server.calls.verifyToken).toBe(1);
});

test("a hundred at once who bring the same new token cause one call", async () => {
  const verifier = await createVerifier();
  const { accessToken } = await logIn(replica, randomUUID());
  const verdicts = await Promise.all(Array.from({ length: 100 }, () => verifier.verify(accessToken)));
  expect(new Set(verdicts.map(({ kind }) => kind))).toEqual(new Set(["active"]));
  expect(server.calls.verifyToken).toBe(1);
});

test("what cannot be a token causes no call, and a bad token is asked for each time", async () => {
  const verifier = await createVerifier();
  for (const text of ["", "a.b", "a b.c.d", "a.b.c.d", `${"a".repeat(5_000)}.b.c`, "é.b.c"]) {
    expect(verifier.verify(text)).toEqual({ kind: "inactive", reason: "invalid" });
  }
  expect(server.calls.verifyToken).toBe(0);
  expect(await verdictOf(verifier.verify("a.b.c"))).toBe("invalid");
  expect(await verdictOf(verifier.verify("a.b.c"))).toBe("invalid");
  expect(server.calls.verifyToken).toBe(2);
});

test("a revocation reaches a token in memory by the stream", async () => {
  const verifier = await createVerifier();
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(replica, userId);
  await verifier.verify(accessToken);
  await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  await expect
    .poll(() => verdictOf(verifier.verify(accessToken)), { interval: 2, timeout: 1_000 })
    .toBe("revoked");
});

test("an answer that was given before a revocation and arrives after it is not believed", async () => {
  const verifier = await createVerifier();
  const { accessToken, sessionId } = await logIn(replica, randomUUID());
  const { promise, resolve } = Promise.withResolvers<void>();
  server.hold.answers = promise;
  const verdict = verdictOf(verifier.verify(accessToken));
  await expect.poll(() => server.calls.verifyToken, { interval: 2 }).toBe(1);
  verifier.refuseSession(sessionId);
  resolve();
  expect(await verdict).toBe("revoked");
});

test("who has just ended a session refuses it without waiting for the stream", async () => {
  const verifier = await createVerifier();
  const { accessToken, sessionId } = await logIn(replica, randomUUID());
  await verifier.verify(accessToken);
  verifier.refuseSession(sessionId);
  expect(verifier.verify(accessToken)).toEqual({ kind: "inactive", reason: "revoked" });
});

test("a banned key refuses every token it signed", async () => {
  const verifier = await createVerifier();
  const { accessToken } = await logIn(replica, randomUUID());
  await verifier.verify(accessToken);
  await revokeSigningKey(replica.deps, replica.deps.keys.active().id, {
    reason: "test",
    requestId: "",
    traceId: "",
  });
  await expect
    .poll(() => verdictOf(verifier.verify(accessToken)), { interval: 2, timeout: 1_000 })
    .not.toBe("active");
});

test("a verifier that starts late knows what was revoked before", async () => {
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(replica, userId);
  await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  const verifier = await createVerifier();
  expect(await verdictOf(verifier.verify(accessToken))).toBe("revoked");
});

test("with token-service gone: memory for three seconds, then neither yes nor no; and back by itself", async () => {
  const verifier = await createVerifier();
  const { accessToken } = await logIn(replica, randomUUID());
  await verifier.verify(accessToken);
  const { port } = server;
  await server.stop();

  expect(await verdictOf(verifier.verify(accessToken))).toBe("active");
  const seen = new Set<string>();
  await expect
    .poll(
      async () => {
        const verdict = await verdictOf(verifier.verify(accessToken));
        seen.add(verdict);
        return verdict;
      },
      { timeout: 8_000 },
    )
    .toBe("service_unavailable");
  expect([...seen].sort()).toEqual(["active", "service_unavailable"]);
  expect(isReady(verifier)).toBe(false);

  server = await startTokenServer(replica, certificates, port);
  await expect.poll(() => isReady(verifier), { timeout: 8_000 }).toBe(true);
  expect(await verdictOf(verifier.verify(accessToken))).toBe("active");
});

test("a session revoked while this process was cut off is refused as soon as it is back", async () => {
  const verifier = await createVerifier();
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(replica, userId);
  await verifier.verify(accessToken);
  const { port } = server;
  await server.stop();
  await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  server = await startTokenServer(replica, certificates, port);
  await expect.poll(() => verdictOf(verifier.verify(accessToken)), { timeout: 8_000 }).toBe("revoked");
});

test("token-service without its database is silent, and silence is not trusted", async () => {
  const verifier = await createVerifier();
  const { accessToken } = await logIn(replica, randomUUID());
  await verifier.verify(accessToken);
  await database.ownerSql`alter table revocation_head rename to gone`;
  await expect
    .poll(() => verdictOf(verifier.verify(accessToken)), { timeout: 10_000 })
    .toBe("service_unavailable");
  await database.ownerSql`alter table gone rename to revocation_head`;
  await expect.poll(() => verdictOf(verifier.verify(accessToken)), { timeout: 8_000 }).toBe("active");
});

test("memory is bounded: the longest unused token is forgotten, and asked for again", async () => {
  const verifier = await createVerifier({ maxCachedTokens: 2 });
  const tokens = [];
  for (let index = 0; index < 3; index += 1) tokens.push((await logIn(replica, randomUUID())).accessToken);
  for (const token of [...tokens, tokens[0] ?? ""])
    expect(await verdictOf(verifier.verify(token))).toBe("active");
  expect(server.calls.verifyToken).toBe(4);
});

test("a caller whose certificate is not listed learns nothing", async () => {
  const verifier = createTokenVerifier({
    address: server.address,
    certificate: certificates.of("audit-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("x"),
  });
  verifiers.push(verifier);
  const { accessToken } = await logIn(replica, randomUUID());
  expect(await verdictOf(verifier.verify(accessToken))).toBe("caller_not_allowed");
});

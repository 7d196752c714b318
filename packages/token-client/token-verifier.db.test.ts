import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { startTokenServer, type TokenServer } from "#tests/support/system/token-server.ts";
import {
  logIn,
  startTokenReplica,
  TEST_ISSUER,
  type TokenReplica,
} from "#tests/support/system/token-service.ts";
import { revokeSigningKey } from "#token-service/keys/revoke-signing-key.ts";
import { rotateSigningKey } from "#token-service/keys/rotate-signing-key.ts";
import { revokeSession } from "#token-service/sessions/revoke-session.ts";
import { signCompactJws } from "#token-service/tokens/jws-signature.ts";
import { verifyToken } from "#token-service/tokens/verify-token.ts";
import type { Verification } from "./principal.ts";
import { TokenVerifier, type TokenVerifierOptions } from "./token-verifier.ts";

const CAUSE = { reason: "test", requestId: "", traceId: "" };
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

async function createVerifier(options: Partial<TokenVerifierOptions> = {}): Promise<TokenVerifier> {
  const verifier = new TokenVerifier({
    address: server.address,
    certificate: certificates.of("gateway"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("gateway"),
    callTimeoutMs: 10_000,
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

/** What a call throws at once, as a rejection. */
const promised = async <T>(call: () => T | Promise<T>): Promise<T> => call();

const verdictOf = async (verification: Verification | Promise<Verification>) =>
  Promise.resolve(verification).then(
    (verdict) => (verdict.kind === "active" ? "active" : verdict.reason),
    (error: { code: string }) => error.code,
  );

test("a token is verified by one call, and then from memory without waiting", async () => {
  const verifier = await createVerifier();
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(replica, userId, "ADMIN");
  expect(await verifier.verify(accessToken, undefined)).toMatchObject({
    kind: "active",
    principal: { userId, sessionId, role: "ADMIN", amr: ["pwd"] },
  });
  for (let index = 0; index < 100; index += 1)
    expect(verifier.verify(accessToken, undefined)).toMatchObject({ kind: "active" });
  expect(server.calls.verifyToken).toBe(1);
});

test("a hundred concurrent verifications of a new token cause one call", async () => {
  const verifier = await createVerifier();
  const { accessToken } = await logIn(replica, randomUUID());
  const verdicts = await Promise.all(
    Array.from({ length: 100 }, () => verifier.verify(accessToken, undefined)),
  );
  expect(new Set(verdicts.map(({ kind }) => kind))).toEqual(new Set(["active"]));
  expect(server.calls.verifyToken).toBe(1);
});

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const randomSignature = () => randomBytes(64).toString("base64url");

/** A token in every respect but its signature, with these changes. */
function forge(changes: { header?: object; payload?: object; signature?: string } = {}): string {
  const nowS = Math.floor(Date.now() / 1_000);
  const header = { alg: "EdDSA", typ: "at+jwt", kid: replica.deps.keys.active().id, ...changes.header };
  const payload = {
    iss: TEST_ISSUER,
    aud: TEST_ISSUER,
    sub: randomUUID(),
    sid: randomUUID(),
    jti: `1.${"A".repeat(22)}`,
    iat: nowS,
    exp: nowS + 600,
    role: "ADMIN",
    amr: ["pwd"],
    auth_time: nowS,
    ...changes.payload,
  };
  return `${encode(header)}.${encode(payload)}.${changes.signature ?? randomSignature()}`;
}

/** Its signature is right, and its claims are none that token-service accepts. */
function signed(): string {
  const [, payload = ""] = forge({ payload: { amr: [] } }).split(".");
  const claims = JSON.parse(Buffer.from(payload, "base64url").toString());
  return signCompactJws(replica.deps.keys.active(), "at+jwt", claims);
}

const strangeKey = () => randomBytes(32).toString("base64url");
const GARBAGE: Record<string, (index: number) => string> = {
  "no token": (index) => `a.b.${index}`,
  "a strange algorithm": (index) => forge({ header: { alg: `HS${index}` } }),
  "another type": () => forge({ header: { typ: "rt+jwt" } }),
  "another member": (index) => forge({ header: { jku: `https://evil.example/${index}` } }),
  "a key id that is a path": (index) => forge({ header: { kid: `../../${index}` } }),
  "an empty key id": () => forge({ header: { kid: "" } }),
  "an algorithm that is not the key's": () => forge({ header: { alg: "ES256" } }),
  "another issuer": (index) => forge({ payload: { iss: `https://evil.example/${index}` } }),
  "another audience": (index) => forge({ payload: { aud: `https://evil.example/${index}` } }),
  "no end": () => forge({ payload: { exp: undefined } }),
  "an end long past": () => forge({ payload: { exp: 1 } }),
  "a short signature": () => forge({ signature: "c2hvcnQ" }),
  "a strange key": () => forge({ header: { kid: strangeKey() } }),
};

test("ten thousand different texts that are no tokens cause no call", { tags: "exhaustive" }, async () => {
  const verifier = await createVerifier();
  const kinds = Object.values(GARBAGE);
  const verdicts = new Set<string>();
  for (let batch = 0; batch < 20; batch += 1) {
    // Forging all at once would keep the revocations waiting, which arrive on the same thread.
    const texts = Array.from(
      { length: 500 },
      (_, index) => kinds[index % kinds.length]?.(batch * 500 + index) ?? "",
    );
    const verdictsOfBatch = texts.map((text, index) =>
      verdictOf(verifier.verify(text, `192.0.2.${index % 256}`)),
    );
    for (const verdict of await Promise.all(verdictsOfBatch)) verdicts.add(verdict);
  }
  expect(verdicts).toEqual(new Set(["invalid", "expired"]));
  expect(server.calls.verifyToken).toBe(0);
});

test.each(Object.keys(GARBAGE))("token-service refuses %s too", async (kind) => {
  const verdict = await verifyToken(replica.deps, GARBAGE[kind]?.(1) ?? "");
  expect(verdict.active).toBe(false);
});

test.each(["EdDSA", "ES256"] as const)("a signature that is forged causes no call: %s", async (alg) => {
  await server.stop();
  replica.stop();
  await database.sql`delete from signing_keys`;
  replica = await startTokenReplica(database.sql, { algorithm: alg });
  server = await startTokenServer(replica, certificates);
  const verifier = await createVerifier();
  for (let index = 0; index < 10; index += 1)
    expect(await verdictOf(verifier.verify(forge({ header: { alg } }), undefined))).toBe("invalid");
  expect(server.calls.verifyToken).toBe(0);
  const { accessToken } = await logIn(replica, randomUUID());
  expect(await verdictOf(verifier.verify(accessToken, undefined))).toBe("active");
});

test("a key of a kind that token-service does not know ends no stream, and a token that names it is asked for", async () => {
  const { accessToken } = await logIn(replica, randomUUID());
  const [{ id } = { id: "" }] = await database.sql<{ id: string }[]>`
    update signing_keys set public_jwk = '{"kty":"later"}' where state = 'next' returning id
  `;
  await replica.deps.revocations.refresh();
  const verifier = await createVerifier();
  expect(await verdictOf(verifier.verify(forge({ header: { kid: id } }), undefined))).toBe("invalid");
  expect(server.calls.verifyToken).toBe(1);
  expect(await verdictOf(verifier.verify(accessToken, undefined))).toBe("active");
});

test("a network with forged tokens is refused without calls; other networks and known tokens are not", async () => {
  const verifier = await createVerifier();
  const { accessToken } = await logIn(replica, randomUUID());
  const { accessToken: unseen } = await logIn(replica, randomUUID());
  await verifier.verify(accessToken, "2001:db8::1");
  const seen = new Set<string>();
  for (let index = 0; index < 2_000 && !seen.has("too_many_requests"); index += 1) {
    seen.add(await verdictOf(promised(() => verifier.verify(forge(), `2001:db8::${index.toString(16)}`))));
  }
  expect(seen).toEqual(new Set(["invalid", "too_many_requests"]));
  const before = server.calls.verifyToken;
  expect(await verdictOf(verifier.verify(accessToken, "2001:db8::2"))).toBe("active");
  expect(server.calls.verifyToken).toBe(before);
  expect(await verdictOf(verifier.verify(unseen, "2001:db8:0:1::1"))).toBe("active");
});

test("one network cannot use all concurrent calls", async () => {
  const verifier = await createVerifier({ callTimeoutMs: 10_000 });
  const { accessToken } = await logIn(replica, randomUUID());
  const { promise, resolve } = Promise.withResolvers<void>();
  server.hold.answers = promise;
  const held = Array.from({ length: 100 }, () => verdictOf(verifier.verify(signed(), "192.0.2.1")));
  expect(await verdictOf(promised(() => verifier.verify(signed(), "192.0.2.1")))).toBe("too_many_requests");
  const other = verdictOf(verifier.verify(accessToken, "192.0.2.2"));
  resolve();
  expect(await other).toBe("active");
  expect(new Set(await Promise.all(held))).toEqual(new Set(["invalid"]));
});

test("a token of a new active key is accepted at once, without a call for the key", async () => {
  const verifier = await createVerifier();
  const other = await startTokenReplica(database.sql);
  await rotateSigningKey(other.deps, { force: true }, CAUSE);
  await rotateSigningKey(other.deps, { force: true }, CAUSE);
  await other.deps.keys.reload();
  const { accessToken } = await logIn(other, randomUUID());
  const [verdict, strange] = await Promise.all([
    verdictOf(verifier.verify(accessToken, undefined)),
    verdictOf(verifier.verify(forge({ header: { kid: strangeKey() } }), undefined)),
  ]);
  other.stop();
  expect([verdict, strange]).toEqual(["active", "invalid"]);
  expect(server.calls.verifyToken).toBe(1);
});

test("a set of revocations that cannot keep all is not trusted: every token is asked for", async () => {
  const verifier = await createVerifier({ maxRevocations: 2 });
  const { accessToken } = await logIn(replica, randomUUID());
  await verifier.verify(accessToken, undefined);
  for (const sessionId of ["a", "b"]) verifier.refuseSession(sessionId);
  expect(verifier.verify(accessToken, undefined)).toMatchObject({ kind: "active" });
  verifier.refuseSession("c");
  expect(await verdictOf(verifier.verify(accessToken, undefined))).toBe("active");
  expect(server.calls.verifyToken).toBe(2);
});

test("a clock that steps ahead by 20 minutes and back brings no revoked token back, here or at a new verifier", async () => {
  const verifier = await createVerifier();
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(replica, userId);
  await verifier.verify(accessToken, undefined);
  await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  await expect
    .poll(() => verdictOf(verifier.verify(accessToken, undefined)), { interval: 5 })
    .toBe("revoked");
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 1_200_000 });
  try {
    // Longer than a poll and a heartbeat.
    for (let polls = 0; polls < 3; polls += 1) await replica.deps.revocations.refresh();
    await sleep(1_200);
    vi.setSystemTime(Date.now() - 1_200_000);
  } finally {
    vi.useRealTimers();
  }
  replica.deps.verified.clear();
  expect(replica.deps.revocations.isSessionRevoked(sessionId)).toBe(true);
  const later = await createVerifier();
  for (const each of [verifier, later]) {
    expect(await verdictOf(each.verify(accessToken, undefined))).toBe("revoked");
  }
});

test("a verifier whose clock is ahead calls token-service, and refuses no valid token", async () => {
  const verifier = await createVerifier();
  const { accessToken } = await logIn(replica, randomUUID());
  await verifier.verify(accessToken, undefined);
  const nowMs = Date.now();
  replica.deps.now = () => new Date(nowMs);
  vi.useFakeTimers({ toFake: ["Date"], now: nowMs + 1_200_000 });
  try {
    expect(await verdictOf(verifier.verify(accessToken, undefined))).toBe("active");
    expect(await verdictOf(verifier.verify(accessToken, undefined))).toBe("active");
  } finally {
    vi.useRealTimers();
  }
});

test("a token is accepted each time within the clock tolerance, and never after it", async () => {
  const verifier = await createVerifier();
  const { accessToken } = await logIn(replica, randomUUID());
  const expiresAtMs = Date.now() + 900_000;
  vi.useFakeTimers({ toFake: ["Date"], now: expiresAtMs + 2_000 });
  try {
    const verdicts = [];
    for (let sight = 0; sight < 4; sight += 1)
      verdicts.push(await verdictOf(verifier.verify(accessToken, undefined)));
    expect(verdicts).toEqual(["active", "active", "active", "active"]);
    vi.setSystemTime(expiresAtMs + 6_000);
    expect(await verdictOf(verifier.verify(accessToken, undefined))).toBe("expired");
    expect(await verdictOf(verifier.verify(accessToken, undefined))).toBe("expired");
  } finally {
    vi.useRealTimers();
  }
});

test("a revocation reaches a token in memory by the stream", async () => {
  const verifier = await createVerifier();
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(replica, userId);
  await verifier.verify(accessToken, undefined);
  const asked = server.calls.verifyToken;
  await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  await expect
    .poll(() => verdictOf(verifier.verify(accessToken, undefined)), { interval: 2 })
    .toBe("revoked");
  expect(server.calls.verifyToken).toBe(asked);
});

test("an answer from before a revocation that arrives after it is ignored", async () => {
  const verifier = await createVerifier();
  const { accessToken, sessionId } = await logIn(replica, randomUUID());
  const { promise, resolve } = Promise.withResolvers<void>();
  server.hold.answers = promise;
  const verdict = verdictOf(verifier.verify(accessToken, undefined));
  await expect.poll(() => server.calls.verifyToken, { interval: 2 }).toBe(1);
  verifier.refuseSession(sessionId);
  resolve();
  expect(await verdict).toBe("revoked");
});

test("refuseSession() takes effect without waiting for the stream", async () => {
  const verifier = await createVerifier();
  const { accessToken, sessionId } = await logIn(replica, randomUUID());
  await verifier.verify(accessToken, undefined);
  verifier.refuseSession(sessionId);
  expect(verifier.verify(accessToken, undefined)).toMatchObject({ kind: "inactive", reason: "revoked" });
});

test("a banned key refuses every token it signed", async () => {
  const verifier = await createVerifier();
  const { accessToken } = await logIn(replica, randomUUID());
  await verifier.verify(accessToken, undefined);
  await revokeSigningKey(replica.deps, replica.deps.keys.active().id, {
    reason: "test",
    requestId: "",
    traceId: "",
  });
  await expect
    .poll(() => verdictOf(verifier.verify(accessToken, undefined)), { interval: 2 })
    .not.toBe("active");
});

test("a verifier that starts late knows what was revoked before", async () => {
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(replica, userId);
  await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  const verifier = await createVerifier();
  expect(await verdictOf(verifier.verify(accessToken, undefined))).toBe("revoked");
});

test("without token-service: memory for three seconds, then no verdict; it recovers automatically", {
  tags: "exhaustive",
}, async () => {
  const verifier = await createVerifier();
  const { accessToken } = await logIn(replica, randomUUID());
  await verifier.verify(accessToken, undefined);
  const { port } = server;
  await server.stop();

  expect(await verdictOf(verifier.verify(accessToken, undefined))).toBe("active");
  const seen = new Set<string>();
  await expect
    .poll(async () => {
      const verdict = await verdictOf(verifier.verify(accessToken, undefined));
      seen.add(verdict);
      return verdict;
    })
    .toBe("service_unavailable");
  expect([...seen].sort()).toEqual(["active", "service_unavailable"]);
  expect(isReady(verifier)).toBe(false);

  server = await startTokenServer(replica, certificates, port);
  await expect.poll(() => isReady(verifier)).toBe(true);
  expect(await verdictOf(verifier.verify(accessToken, undefined))).toBe("active");
});

test("a session revoked while this process was cut off is refused as soon as it is back", async () => {
  const verifier = await createVerifier();
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(replica, userId);
  await verifier.verify(accessToken, undefined);
  const { port } = server;
  await server.stop();
  await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  server = await startTokenServer(replica, certificates, port);
  await expect.poll(() => verdictOf(verifier.verify(accessToken, undefined))).toBe("revoked");
});

test("token-service without its database is silent, and silence is not trusted", async () => {
  const verifier = await createVerifier();
  const { accessToken } = await logIn(replica, randomUUID());
  await verifier.verify(accessToken, undefined);
  await database.ownerSql`alter table revocation_head rename to gone`;
  await expect.poll(() => verdictOf(verifier.verify(accessToken, undefined))).toBe("service_unavailable");
  await database.ownerSql`alter table gone rename to revocation_head`;
  await expect.poll(() => verdictOf(verifier.verify(accessToken, undefined))).toBe("active");
});

test("memory is bounded: the longest unused token is forgotten, and asked for again", async () => {
  const verifier = await createVerifier({ maxCachedTokens: 2 });
  const tokens = [];
  for (let index = 0; index < 3; index += 1) tokens.push((await logIn(replica, randomUUID())).accessToken);
  for (const token of [...tokens, tokens[0] ?? ""])
    expect(await verdictOf(verifier.verify(token, undefined))).toBe("active");
  expect(server.calls.verifyToken).toBe(4);
});

test("a caller whose certificate is not listed learns nothing of the token", async () => {
  const verifier = new TokenVerifier({
    address: server.address,
    certificate: certificates.of("audit-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("x"),
  });
  verifiers.push(verifier);
  const { accessToken } = await logIn(replica, randomUUID());
  expect(await verdictOf(verifier.verify(accessToken, undefined))).toBe("service_unavailable");
});

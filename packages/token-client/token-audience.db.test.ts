import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { startTokenServer, type TokenServer } from "#tests/support/system/token-server.ts";
import { logIn, startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { revokeSigningKey } from "#token-service/keys/revoke-signing-key.ts";
import { rotateSigningKey } from "#token-service/keys/rotate-signing-key.ts";
import { revokeClientTokens, revokeSession } from "#token-service/sessions/revoke-session.ts";
import { exchangeToken } from "#token-service/tokens/exchange-token.ts";
import { issueClientToken } from "#token-service/tokens/issue-client-token.ts";
import type { ProvenApiKey } from "#token-service/tokens/verify-token.ts";
import { parseCompactJws } from "./compact-jws.ts";
import { TokenVerifier, type TokenVerifierOptions } from "./token-verifier.ts";

const A = "https://payments.example";
const B = "ledger";
const CAUSE = { reason: "test", requestId: "", traceId: "" };

let database: TestDatabase;
let certificates: TestCertificates;
let replica: TokenReplica;
let server: TokenServer;
const apiKeys = new Map<string, ProvenApiKey>();
const verifiers: Record<"issuer" | "a" | "b" | "aAndIssuer", TokenVerifier> = {} as never;

beforeAll(async () => {
  certificates = await createTestCertificates();
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql, { apiKeys });
  server = await startTokenServer(replica, certificates);
  verifiers.issuer = await createVerifier({});
  verifiers.a = await createVerifier({ audience: A });
  verifiers.b = await createVerifier({ audience: B });
  verifiers.aAndIssuer = await createVerifier({ audience: A, acceptsIssuer: true });
});

afterAll(async () => {
  for (const verifier of Object.values(verifiers)) verifier.close();
  await server.stop();
  replica.stop();
  await database.drop();
  await certificates.remove();
});

async function createVerifier(options: Partial<TokenVerifierOptions>): Promise<TokenVerifier> {
  const verifier = new TokenVerifier({
    address: server.address,
    certificate: certificates.of("payments-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("payments-service"),
    callTimeoutMs: 10_000,
    ...options,
  });
  await vi.waitFor(() => verifier.assertReady(), { interval: 5, timeout: 60_000 });
  return verifier;
}

const tokenFor = async (token: string, audience = A) =>
  (await exchangeToken(replica.deps, { token, audience })).accessToken;
const verdictOf = async (verifier: TokenVerifier, token: string) => {
  const verdict = await verifier.verify(token, undefined);
  return verdict.kind === "active" ? "active" : verdict.reason;
};
const newClient = () => ({
  clientId: randomUUID(),
  credentialId: randomUUID(),
  scopes: ["payments:read"],
  provenAt: new Date(),
});
/** Of each verifier, until it is as expected. */
async function expectVerdicts(token: string, expected: Partial<Record<keyof typeof verifiers, string>>) {
  for (const [name, verdict] of Object.entries(expected)) {
    const verifier = verifiers[name as keyof typeof verifiers];
    await expect
      .poll(() => verdictOf(verifier, token), { interval: 5, timeout: 60_000, message: name })
      .toBe(verdict);
  }
}

test("each verifier accepts its own tokens, and those of nobody else", async () => {
  const { accessToken: issuers } = await logIn(replica, randomUUID());
  const apiKey = `gh_${"a".repeat(32)}_${"A".repeat(43)}`;
  apiKeys.set(apiKey, { ...newClient(), publicId: "a".repeat(32) });
  const clients = issueClientToken(replica.deps, newClient()).accessToken;
  const [invalid, active] = ["invalid", "active"];
  const table = [
    { token: issuers, issuer: active, a: invalid, b: invalid, aAndIssuer: active },
    { token: clients, issuer: active, a: invalid, b: invalid, aAndIssuer: active },
    { token: apiKey, issuer: active, a: invalid, b: invalid, aAndIssuer: active },
    { token: await tokenFor(issuers), issuer: invalid, a: active, b: invalid, aAndIssuer: active },
    { token: await tokenFor(clients), issuer: invalid, a: active, b: invalid, aAndIssuer: active },
    { token: await tokenFor(apiKey), issuer: invalid, a: active, b: invalid, aAndIssuer: active },
    { token: await tokenFor(issuers, B), issuer: invalid, a: invalid, b: active, aAndIssuer: invalid },
  ];
  // Then again, from memory.
  for (const { token, ...expected } of [...table, ...table])
    for (const [name, verdict] of Object.entries(expected))
      expect([name, await verdictOf(verifiers[name as keyof typeof verifiers], token)]).toEqual([
        name,
        verdict,
      ]);
});

test("a token for somebody else is refused without a call", async () => {
  const { accessToken } = await logIn(replica, randomUUID());
  const token = await tokenFor(accessToken);
  const before = server.calls.verifyToken;
  expect([await verdictOf(verifiers.b, token), await verdictOf(verifiers.a, accessToken)]).toEqual([
    "invalid",
    "invalid",
  ]);
  expect(await verdictOf(verifiers.a, `gh_${"b".repeat(32)}_${"A".repeat(43)}`)).toBe("invalid");
  expect(server.calls.verifyToken).toBe(before);
});

test("the principal is the original's, and says which token it came from", async () => {
  const { accessToken } = await logIn(replica, randomUUID(), "ADMIN");
  const token = await tokenFor(accessToken);
  const [original, exchanged] = [
    await verifiers.issuer.verify(accessToken, undefined),
    await verifiers.a.verify(token, undefined),
  ];
  if (original.kind !== "active" || exchanged.kind !== "active") throw new Error("not active");
  const { tokenId, ...principal } = original.principal;
  expect(exchanged.principal).toEqual({
    ...principal,
    tokenId: expect.stringMatching(/^1\./),
    originTokenId: tokenId,
    originKeyId: principal.keyId,
  });
  expect(exchanged.principal.tokenId).not.toBe(tokenId);
});

describe("what ends the original is felt by the upstream, from memory", () => {
  test("a logout", async () => {
    const { accessToken, sessionId, userId } = await logIn(replica, randomUUID());
    const token = await tokenFor(accessToken);
    await expectVerdicts(token, { a: "active", aAndIssuer: "active" });
    await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
    await expectVerdicts(token, { a: "revoked", aAndIssuer: "revoked" });
    await expectVerdicts(accessToken, { issuer: "revoked" });
  });

  test("the revocation of one token of a client", async () => {
    const client = newClient();
    const tokens = [1, 2].map(() => issueClientToken(replica.deps, client).accessToken);
    const [revoked = "", kept = ""] = await Promise.all(tokens.map((token) => tokenFor(token)));
    await expectVerdicts(revoked, { a: "active" });
    await expectVerdicts(kept, { a: "active" });
    const jws = parseCompactJws(tokens[0] ?? "");
    if (typeof jws === "string") throw new Error(jws);
    await revokeClientTokens(replica.deps, [String(jws.payload.jti)]);
    await expectVerdicts(revoked, { a: "revoked" });
    expect(await verdictOf(verifiers.a, kept)).toBe("active");
  });

  test("a ban of the key that signed it, although the original lives on", async () => {
    const { accessToken } = await logIn(replica, randomUUID());
    await rotateSigningKey(replica.deps, { force: true }, CAUSE);
    await replica.deps.keys.reload();
    const { accessToken: token, keyId } = await exchangeToken(replica.deps, {
      token: accessToken,
      audience: A,
    });
    await expectVerdicts(token, { a: "active" });
    await revokeSigningKey(replica.deps, keyId, CAUSE);
    await expectVerdicts(token, { a: "revoked" });
    await expectVerdicts(accessToken, { issuer: "active" });
    await expectVerdicts(await tokenFor(accessToken), { a: "active" });
  });
});

test.each(["", "two words", "a/b"])("the audience %j stops the start", (audience) => {
  const options = { address: server.address, certificate: certificates.of("gateway") };
  const create = () =>
    new TokenVerifier({
      ...options,
      logger: pino({ level: "silent" }),
      metrics: createMetrics("x"),
      audience,
    });
  expect(create).toThrow(/audience must be a URI or a name/);
});

import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import {
  logIn,
  startTokenReplica,
  TEST_ISSUER,
  type TokenReplica,
} from "#tests/support/system/token-service.ts";
import { parseCompactJws } from "#token-client/compact-jws.ts";
import { revokeSigningKey } from "../keys/revoke-signing-key.ts";
import { rotateSigningKey } from "../keys/rotate-signing-key.ts";
import { issueSession } from "../sessions/issue-session.ts";
import { refreshSession } from "../sessions/refresh-session.ts";
import { revokeClientTokens, revokeSession } from "../sessions/revoke-session.ts";
import { exchangeToken } from "./exchange-token.ts";
import { issueClientToken } from "./issue-client-token.ts";
import { refreshAudience } from "./refresh-token.ts";
import { type ProvenApiKey, verifyToken } from "./verify-token.ts";

const A = "https://payments.example";
const B = "ledger";

const cause = { reason: "test", requestId: "r", traceId: "t" };
const origin = { ip: "", userAgent: "", requestId: "r", traceId: "t" };

let database: TestDatabase;
let replica: TokenReplica;
const clock = { ms: Date.now() };
const uptime = { ms: 1_000_000 };
const apiKeys = new Map<string, ProvenApiKey>();
beforeAll(async () => {
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql, { clock, uptime, apiKeys });
});
afterAll(async () => {
  replica.stop();
  await database.drop();
});

async function pass(ms: number): Promise<void> {
  clock.ms += ms;
  uptime.ms += ms;
  await replica.deps.revocations.refresh();
}

const exchange = (token: string, audience = A) => exchangeToken(replica.deps, { token, audience });
const tokenFor = async (token: string, audience = A) => (await exchange(token, audience)).accessToken;
const claimsIn = (token: string) => {
  const jws = parseCompactJws(token);
  if (typeof jws === "string") throw new Error(jws);
  return jws.payload;
};
const originOf = (token: string) => {
  const jws = parseCompactJws(token);
  if (typeof jws === "string") throw new Error(jws);
  return { origin_jti: jws.payload.jti, origin_kid: jws.header.kid };
};
/** `active`, or why it is refused. */
async function verdictOf(token: string, audience?: string): Promise<string> {
  const verdict = await verifyToken(replica.deps, token, { audience });
  return verdict.active ? "active" : verdict.refusal;
}
const newClient = () => ({
  clientId: randomUUID(),
  credentialId: randomUUID(),
  scopes: ["payments:read", "payments:write"],
  provenAt: new Date(clock.ms),
});
function clientToken(client = newClient()): string {
  return issueClientToken(replica.deps, client).accessToken;
}
function newApiKey() {
  const publicId = randomUUID().replaceAll("-", "");
  const text = `gh_${publicId}_${"A".repeat(43)}`;
  const proven = { ...newClient(), publicId };
  apiKeys.set(text, proven);
  return { text, proven };
}

describe("claims", () => {
  test("the token of a user is for the audience, and else what the original is", async () => {
    const { accessToken } = await logIn(replica, randomUUID(), "ADMIN");
    const original = claimsIn(accessToken);
    const claims = claimsIn(await tokenFor(accessToken));
    expect(claims).toEqual({ ...original, aud: A, jti: expect.any(String), ...originOf(accessToken) });
    expect(claims.jti).toMatch(/^1\.[A-Za-z0-9_-]{22}$/);
    expect(claims.jti).not.toBe(original.jti);
    expect(Number(claims.exp)).toBeLessThanOrEqual(Number(original.exp));
  });

  test("so is the token of a client", async () => {
    const token = clientToken();
    const original = claimsIn(token);
    const claims = claimsIn(await tokenFor(token));
    expect(claims).toEqual({ ...original, aud: A, jti: expect.any(String), ...originOf(token) });
    expect(claims.jti).not.toBe(original.jti);
  });

  test("an API key gives the token of its client, with a whole life each time", async () => {
    const { text, proven } = newApiKey();
    expect(await verdictOf(text)).toBe("active");
    await pass(600_000);
    proven.provenAt = new Date(clock.ms);
    const { accessToken, expiresInMs } = await exchange(text);
    const nowS = Math.floor(clock.ms / 1_000);
    expect(claimsIn(accessToken)).toEqual({
      iss: TEST_ISSUER,
      aud: A,
      sub: proven.clientId,
      client_id: proven.clientId,
      sid: proven.credentialId,
      jti: expect.stringMatching(/^[0-9a-f-]{36}$/),
      origin_jti: proven.publicId,
      scope: "payments:read payments:write",
      iat: nowS,
      exp: nowS + 900,
    });
    expect(expiresInMs).toBeGreaterThan(900_000);
    expect(await verdictOf(accessToken, A)).toBe("active");
  });

  test("a token that is bound to a key gives one that is not: the gateway has checked the proof", async () => {
    const proven = { jkt: "A".repeat(43), x5tS256: "" };
    const client = { ...newClient(), proven };
    const who = { userId: randomUUID(), role: "USER", amr: ["pwd"], acr: 1 as const };
    const session = await issueSession(replica.deps, {
      ...who,
      ip: "",
      userAgent: "",
      authTime: new Date(clock.ms),
      proven,
    });
    for (const bound of [session.accessToken, clientToken(client)]) {
      expect(claimsIn(bound).cnf).toEqual({ jkt: proven.jkt });
      expect(await verdictOf(bound)).toBe("bound");
      const token = await tokenFor(bound);
      expect(claimsIn(token)).not.toHaveProperty("cnf");
      expect([await verdictOf(token, A), await verdictOf(token), await verdictOf(bound, A)]).toEqual([
        "active",
        "aud",
        "aud",
      ]);
    }
  });

  test("every gateway that asks gets the same token, and each audience another", async () => {
    const { accessToken } = await logIn(replica, randomUUID());
    const other = await startTokenReplica(database.sql, { clock, uptime });
    other.deps.keys.find = replica.deps.keys.find.bind(replica.deps.keys);
    other.deps.keys.active = replica.deps.keys.active.bind(replica.deps.keys);
    const again = await exchangeToken(other.deps, { token: accessToken, audience: A });
    expect(again.accessToken).toBe(await tokenFor(accessToken));
    expect(claimsIn(await tokenFor(accessToken, B)).jti).not.toBe(claimsIn(again.accessToken).jti);
    await other.stop();
  });

  test("the answer says when the token is refused as expired, as for the original", async () => {
    const { accessToken } = await logIn(replica, randomUUID());
    await pass(60_000);
    const { accessToken: token, expiresInMs } = await exchange(accessToken);
    const exp = Number(claimsIn(accessToken).exp);
    expect(expiresInMs).toBe((exp + 5) * 1_000 - clock.ms);
    await pass(expiresInMs - 1);
    expect([await verdictOf(accessToken), await verdictOf(token, A)]).toEqual(["active", "active"]);
    await expect(exchange(accessToken)).resolves.toMatchObject({ expiresInMs: 1 });
    await pass(1);
    expect([await verdictOf(accessToken), await verdictOf(token, A)]).toEqual(["exp", "exp"]);
  });
});

test("who accepts whose token: each verifier its own", async () => {
  const { accessToken: issuers } = await logIn(replica, randomUUID());
  const { text: apiKey } = newApiKey();
  const tokens = { issuers, a: await tokenFor(issuers), b: await tokenFor(issuers, B), apiKey };
  const table = async () =>
    Object.fromEntries(
      await Promise.all(
        Object.entries(tokens).map(async ([name, token]) => [
          name,
          [await verdictOf(token), await verdictOf(token, A), await verdictOf(token, B)],
        ]),
      ),
    );
  const expected = {
    issuers: ["active", "aud", "aud"],
    a: ["aud", "active", "aud"],
    b: ["aud", "aud", "active"],
    apiKey: ["active", "aud", "aud"],
  };
  expect(await table()).toEqual(expected);
  // Again, from memory: the answer to one verifier is not the answer to another.
  expect(await table()).toEqual(expected);
  replica.deps.verified.clear();
  expect(await table()).toEqual(expected);
  for (const audience of ["", `${A}/`, A.toUpperCase(), `${A} `, `${TEST_ISSUER} ${A}`])
    expect(await verdictOf(tokens.a, audience), audience).toBe("aud");
});

test("an API key that nobody has shown yet is not an upstream's either", async () => {
  const { text } = newApiKey();
  expect([await verdictOf(text, A), await verdictOf(text)]).toEqual(["aud", "active"]);
});

test("an exchanged token is no token to exchange or to refresh", async () => {
  const { accessToken, refreshToken } = await logIn(replica, randomUUID());
  const token = await tokenFor(accessToken);
  for (const audience of [A, B])
    await expect(exchange(token, audience)).rejects.toMatchObject({ code: "token_invalid" });
  await expect(refreshSession(replica.deps, token, origin)).rejects.toMatchObject({
    code: "refresh_token_invalid",
  });
  await expect(exchange(refreshToken)).rejects.toMatchObject({ code: "token_invalid" });
});

test.each([TEST_ISSUER, `${TEST_ISSUER}/`, "HTTP://GATEHOUSE.test:80", refreshAudience(TEST_ISSUER)])(
  "no token is made for Gatehouse itself: %s",
  async (audience) => {
    const { accessToken } = await logIn(replica, randomUUID());
    await expect(exchange(accessToken, audience)).rejects.toMatchObject({ code: "validation_failed" });
  },
);

test("a token that would be too long for its verifiers is not made", async () => {
  const scopes = Array.from({ length: 38 }, (_, index) => `permission:${"x".repeat(50)}:${index}`);
  const token = clientToken({ ...newClient(), scopes });
  expect(await verdictOf(token)).toBe("active");
  await expect(exchange(token, `urn:${"a".repeat(190)}`)).rejects.toMatchObject({
    code: "validation_failed",
  });
});

describe("what ends the original ends its tokens", () => {
  test("the end of the session", async () => {
    const { accessToken, sessionId, userId } = await logIn(replica, randomUUID());
    const before = await tokenFor(accessToken);
    expect(await verdictOf(before, A)).toBe("active");
    await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
    await replica.deps.revocations.refresh();
    expect(await verdictOf(before, A)).toBe("revoked");
    await expect(exchange(accessToken)).rejects.toMatchObject({ code: "token_invalid" });
  });

  test("the removal of a client's credential", async () => {
    const client = newClient();
    const token = clientToken(client);
    const before = await tokenFor(token);
    expect(await verdictOf(before, A)).toBe("active");
    await revokeClientTokens(replica.deps, [client.credentialId]);
    await replica.deps.revocations.refresh();
    expect(await verdictOf(before, A)).toBe("revoked");
    await expect(exchange(token)).rejects.toMatchObject({ code: "token_invalid" });
  });

  test("the revocation of that one token (RFC 7009), and of no other of the client", async () => {
    const client = newClient();
    const [revoked, kept] = [clientToken(client), clientToken(client)];
    const [before, other] = [await tokenFor(revoked), await tokenFor(kept)];
    expect(await verdictOf(before, A)).toBe("active");
    await revokeClientTokens(replica.deps, [String(claimsIn(revoked).jti)]);
    await replica.deps.revocations.refresh();
    expect([await verdictOf(before, A), await verdictOf(other, A)]).toEqual(["revoked", "active"]);
  });

  test("an API key that is not live any more", async () => {
    const { text, proven } = newApiKey();
    const before = await tokenFor(text);
    apiKeys.delete(text);
    await expect(exchange(text)).rejects.toMatchObject({ code: "token_invalid" });
    await revokeClientTokens(replica.deps, [proven.credentialId]);
    await replica.deps.revocations.refresh();
    expect(await verdictOf(before, A)).toBe("revoked");
  });

  test("its expiry", async () => {
    const { accessToken } = await logIn(replica, randomUUID());
    await pass(905_000);
    await expect(exchange(accessToken)).rejects.toMatchObject({ code: "token_expired" });
  });
});

test("nothing is exchanged while revocations are uncertain", async () => {
  const { accessToken } = await logIn(replica, randomUUID());
  uptime.ms += 60_000;
  await expect(exchange(accessToken)).rejects.toMatchObject({ code: "service_unavailable" });
  await replica.deps.revocations.refresh();
});

test("a rotated key gives new tokens, the refreshed session too, and a banned key ends what it signed", async () => {
  clock.ms = Date.now(); // The database's time, which says when the key was retired.
  const { accessToken, refreshToken } = await logIn(replica, randomUUID());
  const before = await exchange(accessToken);
  await rotateSigningKey(replica.deps, { force: true }, cause);
  await replica.deps.keys.reload();

  const after = await exchange(accessToken);
  expect(after.keyId).not.toBe(before.keyId);
  expect([await verdictOf(before.accessToken, A), await verdictOf(after.accessToken, A)]).toEqual([
    "active",
    "active",
  ]);
  await pass(1_000);
  const refreshed = await refreshSession(replica.deps, refreshToken, origin);
  const next = await exchange(refreshed.accessToken);
  expect(claimsIn(next.accessToken).jti).toMatch(/^2\./);
  expect(await verdictOf(next.accessToken, A)).toBe("active");

  await revokeSigningKey(replica.deps, after.keyId, cause);
  await replica.deps.revocations.refresh();
  await replica.deps.keys.reload();
  expect(await verdictOf(after.accessToken, A)).not.toBe("active");
  expect(await verdictOf(accessToken)).toBe("active");
  const healed = await exchange(accessToken);
  expect(await verdictOf(healed.accessToken, A)).toBe("active");
});

import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { logIn, startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import type { UserClaims } from "../tokens/access-token.ts";
import type { TokenPair } from "../tokens/sign-pair.ts";
import { verifyToken } from "../tokens/verify-token.ts";
import { raiseSession } from "./raise-session.ts";
import { refreshSession } from "./refresh-session.ts";
import { revokeSession } from "./revoke-session.ts";

let database: TestDatabase;
let replica: TokenReplica;
let userId: string;
let pair: TokenPair;
beforeAll(async () => {
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql);
});
beforeEach(async () => {
  userId = randomUUID();
  pair = await logIn(replica, userId);
  await database.ownerSql`update sessions set auth_time = now() - interval '1 hour' where id = ${pair.sessionId}`;
});
afterAll(async () => {
  replica.stop();
  await database.drop();
});

const TOTP = { acr: 2, amr: ["otp", "mfa"] } as const;
const PASSWORD = { acr: 1, amr: ["pwd"] } as const;
const raise = (proof: { acr: 1 | 2 | 3; amr: readonly string[] } = TOTP) =>
  raiseSession(replica.deps, { sessionId: pair.sessionId, userId, ...proof });
const refresh = (refreshToken = pair.refreshToken) =>
  refreshSession(replica.deps, refreshToken, { ip: "", userAgent: "", requestId: "r", traceId: "t" });
async function claimsOf({ accessToken }: { accessToken: string }): Promise<UserClaims> {
  const verdict = await verifyToken(replica.deps, accessToken);
  if (!verdict.active) throw new Error(verdict.refusal);
  return verdict.token.claims as UserClaims;
}
const nowS = () => Math.floor(Date.now() / 1_000);
const HOUR_S = 3_600;

test("a second factor raises the session: new access token, same session, same refresh token", async () => {
  const before = await claimsOf(pair);
  const raised = await raise();
  expect(raised).toEqual({ acr: 2, accessToken: expect.any(String), expiresInS: expect.any(Number) });
  const claims = await claimsOf(raised);
  expect(claims).toMatchObject({ sid: pair.sessionId, sub: userId, acr: "urn:gatehouse:acr:2" });
  expect(claims.amr).toEqual(["pwd", "otp", "mfa"]);
  expect(nowS() - claims.auth_time).toBeLessThan(60);
  expect(claims.jti).not.toBe(before.jti);
  expect(await claimsOf(pair)).toMatchObject({ acr: "urn:gatehouse:acr:1" });
  const refreshed = await refresh();
  expect(refreshed.sessionId).toBe(pair.sessionId);
});

test("a session that reaches a higher level is an event, and one that proves its level again is none", async () => {
  for (const proof of [TOTP, TOTP, PASSWORD]) await raise(proof);
  const rows = await database.ownerSql`
    select type, session_id as "sessionId", reason from security_events where user_id = ${userId}`;
  expect([...rows]).toEqual([{ type: "session_raised", sessionId: pair.sessionId, reason: "1 to 2" }]);
});

test("a refresh keeps the methods, the level and the time of the last proof", async () => {
  const { amr, acr, auth_time } = await claimsOf(await raise());
  let refreshed = await refresh();
  for (let round = 0; round < 3; round += 1) {
    expect(await claimsOf(refreshed)).toMatchObject({ amr, acr, auth_time });
    refreshed = await refresh(refreshed.refreshToken);
  }
});

test("a proof of the session's own level makes it fresh; a lower one changes nothing", async () => {
  const fresh = await claimsOf(await raise(PASSWORD));
  expect(fresh).toMatchObject({ acr: "urn:gatehouse:acr:1", amr: ["pwd"] });
  expect(nowS() - fresh.auth_time).toBeLessThan(60);

  await raise();
  await database.ownerSql`update sessions set auth_time = now() - interval '1 hour' where id = ${pair.sessionId}`;
  const lower = await raise(PASSWORD);
  expect(lower.acr).toBe(2);
  const claims = await claimsOf(lower);
  expect(claims).toMatchObject({ acr: "urn:gatehouse:acr:2", amr: ["pwd", "otp", "mfa"] });
  expect(nowS() - claims.auth_time).toBeGreaterThanOrEqual(HOUR_S);
});

test("two proofs in one second have tokens of their own", async () => {
  const tokens = [await raise(PASSWORD), await raise(), await raise({ acr: 3, amr: ["hwk", "user"] })];
  const ids = (await Promise.all(tokens.map(claimsOf))).map(({ jti }) => jti);
  expect(new Set(ids).size).toBe(3);
});

test("proofs that race leave the highest level", async () => {
  const proofs = Array.from({ length: 20 }, (_, index) => raise(index === 7 ? TOTP : PASSWORD));
  await Promise.all(proofs);
  expect(await claimsOf(await refresh())).toMatchObject({ acr: "urn:gatehouse:acr:2" });
});

test("a session of someone else, an ended and an unknown one are not found", async () => {
  const notFound = { code: "not_found" };
  const proof = { sessionId: pair.sessionId, userId, ...TOTP };
  await expect(raiseSession(replica.deps, { ...proof, userId: randomUUID() })).rejects.toMatchObject(
    notFound,
  );
  await expect(raiseSession(replica.deps, { ...proof, sessionId: randomUUID() })).rejects.toMatchObject(
    notFound,
  );
  await revokeSession(replica.deps, { sessionId: pair.sessionId, userId, reason: "logout" });
  await expect(raise()).rejects.toMatchObject(notFound);
});

test("a session past its idle end is not raised", async () => {
  await database.ownerSql`update sessions set idle_end = now() - interval '1 second' where id = ${pair.sessionId}`;
  await expect(raise()).rejects.toMatchObject({ code: "not_found" });
});

import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { logIn, startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { proveRefreshToken } from "./prove-refresh-token.ts";
import { refreshSession } from "./refresh-session.ts";
import { revokeSession } from "./revoke-session.ts";

let database: TestDatabase;
let replica: TokenReplica;
const origin = { ip: "192.0.2.2", userAgent: "test", requestId: "r", traceId: "t" };
const refusal = expect.objectContaining({ code: "refresh_token_invalid" });

beforeAll(async () => {
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql);
});

afterAll(async () => {
  replica.stop();
  await database.drop();
});

test("the newest refresh token and its parent prove the session, an older one does not; none is used up", async () => {
  const userId = randomUUID();
  const first = await logIn(replica, userId);
  const proof = { userId, sessionId: first.sessionId };
  const prove = (token: string) => proveRefreshToken(replica.deps, token);
  expect(await prove(first.refreshToken)).toEqual(proof);

  const second = await refreshSession(replica.deps, first.refreshToken, origin);
  expect(await prove(first.refreshToken)).toEqual(proof);
  expect(await prove(second.refreshToken)).toEqual(proof);

  const third = await refreshSession(replica.deps, second.refreshToken, origin);
  await expect(prove(first.refreshToken)).rejects.toThrow(refusal);
  expect(await prove(third.refreshToken)).toEqual(proof);
  await refreshSession(replica.deps, third.refreshToken, origin);
});

test("neither an access token, nor a forged one, nor that of an ended session proves anything", async () => {
  const userId = randomUUID();
  const pair = await logIn(replica, userId);
  const tampered = `${pair.refreshToken.slice(0, -4)}AAAA`;
  for (const token of [pair.accessToken, tampered, "", "x"]) {
    await expect(proveRefreshToken(replica.deps, token)).rejects.toThrow(refusal);
  }
  await revokeSession(replica.deps, { sessionId: pair.sessionId, userId, reason: "logout" });
  await expect(proveRefreshToken(replica.deps, pair.refreshToken)).rejects.toThrow(refusal);
});

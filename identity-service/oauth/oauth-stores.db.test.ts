import { createHash } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import {
  deleteIdentitiesSince,
  deleteOtherIdentities,
  listIdentities,
} from "../identities/external-identity-store.ts";
import { deleteExpired, deleteFlowsOfUser, insertCode, insertFlow } from "../identities/oauth-store.ts";
import { startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { exchangeOAuthCode } from "./exchange-oauth-code.ts";
import { challengeOf, handleHash } from "./oauth-flow-secrets.ts";

const CODE = "c".repeat(43);
const from = { clientIp: "192.0.2.1", userAgent: "test", deviceToken: "" };

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  ({ deps, userId } = await startWithAnna(database));
});
afterAll(() => database.drop());

const inS = (seconds: number) => new Date(deps.now().getTime() + seconds * 1_000);
const hash = (text: string) => createHash("sha256").update(text).digest();
const plantFlow = (state: string, linkUserId: string | null, expiresAt = inS(600)) =>
  insertFlow(database.sql, {
    stateHash: hash(state),
    browserHash: hash("browser"),
    provider: "demo",
    returnTo: "https://app.example/",
    codeChallenge: null,
    linkUserId,
    linkSessionEpoch: linkUserId === null ? null : 0,
    linkSessionId: null,
    createdAt: inS(-600),
    expiresAt,
  });
const plantCode = (code: string, { codeChallenge = challengeOf(CODE), expiresAt = inS(60) } = {}) =>
  insertCode(database.sql, {
    codeHash: handleHash(code) ?? Buffer.alloc(32),
    codeChallenge,
    userId,
    sessionEpoch: 0,
    authTime: inS(-5),
    expiresAt,
  });
const link = (provider: string, linkedAt = deps.now()) => database.ownerSql`
  insert into external_identities (issuer, subject, user_id, provider, linked_at)
  values (${`https://${provider}.example`}, 'sub', ${userId}, ${provider}, ${linkedAt})`;
const left = async () => (await listIdentities(database.sql, userId)).map(({ provider }) => provider);
const exchange = (codeVerifier: string) =>
  exchangeOAuthCode(deps, { code: CODE, codeVerifier, ...from }, newCallContext({ budgetMs: 60_000 }));

test("a user's flows and codes end, and those of others stay", async () => {
  await plantFlow("linking", userId);
  await plantFlow("login", null);
  await plantCode(CODE);
  await transaction(database.sql, (tx) => deleteFlowsOfUser(tx, userId));
  expect(await database.ownerSql`select state_hash from oauth_flows`).toEqual([
    { state_hash: hash("login") },
  ]);
  expect(await database.ownerSql`select from oauth_codes`).toHaveLength(0);
});

test("expired flows and codes are deleted and counted", async () => {
  await plantFlow("over", null, deps.now());
  await plantFlow("open", null, inS(1));
  await plantCode(CODE, { expiresAt: deps.now() });
  await plantCode("d".repeat(43), { expiresAt: inS(1) });
  expect(await deleteExpired(database.sql, deps.now(), 10)).toBe(2);
  expect(await database.ownerSql`select from oauth_flows`).toHaveLength(1);
  expect(await database.ownerSql`select from oauth_codes`).toHaveLength(1);
});

test("identities that were linked since are deleted, and named in one order", async () => {
  await link("old", inS(-1));
  await link("zeta");
  await link("alpha");
  const removed = await transaction(database.sql, (tx) => deleteIdentitiesSince(tx, userId, deps.now()));
  expect(removed).toEqual(["alpha", "zeta"]);
  expect(await left()).toEqual(["old"]);
});

test("all identities but one are deleted, or all, and named in one order", async () => {
  await link("zeta");
  await link("kept");
  await link("alpha");
  const deleteOthers = (kept: { issuer: string; subject: string } | null) =>
    transaction(database.sql, (tx) => deleteOtherIdentities(tx, userId, kept));
  expect(await deleteOthers({ issuer: "https://kept.example", subject: "sub" })).toEqual(["alpha", "zeta"]);
  expect(await left()).toEqual(["kept"]);
  expect(await deleteOthers(null)).toEqual(["kept"]);
});

test.each(["a".repeat(43), "~".repeat(128), `${"a".repeat(39)}.-_9`])(
  "a code is exchanged with the verifier %s",
  async (verifier) => {
    await plantCode(CODE, { codeChallenge: challengeOf(verifier) });
    expect(await exchange(verifier)).toHaveProperty("tokens");
    expect(deps.tokenService.issueSession.mock.lastCall?.[0]).toEqual({
      userId,
      role: "USER",
      amr: ["fed"],
      acr: 1,
      limits: expect.anything(),
      authTime: inS(-5),
      clientIp: from.clientIp,
      userAgent: from.userAgent,
    });
  },
);

// RFC 7636 §4.1.
test.each([
  "a".repeat(42),
  "a".repeat(129),
  ` ${"a".repeat(43)}`,
  `${"a".repeat(43)} `,
  `${"a".repeat(43)}+`,
])("%j is no verifier, also where it fits the challenge", async (verifier) => {
  await plantCode(CODE, { codeChallenge: challengeOf(verifier) });
  await expect(exchange(verifier)).rejects.toMatchObject({ code: "oauth_code_invalid" });
});

test("sessions that are ended while the exchange begins one end the exchange", async () => {
  await plantCode(CODE);
  deps.tokenService.issueSession.mockImplementationOnce(async () => {
    await database.ownerSql`update users set session_epoch = session_epoch + 1`;
    return {
      accessToken: "a",
      refreshToken: "r",
      expiresInS: 900,
      refreshExpiresInS: 604_800,
      sessionId: deps.newId(),
      userId,
    };
  });
  await expect(exchange(CODE)).rejects.toMatchObject({ code: "oauth_code_invalid" });
  expect(deps.tokenService.revokeSession).toHaveBeenCalledOnce();
});

test("while token-service is away an exchange is unavailable, not refused", async () => {
  await plantCode(CODE);
  deps.tokenService.issueSession.mockRejectedValueOnce(new DomainError("service_unavailable"));
  await expect(exchange(CODE)).rejects.toMatchObject({ code: "service_unavailable" });
});

test("where an address must be proven, a code is exchanged for a session once it is", async () => {
  deps.loginRequiresVerifiedEmail = true;
  await plantCode(CODE);
  await expect(exchange(CODE)).rejects.toMatchObject({ code: "email_not_verified" });
  await database.ownerSql`update users set email_verified = true`;
  await plantCode(CODE);
  expect(await exchange(CODE)).toHaveProperty("tokens");
});

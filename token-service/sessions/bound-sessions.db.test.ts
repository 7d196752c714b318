import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { type Confirmation, newCallContext } from "#kit/rpc/call-context.ts";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { parseCompactJws } from "#token-client/compact-jws.ts";
import { lockSession } from "../rows/session-store.ts";
import { createSessionRpc } from "../session-rpc.ts";
import { createTokenRpc } from "../token-rpc.ts";
import { isTokenId } from "../tokens/refresh-token.ts";
import { verifyToken } from "../tokens/verify-token.ts";
import { raiseSession } from "./raise-session.ts";

const KEY: Confirmation = { jkt: "K".repeat(43), x5tS256: "" };
const OTHER_KEY: Confirmation = { jkt: "O".repeat(43), x5tS256: "" };
const CERTIFICATE: Confirmation = { jkt: "", x5tS256: "C".repeat(43) };
const BOTH: Confirmation = { jkt: KEY.jkt, x5tS256: CERTIFICATE.x5tS256 };
const origin = { ip: "192.0.2.1", userAgent: "test" };
const context = () => newCallContext({ budgetMs: 60_000 }) as RpcContext;

let database: TestDatabase;
let replica: TokenReplica;
const clock = { ms: 0 };

beforeAll(async () => {
  database = await createTestDatabase("token-service");
  clock.ms = Date.now();
  replica = await startTokenReplica(database.sql, { clock });
});
beforeEach(() => {
  clock.ms = Date.now();
});
afterAll(async () => {
  await replica.stop();
  await database.drop();
});

const rpc = () => createSessionRpc(replica.deps, async () => undefined);

async function issue(confirmation: Confirmation | undefined, userId: string = randomUUID()) {
  const user = { userId, role: "USER", amr: ["pwd"], acr: "urn:gatehouse:acr:1" };
  const login = { ...user, authTime: new Date(clock.ms), limits: undefined, confirmation };
  const { tokens } = await rpc().issueSession({ ...login, ...origin }, context());
  if (tokens === undefined) throw new Error("no tokens");
  return tokens;
}

async function refresh(refreshToken: string, confirmation: Confirmation | undefined) {
  const { tokens } = await rpc().refreshSession({ refreshToken, ...origin, confirmation }, context());
  if (tokens === undefined) throw new Error("no tokens");
  return tokens;
}

function payloadOf(token: string): Record<string, unknown> {
  const jws = parseCompactJws(token);
  if (typeof jws === "string") throw new Error(jws);
  return jws.payload;
}

async function rowOf(sessionId: string) {
  const [row] = await database.sql<
    { generation: number; revokedReason: string | null; signed: string | null }[]
  >`
    select generation, revoked_reason as "revokedReason", last_signed_at as signed from sessions where id = ${sessionId}
  `;
  if (row === undefined) throw new Error("the session is gone");
  return row;
}

const principalOf = async (token: string) => {
  const { principal } = await createTokenRpc({
    ...replica.deps,
    revocations: replica.deps.parts,
  }).verifyToken({ token, acceptsBound: true }, context());
  return principal;
};
const INVALID = { code: "refresh_token_invalid" };

test.each([
  ["a key", KEY, { jkt: KEY.jkt }, KEY],
  ["a certificate", CERTIFICATE, { "x5t#S256": CERTIFICATE.x5tS256 }, CERTIFICATE],
  ["a key and a certificate, of which the key counts", BOTH, { jkt: KEY.jkt }, KEY],
])("a session of %s: every token of it says so", async (_what, proven, cnf, confirmation) => {
  const first = await issue(proven);
  const second = await refresh(first.refreshToken, proven);
  const proof = { sessionId: first.sessionId, userId: first.userId, acr: 1, amr: ["pwd"] } as const;
  const raised = await raiseSession(replica.deps, proof);
  for (const { accessToken } of [first, second, raised]) {
    expect(payloadOf(accessToken).cnf).toEqual(cnf);
    expect((await principalOf(accessToken))?.confirmation).toEqual(confirmation);
  }
  expect([first.confirmation, second.confirmation]).toEqual([confirmation, confirmation]);
});

test("a client's token is bound to what the client has proven", async () => {
  const client = { clientId: randomUUID(), credentialId: randomUUID(), scopes: ["payments:read"] };
  const issueTo = async (confirmation: Confirmation | undefined) => {
    const proven = { ...client, provenAt: new Date(clock.ms), confirmation };
    return payloadOf((await rpc().issueClientToken(proven, context())).accessToken).cnf;
  };
  expect(await issueTo(BOTH)).toEqual({ jkt: KEY.jkt });
  expect(await issueTo(CERTIFICATE)).toEqual({ "x5t#S256": CERTIFICATE.x5tS256 });
  expect(await issueTo(undefined)).toBeUndefined();
});

test("who does not say that it checks keys finds a bound token not active, before and after others verified it", async () => {
  const { accessToken } = await issue(KEY);
  const asked = createTokenRpc({ ...replica.deps, revocations: replica.deps.parts });
  const isActive = async (acceptsBound?: boolean) =>
    (
      await asked.verifyToken(
        { token: accessToken, ...(acceptsBound !== undefined && { acceptsBound }) },
        context(),
      )
    ).active;
  expect([await isActive(), await isActive(true), await isActive(), await isActive(false)]).toEqual([
    false,
    true,
    false,
    false,
  ]);
  expect(await verifyToken(replica.deps, accessToken)).toEqual({ active: false, refusal: "bound" });
});

test.each([
  ["nothing", undefined],
  ["another key", OTHER_KEY],
  ["a certificate", CERTIFICATE],
])("with %s proven, a refresh of a bound session is refused and changes nothing", async (_what, proven) => {
  const { refreshToken, sessionId } = await issue(KEY);
  const before = await rowOf(sessionId);
  await expect(refresh(refreshToken, proven)).rejects.toMatchObject(INVALID);
  await expect(
    rpc().proveRefreshToken({ refreshToken, ...(proven && { confirmation: proven }) }, context()),
  ).rejects.toMatchObject(INVALID);
  expect(await rowOf(sessionId)).toEqual(before);
  await expect(refresh(refreshToken, KEY)).resolves.toMatchObject({ sessionId });
});

test("a session of a certificate is refreshed with that certificate only", async () => {
  const { refreshToken } = await issue(CERTIFICATE);
  const other = { jkt: KEY.jkt, x5tS256: "D".repeat(43) };
  await expect(refresh(refreshToken, other)).rejects.toMatchObject(INVALID);
  await expect(refresh(refreshToken, BOTH)).resolves.toBeDefined();
});

test("who stole an old refresh token but not the key cannot end the session with it; with the key it is a reuse", async () => {
  const first = await issue(KEY);
  const second = await refresh(first.refreshToken, KEY);
  const third = await refresh(second.refreshToken, KEY);
  clock.ms += 60_000;
  for (const stolen of [first, second]) {
    await expect(refresh(stolen.refreshToken, undefined)).rejects.toMatchObject(INVALID);
    await expect(refresh(stolen.refreshToken, OTHER_KEY)).rejects.toMatchObject(INVALID);
  }
  expect(await rowOf(third.sessionId)).toMatchObject({ generation: 3, revokedReason: null });
  expect(replica.refreshes.slice(-4)).toEqual(["unproven", "unproven", "unproven", "unproven"]);
  await expect(refresh(first.refreshToken, KEY)).rejects.toMatchObject({ code: "refresh_token_reused" });
  expect((await rowOf(third.sessionId)).revokedReason).toBe("refresh_reuse");
});

test("a repeated refresh gives the same pair only to the key", async () => {
  const first = await issue(KEY);
  const second = await refresh(first.refreshToken, KEY);
  await expect(refresh(first.refreshToken, OTHER_KEY)).rejects.toMatchObject(INVALID);
  expect((await refresh(first.refreshToken, KEY)).refreshToken).toBe(second.refreshToken);
});

test("a session that began without a key stays without one, whatever a refresh proves", async () => {
  const first = await issue(undefined);
  const second = await refresh(first.refreshToken, KEY);
  expect(payloadOf(second.accessToken).cnf).toBeUndefined();
  expect(second.confirmation).toBeUndefined();
  await expect(refresh(second.refreshToken, undefined)).resolves.toBeDefined();
});

test.each([
  [{ jkt: "short", x5tS256: "" }],
  [{ jkt: "=".repeat(43), x5tS256: "" }],
  [{ jkt: "", x5tS256: "C".repeat(44) }],
])("%j is no thumbprint", async (confirmation) => {
  await expect(issue(confirmation)).rejects.toMatchObject({ code: "validation_failed" });
  await expect(refresh("e30.e30.e30", confirmation)).rejects.toMatchObject({ code: "validation_failed" });
});

test("the proof in a refresh token covers the key that its session is bound to", async () => {
  const { refreshToken, sessionId } = await issue(KEY);
  const { jti } = payloadOf(refreshToken);
  const session = await transaction(database.sql, (tx) => lockSession(tx, sessionId));
  if (session === undefined || typeof jti !== "string") throw new Error("no session");
  expect(isTokenId(jti, session.tokenSecret, "refresh 1")).toBe(false);
  expect(isTokenId(jti, session.tokenSecret, `refresh 1 jkt ${KEY.jkt}`)).toBe(true);
});

test.each([
  ["two bindings", { jkt: KEY.jkt, x5t_s256: CERTIFICATE.x5tS256 }],
  ["what is no thumbprint", { jkt: "K", x5t_s256: null }],
])("the database refuses %s", async (_what, change) => {
  const { sessionId } = await issue(KEY);
  await expect(
    database.sql`update sessions set ${database.sql(change)} where id = ${sessionId}`,
  ).rejects.toThrow(/"sessions_binding/);
});

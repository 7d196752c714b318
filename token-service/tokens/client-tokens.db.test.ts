import { randomUUID } from "node:crypto";
import { SignJWT } from "jose";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { parseCompactJws } from "#token-client/compact-jws.ts";
import { deleteExpiredRevocations } from "../revocations/revocation-store.ts";
import { revokeClientTokens } from "../sessions/revoke-session.ts";
import { exchangeToken } from "./exchange-token.ts";
import { issueClientToken } from "./issue-client-token.ts";
import { type ProvenApiKey, verifyToken } from "./verify-token.ts";

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

const scopes = ["payments:read", "payments:write"];
const newClient = () => ({
  clientId: randomUUID(),
  credentialId: randomUUID(),
  scopes,
  provenAt: new Date(clock.ms),
});
type Client = ReturnType<typeof newClient>;
const issue = (client: Client) => issueClientToken(replica.deps, client).accessToken;
const verdictOf = (token: string) => verifyToken(replica.deps, token);
async function expectRefusal(token: string, refusal: string): Promise<void> {
  expect(await verdictOf(token)).toEqual({ active: false, refusal });
}
function claimsIn(token: string): Record<string, unknown> {
  const jws = parseCompactJws(token);
  if (typeof jws === "string") throw new Error(jws);
  return jws.payload;
}
function signed(claims: Record<string, unknown>): Promise<string> {
  const key = replica.deps.keys.active();
  return new SignJWT(claims)
    .setProtectedHeader({ alg: "EdDSA", typ: "at+jwt", kid: key.id })
    .sign(key.privateKey);
}
/** The time of the service passes, its reads of the log go on. */
async function pass(ms: number): Promise<void> {
  clock.ms += ms;
  uptime.ms += ms;
  await replica.deps.revocations.refresh();
}

test("a client's token names the client twice, its credential, what it may do, and no role", async () => {
  const client = newClient();
  const token = issue(client);
  expect(claimsIn(token)).toEqual({
    iss: replica.deps.issuer,
    aud: replica.deps.issuer,
    sub: client.clientId,
    client_id: client.clientId,
    sid: client.credentialId,
    jti: expect.stringMatching(/^[0-9a-f-]{36}$/),
    iat: Math.floor(clock.ms / 1_000),
    exp: Math.floor(clock.ms / 1_000) + 900,
    scope: "payments:read payments:write",
  });
  expect(await verdictOf(token)).toMatchObject({ active: true });
  expect(claimsIn(issue(client)).jti).not.toBe(claimsIn(token).jti);
});

test.each([
  ["with a role", { role: "ADMIN" }],
  ["of another subject", { sub: randomUUID() }],
  ["without a scope", { scope: undefined }],
  ["with an empty scope", { scope: "" }],
  ["with two spaces in its scope", { scope: "a  b" }],
  ["of a client that is no id", { client_id: "x", sub: "x" }],
  ["with a user's jti", { jti: `1.${"A".repeat(22)}` }],
])("a client's token %s is refused, although we signed it", async (_what, change) => {
  const claims = claimsIn(issue(newClient()));
  expect(await verdictOf(await signed(claims))).toMatchObject({ active: true });
  await expectRefusal(await signed({ ...claims, ...change }), "claims");
});

test("revoking a credential ends every token of it, also one that is issued meanwhile, and no other's", async () => {
  const [client, other] = [newClient(), newClient()];
  const [before, others] = [issue(client), issue(other)];
  expect(await verdictOf(before)).toMatchObject({ active: true });
  await revokeClientTokens(replica.deps, [client.credentialId]);
  await replica.deps.revocations.refresh();
  await expectRefusal(before, "revoked");
  expect(() => issue(client)).toThrow(expect.objectContaining({ code: "invalid_client" }));
  expect(await verdictOf(others)).toMatchObject({ active: true });
});

test("one token is revoked by its jti, and the next of the same credential works", async () => {
  const client = newClient();
  const [first, second] = [issue(client), issue(client)];
  await revokeClientTokens(replica.deps, [claimsIn(first).jti as string]);
  await replica.deps.revocations.refresh();
  await expectRefusal(first, "revoked");
  expect(await verdictOf(second)).toMatchObject({ active: true });
});

test("a token whose issue was held up past the revocation of its credential does not outlive the revocation", async () => {
  const client = newClient();
  await revokeClientTokens(replica.deps, [client.credentialId]);
  // This replica has not heard of it, and signs 20 s later.
  clock.ms += 20_000;
  const unaware = { ...replica.deps, revocations: { isSessionRevoked: () => false } };
  const { accessToken, expiresInS } = issueClientToken(unaware, client);
  expect(expiresInS).toBe(880);
  await replica.deps.revocations.refresh();
  await expectRefusal(accessToken, "revoked");
  // Until the entry is forgotten, and after it.
  for (const ms of [860_000, 26_000, 3_000, 2_000, 60_000]) {
    await pass(ms);
    expect(await verdictOf(accessToken), String(clock.ms)).toMatchObject({ active: false });
  }
  await database.ownerSql`update revocations set expires_at = now() - interval '2 hours'`;
  expect(await deleteExpiredRevocations(database.sql, 100)).toBeGreaterThan(0);
});

test.each([
  ["too old", -31_000],
  ["from the future", 7_000],
])("a proof that is %s gives no token", (_what, ms) => {
  const client = { ...newClient(), provenAt: new Date(clock.ms + ms) };
  expect(() => issue(client)).toThrow(expect.objectContaining({ code: "service_unavailable" }));
});

test.each([
  ["too old", -31_000],
  ["from the future", 7_000],
])("a proof of an API key that is %s says nothing of the key: 503, and asked again", async (_what, ms) => {
  const publicId = randomUUID().replaceAll("-", "");
  const text = `gh_${publicId}_${"S".repeat(43)}`;
  const proven = { ...newClient(), publicId };
  apiKeys.set(text, { ...proven, provenAt: new Date(clock.ms + ms) });
  await expect(verdictOf(text)).rejects.toMatchObject({ code: "service_unavailable" });
  apiKeys.set(text, { ...proven, provenAt: new Date(clock.ms) });
  expect(await verdictOf(text)).toMatchObject({ active: true });
  apiKeys.delete(text);
});

test("a revoked API key stays refused when the log has forgotten its revocation, also if the clock of identity-service is ahead", async () => {
  const text = `gh_${"c3".repeat(16)}_${"S".repeat(43)}`;
  const client = { ...newClient(), provenAt: new Date(clock.ms + 4_000) };
  apiKeys.set(text, { ...client, publicId: "c3".repeat(16) });
  expect(await verdictOf(text)).toMatchObject({ active: true });
  await revokeClientTokens(replica.deps, [client.credentialId]);
  apiKeys.delete(text);
  await replica.deps.revocations.refresh();
  await expectRefusal(text, "api_key");
  expect(replica.deps.verified.has(text)).toBe(false);
  await pass(911_000);
  await expectRefusal(text, "api_key");
});

test("the most that a client can be granted fits into its token and into those for upstreams, whatever the issuer", async () => {
  const deps = { ...replica.deps, issuer: `https://${"i".repeat(248)}` };
  const scopes = Array.from(
    { length: 20 },
    (_, index) => `${"x".repeat(97)}:${"abcdefghijklmnopqrst"[index]}`,
  );
  expect(scopes.join(" ")).toHaveLength(1_999);
  const client = { ...newClient(), scopes, proven: { jkt: "", x5tS256: "A".repeat(43) } };
  const { accessToken } = issueClientToken(deps, client);
  expect(await verifyToken(deps, accessToken, { acceptsBound: true })).toMatchObject({ active: true });
  const audience = `urn:${"a".repeat(196)}`;
  const { accessToken: exchanged } = await exchangeToken(deps, { token: accessToken, audience });
  expect(await verifyToken(deps, exchanged, { audience })).toMatchObject({ active: true });
});

test("a scope that no token can carry is refused, and no token is made that every verifier refuses", () => {
  const scopes = Array.from({ length: 40 }, (_, index) => `a:${"x".repeat(90)}-${"abcdefghij"[index % 10]}`);
  expect(() => issue({ ...newClient(), scopes })).toThrow(expect.objectContaining({ code: "invalid_scope" }));
});

const API_KEY = `gh_${"a1".repeat(16)}_${"S".repeat(43)}`;

test("an API key counts as a token of its client, is asked for once, and again after its life", async () => {
  const asked = vi.fn(replica.deps.askForApiKey);
  const deps = { ...replica.deps, askForApiKey: asked };
  const client = newClient();
  apiKeys.set(API_KEY, { ...client, publicId: "a1".repeat(16) });
  for (let call = 0; call < 3; call += 1)
    expect(await verifyToken(deps, API_KEY)).toMatchObject({
      active: true,
      token: {
        claims: { sub: client.clientId, sid: client.credentialId, scope: "payments:read payments:write" },
      },
    });
  expect(asked).toHaveBeenCalledTimes(1);
  await pass(905_000);
  apiKeys.delete(API_KEY);
  expect(await verifyToken(deps, API_KEY)).toEqual({ active: false, refusal: "api_key" });
  expect(asked).toHaveBeenCalledTimes(2);
});

test("a revoked API key is refused at once; if its credential lives on under another id, it is accepted", async () => {
  const client = newClient();
  apiKeys.set(API_KEY, { ...client, publicId: "a1".repeat(16) });
  expect(await verdictOf(API_KEY)).toMatchObject({ active: true });
  await revokeClientTokens(replica.deps, [client.credentialId]);
  await replica.deps.revocations.refresh();
  await expectRefusal(API_KEY, "revoked");
  apiKeys.set(API_KEY, { ...client, publicId: "a1".repeat(16), credentialId: randomUUID() });
  expect(await verdictOf(API_KEY)).toMatchObject({ active: true });
});

test.each(["gh_", `${API_KEY}x`, API_KEY.slice(0, -1), API_KEY.toUpperCase(), API_KEY.replace("gh_", "gh-")])(
  "the text %j is no API key, and identity-service is not asked",
  async (text) => {
    const askForApiKey = vi.fn();
    expect(await verifyToken({ ...replica.deps, askForApiKey }, text)).toMatchObject({ active: false });
    expect(askForApiKey).not.toHaveBeenCalled();
  },
);

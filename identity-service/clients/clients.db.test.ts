import { generateKeyPairSync, type KeyPairKeyObjectResult, randomUUID } from "node:crypto";
import { generateKeyPair, SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { type Actor, newCallContext } from "#kit/rpc/call-context.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { deleteUser } from "../admin/delete-user.ts";
import { setUserAccess } from "../admin/set-user-access.ts";
import { createClientAdminRpc } from "../client-admin-rpc.ts";
import { startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { addCredential, type NewCredential } from "./add-credential.ts";
import { createApiKeyIds, verifyApiKey } from "./api-keys.ts";
import { authenticateClient, type ClientProof } from "./authenticate-client.ts";
import { changeClient } from "./change-client.ts";
import { createClientLimits } from "./client-limits.ts";
import { createClient } from "./create-client.ts";
import type { CredentialKind } from "./credential-store.ts";
import { deleteClient, revokeCredential } from "./delete-client.ts";
import { createClientEndWorker } from "./end-client-tokens.ts";
import { grantClientToken } from "./grant-client-token.ts";
import {
  createOwnerlessCount,
  deleteOldAssertions,
  filterClients,
  getClient,
  listClients,
} from "./managed-clients.ts";

let database: TestDatabase;
let deps: TestDeps;
let ownerId: string;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "clients", "client_ends", "client_assertions");
  const started = await startWithAnna(database);
  deps = { ...started.deps, now: () => new Date() };
  ownerId = started.userId;
});
afterAll(() => database.drop());

const admin = (role = "ADMIN"): Actor => ({ userId: randomUUID(), role, sessionId: randomUUID() });
const as = (actor: Actor) => ({ ...newCallContext({ budgetMs: 60_000 }), actor });
const context = () => as(admin());
const create = (permissions = ["payments:read", "payments:write"]) =>
  createClient(deps, { name: "Shop", ownerId, permissions }, context());
const add = (clientId: string, kind: CredentialKind, change: Partial<NewCredential> = {}) =>
  addCredential(deps, { clientId, kind, name: "", publicJwkJson: "", ...change }, context());
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );
const authenticate = (proof: ClientProof, clientIp = "192.0.2.1") =>
  authenticateClient(deps, proof, clientIp);
const bySecret = (clientId: string, secret: string): ClientProof => ({ kind: "secret", clientId, secret });
const grant = (proof: ClientProof, scope = "") =>
  grantClientToken(deps, { proof, clientIp: "192.0.2.1", scope, confirmation: undefined }, context());
const recorded = async () =>
  (
    await database.ownerSql<{ type: string; reason: string }[]>`
    select type, reason from security_events where type like 'client%' order by id`
  ).map(({ type, reason }) => `${type} ${reason}`);

async function withKey(alg = "EdDSA", options: object = {}) {
  const client = await create();
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true, ...options });
  const { exportJWK } = await import("jose");
  const { credential } = await add(client.id, "public_key", {
    publicJwkJson: JSON.stringify(await exportJWK(publicKey)),
  });
  let count = 0;
  const assertion = async (
    claims: object = {},
    header: object = {},
    key = privateKey,
  ): Promise<ClientProof> => {
    count += 1;
    const now = Math.floor(Date.now() / 1_000);
    const usual = {
      iss: client.id,
      sub: client.id,
      aud: deps.tokenIssuer,
      jti: `${count}`,
      iat: now,
      exp: now + 60,
    };
    const text = await new SignJWT({ ...usual, ...claims })
      .setProtectedHeader({ alg, kid: credential.keyId, ...header })
      .sign(key);
    return { kind: "assertion", assertion: text };
  };
  return { client, credential, assertion, privateKey };
}

test("a client is made, shown, listed and found by its owner; every change is recorded with who did it", async () => {
  const client = await create();
  await add(client.id, "secret", { name: "first" });
  const shown = await getClient(deps, client.id);
  expect(shown.client).toMatchObject({ name: "Shop", ownerId, status: "active" });
  expect(shown.credentials).toMatchObject([{ kind: "secret", name: "first", keyId: "", lastUsedAt: null }]);
  expect(JSON.stringify(shown)).not.toMatch(/hash|jwk/i);
  const list = { owner: "", cursor: "", limit: 100 };
  expect((await listClients(deps, list)).clients).toMatchObject([{ id: client.id }]);
  expect((await listClients(deps, { ...list, owner: ownerId })).clients).toHaveLength(1);
  expect((await listClients(deps, { ...list, owner: randomUUID() })).clients).toEqual([]);
  await changeClient(deps, { clientId: client.id, name: " Shop 2 " }, context());
  await deleteClient(deps, client.id, context());
  expect(await recorded()).toEqual([
    `client_created owner ${ownerId}, +payments:read, +payments:write`,
    expect.stringMatching(/^client_credential_added secret /),
    "client_changed name",
    "client_deleted ",
  ]);
  expect(await codeOf(getClient(deps, client.id))).toBe("not_found");
});

test("why somebody made, changed or deleted a client is recorded, after what was done", async () => {
  const why = "Ticket 4711";
  const wanted = { name: "Shop", ownerId, permissions: ["payments:read", "payments:write"] };
  const client = await createClient(deps, wanted, context(), why);
  const secret: NewCredential = { clientId: client.id, kind: "secret", name: "", publicJwkJson: "" };
  const { credential } = await addCredential(deps, secret, context(), why);
  await revokeCredential(deps, { clientId: client.id, credentialId: credential.id }, context(), why);
  await changeClient(deps, { clientId: client.id, status: "disabled" }, context(), why);
  await deleteClient(deps, client.id, context(), why);
  expect(await recorded()).toEqual([
    `client_created owner ${ownerId}, +payments:read, +payments:write: ${why}`,
    `client_credential_added secret ${credential.id}: ${why}`,
    `client_credential_revoked secret ${credential.id}: ${why}`,
    `client_changed status disabled: ${why}`,
    `client_deleted ${why}`,
  ]);
});

test("a reason is recorded whole, however much has changed", async () => {
  const permissions = deps.access.permissionsOf("ADMIN");
  const why = "w".repeat(40).concat(" ").repeat(2);
  const client = await create(permissions.slice(0, 1));
  await changeClient(deps, { clientId: client.id, permissions: [...permissions] }, context(), why);
  const [, changed = ""] = await recorded();
  expect(changed.length).toBe("client_changed ".length + 200);
  expect(changed.endsWith(`: ${why}`)).toBe(true);
});

test("pages come newest first, each client once", async () => {
  const ids: string[] = [];
  for (let index = 0; index < 5; index += 1) ids.push((await create()).id);
  const first = await listClients(deps, { owner: "", cursor: "", limit: 3 });
  const second = await listClients(deps, { owner: "", cursor: first.nextCursor ?? "", limit: 3 });
  expect([...first.clients, ...second.clients].map(({ id }) => id)).toEqual(ids.toReversed());
  expect(second.nextCursor).toBeUndefined();
});

test.each([
  [{ name: "" }],
  [{ name: "a\u0000" }],
  [{ name: "x".repeat(101) }],
  [{ ownerId: randomUUID() }],
  [{ permissions: [] }],
  [{ permissions: ["payments:read", "payments:read"] }],
  [{ permissions: ["no:such"] }],
])("a client with %j is refused", async (change) => {
  const wanted = { name: "Shop", ownerId, permissions: ["payments:read"], ...change };
  expect(await codeOf(createClient(deps, wanted, context()))).toBe("validation_failed");
});

test("nobody gives a client what they do not hold: not at creation, not later, not by a credential or by enabling it", async () => {
  const support = as(admin("SUPPORT"));
  const wanted = { name: "Shop", ownerId, permissions: ["users:delete"] };
  expect(await codeOf(createClient(deps, wanted, support))).toBe("forbidden");
  expect(await codeOf(createClient(deps, { ...wanted, permissions: ["users:read"] }, support))).toBe("done");
  const strong = await create(["users:delete", "users:read"]);
  const credential = { clientId: strong.id, kind: "secret" as const, name: "", publicJwkJson: "" };
  expect(await codeOf(addCredential(deps, credential, support))).toBe("forbidden");
  await changeClient(deps, { clientId: strong.id, status: "disabled" }, support);
  expect(await codeOf(changeClient(deps, { clientId: strong.id, status: "active" }, support))).toBe(
    "forbidden",
  );
  const weak = await create(["users:read"]);
  const more = { clientId: weak.id, permissions: ["users:read", "users:delete"] };
  expect(await codeOf(changeClient(deps, more, support))).toBe("forbidden");
  const client: Actor = { ...admin(""), scopes: ["clients:write", "users:read"] };
  expect(await codeOf(createClient(deps, wanted, as(client)))).toBe("forbidden");
  expect(await codeOf(createClient(deps, wanted, newCallContext({ budgetMs: 60_000 })))).toBe("forbidden");
  expect(
    await codeOf(
      createClient(deps, wanted, { ...newCallContext({ budgetMs: 60_000 }), person: "operator:ada" }),
    ),
  ).toBe("done");
});

test("of clients that are asked about, those are named that are active and hold the permission", async () => {
  const held = await create(["signals:receive", "payments:read"]);
  const [disabled, deleted] = [await create(["signals:receive"]), await create(["signals:receive"])];
  await changeClient(deps, { clientId: disabled.id, status: "disabled" }, context());
  await deleteClient(deps, deleted.id, context());
  const ids = [held, disabled, deleted, await create()].map(({ id }) => id);
  expect(await filterClients(deps, [...ids, randomUUID()], "signals:receive")).toEqual([held.id]);
  expect(await codeOf(filterClients(deps, ["x"], "signals:receive"))).toBe("validation_failed");
});

test("the methods ask for clients:read and clients:write again", async () => {
  const rpc = createClientAdminRpc(deps, async () => undefined);
  const asked = (role: string, scopes?: string[]) => {
    const actor = { ...admin(role), ...(scopes && { scopes }) };
    return codeOf(
      rpc.listClients({ ownedBy: "", cursor: "", limit: 10 }, { ...as(actor), caller: "gateway" } as never),
    );
  };
  expect(await asked("ADMIN")).toBe("done");
  expect(await asked("SUPPORT")).toBe("forbidden");
  expect(await asked("", ["clients:read"])).toBe("done");
  expect(await asked("", ["clients:write"])).toBe("forbidden");
});

test("two credentials of each kind live at a time, also when eight are added at once", async () => {
  const client = await create();
  const results = await Promise.all(Array.from({ length: 8 }, () => codeOf(add(client.id, "secret"))));
  expect(results.filter((code) => code === "done")).toHaveLength(2);
  expect(new Set(results)).toEqual(new Set(["done", "conflict"]));
  expect(await codeOf(add(client.id, "api_key"))).toBe("done");
});

test("a secret proves its client until it is revoked; nothing of it can be read in the database", async () => {
  const client = await create();
  const [first, second] = [await add(client.id, "secret"), await add(client.id, "secret")];
  expect(first.secret).toMatch(/^[A-Za-z0-9_-]{43}$/);
  for (const { secret, credential } of [first, second])
    expect(await authenticate(bySecret(client.id, secret))).toMatchObject({
      id: credential.id,
      clientId: client.id,
    });
  const rows = JSON.stringify(
    await database.ownerSql`select client_credentials::text as row from client_credentials`,
  );
  expect(rows).not.toContain(first.secret);
  await revokeCredential(deps, { clientId: client.id, credentialId: first.credential.id }, context());
  expect(deps.tokenService.revokeClientTokens).toHaveBeenCalledExactlyOnceWith(
    [first.credential.id],
    expect.anything(),
  );
  expect(await codeOf(authenticate(bySecret(client.id, first.secret)))).toBe("invalid_client");
  expect(await codeOf(authenticate(bySecret(client.id, second.secret)))).toBe("done");
  const { credentials } = await getClient(deps, client.id);
  expect(credentials).toMatchObject([{ id: second.credential.id, lastUsedAt: expect.any(Date) }]);
});

test("another client's secret, an unknown client and a text that is no id are the same refusal", async () => {
  const [client, other] = [await create(), await create()];
  const { secret } = await add(other.id, "secret");
  for (const clientId of [client.id, randomUUID(), "' or true --", ""])
    expect(await codeOf(authenticate(bySecret(clientId, secret)))).toBe("invalid_client");
});

test.each([
  ["EdDSA", {}],
  ["ES256", {}],
  ["RS256", { modulusLength: 2048 }],
  ["PS256", { modulusLength: 2048 }],
])(
  "an assertion by %s proves its client once, however many replicas see it at once",
  async (alg, options) => {
    const { client, credential, assertion } = await withKey(alg, options);
    const proof = await assertion();
    const results = await Promise.all(Array.from({ length: 5 }, () => codeOf(authenticate(proof))));
    expect(results.toSorted()).toEqual(["done", ...Array(4).fill("invalid_client")]);
    expect(await authenticate(await assertion())).toMatchObject({ id: credential.id, clientId: client.id });
    expect(await codeOf(authenticate(await assertion({}, { kid: undefined })))).toBe("done");
  },
);

const soonS = (s: number) => Math.floor(Date.now() / 1_000) + s;
test.each([
  ["of another audience", () => ({ aud: "https://other.example" })],
  ["for another beside us", () => ({ aud: ["https://gatehouse.example", "https://other.example"] })],
  ["for the token endpoint", () => ({ aud: "https://gatehouse.example/oauth/token" })],
  ["without an audience", () => ({ aud: undefined })],
  ["that lives longer than five minutes", () => ({ exp: soonS(345) })],
  ["that has expired", () => ({ exp: soonS(-31) })],
  ["without an end", () => ({ exp: undefined })],
  ["without a jti", () => ({ jti: undefined })],
  ["with an empty jti", () => ({ jti: "" })],
  ["with a jti that is no text", () => ({ jti: 7 })],
  ["with a long jti", () => ({ jti: "x".repeat(256) })],
  ["issued in the future", () => ({ iat: soonS(60) })],
  ["not valid yet", () => ({ nbf: soonS(60) })],
  ["of another subject", () => ({ sub: "0199a000-0000-7000-8000-000000000005" })],
  ["of another issuer", () => ({ iss: "0199a000-0000-7000-8000-000000000005" })],
])("an assertion %s is refused", async (_what, change) => {
  const { assertion } = await withKey();
  expect(await codeOf(authenticate(await assertion(change())))).toBe("invalid_client");
  expect(await codeOf(authenticate(await assertion()))).toBe("done");
});

test.each([
  ["ahead", () => ({ iat: soonS(25), nbf: soonS(25), exp: soonS(325) })],
  ["behind", () => ({ iat: soonS(-80), exp: soonS(-20) })],
])(
  "an assertion of a client whose clock is %s by less than 30 s is accepted, once",
  async (_what, claims) => {
    const { assertion } = await withKey();
    const proof = await assertion(claims());
    expect(await codeOf(authenticate(proof))).toBe("done");
    expect(await codeOf(authenticate(proof))).toBe("invalid_client");
  },
);

test.each([
  ["aud must be https://gatehouse.example alone", () => ({ aud: "https://gatehouse.example/oauth/token" })],
  ["exp must be at most 300 s away", () => ({ exp: soonS(345) })],
  ["iat is in the future", () => ({ iat: soonS(60) })],
  ["jti must be text of 1 to 255 characters", () => ({ jti: "" })],
])("a refusal says which claim of the assertion no key can make valid: %s", async (words, change) => {
  const { assertion } = await withKey();
  await expect(authenticate(await assertion(change()))).rejects.toThrow(words);
});

test("an assertion by another key, with another kid or algorithm, or of a disabled client is refused", async () => {
  const { client, credential, assertion } = await withKey();
  const { privateKey } = await generateKeyPair("EdDSA");
  expect(await codeOf(authenticate(await assertion({}, {}, privateKey)))).toBe("invalid_client");
  expect(await codeOf(authenticate(await assertion({}, { kid: "other" })))).toBe("invalid_client");
  const hmac = new TextEncoder().encode(credential.keyId.repeat(2));
  expect(await codeOf(authenticate(await assertion({}, { alg: "HS256" }, hmac as never)))).toBe(
    "invalid_client",
  );
  await changeClient(deps, { clientId: client.id, status: "disabled" }, context());
  expect(await codeOf(authenticate(await assertion()))).toBe("invalid_client");
});

test.each([
  [{ alg: "PS256" }, "RS256", "invalid_client"],
  [{ alg: "PS256" }, "PS256", "done"],
  [{ alg: "RS256" }, "PS256", "invalid_client"],
  [{}, "RS256", "done"],
  [{}, "PS256", "done"],
])("an RSA key with %j makes an assertion by %s: %s", async (named, alg, outcome) => {
  const client = await create();
  const pair = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const publicJwkJson = JSON.stringify({ ...pair.publicKey.export({ format: "jwk" }), ...named });
  await add(client.id, "public_key", { publicJwkJson });
  const text = await new SignJWT({ aud: deps.tokenIssuer, jti: "1" })
    .setProtectedHeader({ alg })
    .setIssuer(client.id)
    .setSubject(client.id)
    .setExpirationTime("1m")
    .sign(pair.privateKey);
  expect(await codeOf(authenticate({ kind: "assertion", assertion: text }))).toBe(outcome);
});

test("an assertion may have one audience in a list, and five minutes to live", async () => {
  const { assertion } = await withKey();
  expect(await codeOf(authenticate(await assertion({ aud: [deps.tokenIssuer], exp: soonS(300) })))).toBe(
    "done",
  );
});

test("used assertions are kept until an hour after they expire", async () => {
  const { assertion } = await withKey();
  await authenticate(await assertion());
  await deleteOldAssertions(deps);
  expect(await database.ownerSql`select from client_assertions`).toHaveLength(1);
  await database.ownerSql`update client_assertions set expires_at = now() - interval '61 minutes'`;
  await deleteOldAssertions(deps);
  expect(await database.ownerSql`select from client_assertions`).toHaveLength(0);
});

const jwkOf = (type: "ed25519" | "rsa" | "ec" | "ed448", options: object = {}, isPrivate = false) => {
  const generate = generateKeyPairSync as (type: string, options: object) => KeyPairKeyObjectResult;
  const pair = generate(type, options);
  return (isPrivate ? pair.privateKey : pair.publicKey).export({ format: "jwk" });
};
test.each([
  ["private", () => jwkOf("ed25519", {}, true)],
  ["symmetric", () => ({ kty: "oct", k: "c2VjcmV0" })],
  ["of 1024 bits", () => jwkOf("rsa", { modulusLength: 1024 })],
  ["with the exponent 3", () => jwkOf("rsa", { modulusLength: 2048, publicExponent: 3 })],
  ["of another curve", () => jwkOf("ec", { namedCurve: "P-384" })],
  ["of Ed448", () => jwkOf("ed448")],
  [
    "off its curve",
    () => ({
      kty: "EC",
      crv: "P-256",
      x: Buffer.alloc(32, 1).toString("base64url"),
      y: Buffer.alloc(32, 2).toString("base64url"),
    }),
  ],
  ["with another algorithm", () => ({ ...jwkOf("ed25519"), alg: "ES256" })],
  ["for RSA with SHA-512", () => ({ ...jwkOf("rsa", { modulusLength: 2048 }), alg: "RS512" })],
  ["for encryption", () => ({ ...jwkOf("ed25519"), use: "enc" })],
  ["named with a control character", () => ({ ...jwkOf("ed25519"), kid: "a\0" })],
  ["named with half a character", () => ({ ...jwkOf("ed25519"), kid: "\ud800" })],
  ["no object", () => "key"],
])("a key that is %s is refused", async (_what, make) => {
  const client = await create();
  const publicJwkJson = JSON.stringify(make());
  expect(await codeOf(add(client.id, "public_key", { publicJwkJson }))).toBe("validation_failed");
});

test("the same key is added once", async () => {
  const client = await create();
  const publicJwkJson = JSON.stringify(jwkOf("ed25519"));
  expect(await codeOf(add(client.id, "public_key", { publicJwkJson }))).toBe("done");
  expect(await codeOf(add(client.id, "public_key", { publicJwkJson }))).toBe("conflict");
});

test("a token has what was asked for, or all that the client has; never more", async () => {
  const client = await create();
  const { secret, credential } = await add(client.id, "secret");
  const proof = bySecret(client.id, secret);
  const issued = () => deps.tokenService.issueClientToken.mock.lastCall?.[0];
  expect(await grant(proof)).toMatchObject({ scope: "payments:read payments:write", clientId: client.id });
  expect(await grant(proof, "payments:read payments:read")).toMatchObject({ scope: "payments:read" });
  expect(issued()).toMatchObject({
    clientId: client.id,
    credentialId: credential.id,
    scopes: ["payments:read"],
  });
  const aged = Date.now() - (issued()?.provenAt.getTime() ?? 0);
  expect(aged).toBeLessThan(10_000);
  for (const scope of ["users:read", "payments:read users:read", " payments:read", "*"])
    expect(await codeOf(grant(proof, scope))).toBe("invalid_scope");
});

test("a credential that is revoked while its proof is read was live before the revocation was committed", async () => {
  const client = await create();
  const { secret, credential } = await add(client.id, "secret");
  const { provenAt } = await authenticate(bySecret(client.id, secret));
  await revokeCredential(deps, { clientId: client.id, credentialId: credential.id }, context());
  const [row] = await database.ownerSql<
    { after: boolean }[]
  >`select clock_timestamp() > ${provenAt}::timestamptz as after`;
  expect(row?.after).toBe(true);
  expect(await codeOf(authenticate(bySecret(client.id, secret)))).toBe("invalid_client");
});

test("an API key proves its client until it is revoked; a made-up one costs no look-up", async () => {
  const client = await create();
  const { secret: apiKey, credential } = await add(client.id, "api_key");
  expect(apiKey).toMatch(/^gh_[0-9a-f]{32}_[A-Za-z0-9_-]{43}$/);
  expect(credential.keyId).toBe(apiKey.slice(3, 35));
  expect(await verifyApiKey(deps, apiKey)).toMatchObject({ id: credential.id, clientId: client.id });
  expect(
    await verifyApiKey(deps, `${apiKey.slice(0, -1)}${apiKey.endsWith("A") ? "B" : "A"}`),
  ).toBeUndefined();
  await deps.apiKeyIds.isOurs("00".repeat(16));
  const unreachable = vi.fn(() => {
    throw new Error("a look-up");
  });
  const madeUp = `gh_${"0a".repeat(16)}_${"k".repeat(43)}`;
  expect(await verifyApiKey({ ...deps, sql: unreachable as never }, madeUp)).toBeUndefined();
  await expect(verifyApiKey({ ...deps, sql: unreachable as never }, apiKey)).rejects.toThrow("a look-up");
  expect(await createApiKeyIds(database.sql).isOurs(credential.keyId)).toBe(true);
  await changeClient(deps, { clientId: client.id, status: "disabled" }, context());
  expect(await verifyApiKey(deps, apiKey)).toBeUndefined();
});

test("a disabled client's tokens end at once; active again, its credentials give tokens under other ids", async () => {
  const client = await create();
  const { secret, credential } = await add(client.id, "secret");
  await changeClient(deps, { clientId: client.id, status: "disabled" }, context());
  expect(deps.tokenService.revokeClientTokens).toHaveBeenCalledExactlyOnceWith(
    [credential.id],
    expect.anything(),
  );
  expect(await codeOf(authenticate(bySecret(client.id, secret)))).toBe("invalid_client");
  await changeClient(deps, { clientId: client.id, status: "active" }, context());
  expect((await authenticate(bySecret(client.id, secret))).id).not.toBe(credential.id);
});

test("fewer permissions end the tokens that have more; others do not", async () => {
  const client = await create();
  const { secret, credential } = await add(client.id, "secret");
  const change = (permissions: string[]) =>
    changeClient(deps, { clientId: client.id, permissions }, context());
  await change(["payments:read", "payments:write", "users:read"]);
  expect(deps.tokenService.revokeClientTokens).not.toHaveBeenCalled();
  await change(["payments:read"]);
  expect(deps.tokenService.revokeClientTokens).toHaveBeenCalledExactlyOnceWith(
    [credential.id],
    expect.anything(),
  );
  expect(await authenticate(bySecret(client.id, secret))).toMatchObject({ permissions: ["payments:read"] });
  expect(await recorded()).toContain("client_changed -payments:write, -users:read");
});

test("while token-service is away a revocation waits, and a worker sends it once the call cannot be running", async () => {
  const client = await create();
  const { credential } = await add(client.id, "secret");
  deps.tokenService.revokeClientTokens.mockRejectedValueOnce(new DomainError("service_unavailable"));
  expect(await codeOf(deleteClient(deps, client.id, context()))).toBe("service_unavailable");
  const waiting = () => database.ownerSql`select * from client_ends`;
  expect(await waiting()).toMatchObject([{ credential_ids: [credential.id] }]);
  await createClientEndWorker(deps, createMetrics("test")).poll();
  expect(await waiting()).toHaveLength(1);
  const later = { ...deps, now: () => new Date(Date.now() + 2_500) };
  await createClientEndWorker(later, createMetrics("test")).poll();
  expect(await waiting()).toEqual([]);
  expect(deps.tokenService.revokeClientTokens).toHaveBeenLastCalledWith([credential.id], expect.anything());
});

test("clients live on when their owner is disabled or deleted, and are counted and found", async () => {
  const client = await create();
  const { secret } = await add(client.id, "secret");
  const metrics = createMetrics("test");
  const count = createOwnerlessCount(deps, metrics);
  const counted = async () => {
    await count();
    return /gatehouse_clients_without_owner\S* (\d+)/.exec(await metrics.render())?.[1];
  };
  expect(await counted()).toBe("0");
  await setUserAccess(deps, { userId: ownerId, status: "disabled" }, context());
  expect(await counted()).toBe("1");
  await deleteUser(deps, ownerId, context());
  expect(await counted()).toBe("1");
  expect((await listClients(deps, { owner: "none", cursor: "", limit: 10 })).clients).toMatchObject([
    { id: client.id, ownerId: null },
  ]);
  expect(await codeOf(authenticate(bySecret(client.id, secret)))).toBe("done");
});

test("a network's failures are bounded before any look-up; a client that has proven itself there goes on", async () => {
  const now = { ms: Date.now() };
  deps = { ...deps, clientLimits: createClientLimits(() => now.ms) };
  const client = await create();
  const { secret } = await add(client.id, "secret");
  const right = bySecret(client.id, secret);
  await authenticate(right);
  const wrong = () => codeOf(authenticate(bySecret(randomUUID(), "wrong")));
  const codes: string[] = [];
  for (let index = 0; index < 301; index += 1) codes.push(await wrong());
  expect(codes.slice(0, 300).every((code) => code === "invalid_client")).toBe(true);
  expect(codes.at(-1)).toBe("too_many_requests");
  const noLookup = { ...deps, sql: (() => expect.unreachable()) as never };
  const refused = authenticateClient(noLookup, bySecret(randomUUID(), "wrong"), "192.0.2.1");
  expect(await codeOf(refused)).toBe("too_many_requests");
  expect(await codeOf(authenticate(right))).toBe("done");
  expect(await codeOf(authenticate(right, "198.51.100.7"))).toBe("done");
  now.ms += 300_000;
  expect(await wrong()).toBe("invalid_client");
});

test("a neighbour that names a client uses up nothing of its secret, whose own failures are bounded too", async () => {
  deps = { ...deps, clientLimits: createClientLimits(() => 0) };
  const client = await create();
  const { secret, credential } = await add(client.id, "secret");
  const right = bySecret(client.id, secret);
  await authenticate(right);
  const codesOf = async (proof: ClientProof) => {
    const codes: string[] = [];
    for (let index = 0; index < 61; index += 1) codes.push(await codeOf(authenticate(proof)));
    return codes;
  };
  const bounded = [...Array<string>(60).fill("invalid_client"), "too_many_requests"];
  expect(await codesOf(bySecret(client.id, "wrong"))).toEqual(bounded);
  expect(await codeOf(authenticate(right))).toBe("done");
  await revokeCredential(deps, { clientId: client.id, credentialId: credential.id }, context());
  expect(await codesOf(right)).toEqual(bounded);
});

test("a client proves itself 1,200 times a minute, whoever else does", async () => {
  const limits = createClientLimits(() => 0);
  const prove = (id: string) => limits.begin({ clientId: id, clientIp: "192.0.2.1" }).succeeded(id);
  for (let index = 0; index < 1_200; index += 1) prove("a");
  expect(() => prove("a")).toThrow(expect.objectContaining({ code: "too_many_requests" }));
  expect(() => prove("b")).not.toThrow();
});

test.each(["a secret", "an assertion"])(
  "an outage is no wrong proof: %s is good after any number",
  async (what) => {
    deps = { ...deps, clientLimits: createClientLimits(() => 0) };
    const { client, assertion } = await withKey();
    const { secret } = await add(client.id, "secret");
    const proof = async () => (what === "a secret" ? bySecret(client.id, secret) : assertion());
    await authenticate(await proof());
    const lost = () => {
      throw new Error("connection lost");
    };
    const away = { ...deps, sql: lost as never };
    for (let index = 0; index < 400; index += 1)
      await expect(authenticateClient(away, await proof(), "192.0.2.1")).rejects.toThrow("connection lost");
    expect(await codeOf(authenticate(await proof()))).toBe("done");
  },
);

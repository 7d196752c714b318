import { randomUUID } from "node:crypto";
import { exportJWK, generateKeyPair } from "jose";
import * as oauth from "openid-client";
import { beforeAll, expect, test } from "vitest";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;
let admin: string;
let ownerId: string;
beforeAll(async () => {
  system = oneSystem();
  api = apiClient(system.url);
  const { body } = await api.post("/auth/login", ADMIN);
  admin = body.data.accessToken;
  ownerId = body.data.user.id;
});

async function newClient(permissions = ["payments:read"]): Promise<string> {
  const body = { name: `Shop ${randomUUID()}`, ownerId, permissions };
  const made = await api.post("/admin/clients", body, { token: admin });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  return made.body.data.client.id;
}
async function addCredential(clientId: string, body: object) {
  const added = await api.post(`/admin/clients/${clientId}/credentials`, body, { token: admin });
  expect(added.status, JSON.stringify(added.body)).toBe(201);
  return added.body.data as { credential: { id: string; keyId: string }; secret: string };
}
const remove = (clientId: string, credentialId: string) =>
  api.call("DELETE", `/admin/clients/${clientId}/credentials/${credentialId}`, { token: admin });
const discover = (clientId: string, authentication: oauth.ClientAuth) =>
  oauth.discovery(new URL(system.url), clientId, undefined, authentication, {
    algorithm: "oauth2",
    execute: [oauth.allowInsecureRequests],
  });
const list = (token: string) => api.get("/payments", { token });
const PAYMENT = { amount: 1250, currency: "EUR", payee: "ACME Ltd", reference: "invoice 7" };

test("openid-client finds us, gets tokens by a key and by a secret, introspects and revokes them", async () => {
  const clientId = await newClient();
  const { publicKey, privateKey } = await generateKeyPair("EdDSA", { extractable: true });
  const { credential } = await addCredential(clientId, {
    kind: "public_key",
    publicKey: await exportJWK(publicKey),
  });
  const { secret } = await addCredential(clientId, { kind: "secret" });
  const byKey = await discover(clientId, oauth.PrivateKeyJwt({ key: privateKey, kid: credential.keyId }));
  const bySecret = await discover(clientId, oauth.ClientSecretBasic(secret));
  for (const config of [byKey, bySecret]) {
    const tokens = await oauth.clientCredentialsGrant(config, { scope: "payments:read" });
    expect(tokens).toMatchObject({
      token_type: "bearer",
      expires_in: expect.any(Number),
      scope: "payments:read",
    });
    expect((await list(tokens.access_token)).status).toBe(200);
    await oauth.tokenRevocation(config, tokens.access_token);
    await expect.poll(async () => (await list(tokens.access_token)).status).toBe(401);
  }
  const { access_token: token } = await oauth.clientCredentialsGrant(bySecret);
  expect(await oauth.tokenIntrospection(bySecret, token)).toMatchObject({
    active: true,
    client_id: clientId,
  });
  const other = await discover(clientId, oauth.ClientSecretBasic("wrong"));
  await expect(oauth.clientCredentialsGrant(other)).rejects.toMatchObject({ status: 401 });
  const tooMuch = oauth.clientCredentialsGrant(bySecret, { scope: "payments:write" });
  await expect(tooMuch).rejects.toMatchObject({ error: "invalid_scope", status: 400 });
});

test("openid-client gets a token that is bound to its key, and calls with proofs; the token alone opens nothing", async () => {
  const clientId = await newClient();
  const { secret } = await addCredential(clientId, { kind: "secret" });
  const config = await discover(clientId, oauth.ClientSecretBasic(secret));
  expect(config.serverMetadata().dpop_signing_alg_values_supported).toContain("ES256");
  const keys = await oauth.randomDPoPKeyPair("ES256");
  // It asks again by itself with the nonce that the gateway answers.
  const DPoP = oauth.getDPoPHandle(config, keys);
  const tokens = await oauth.clientCredentialsGrant(config, { scope: "payments:read" }, { DPoP });
  expect(tokens.token_type).toBe("dpop");
  const token = tokens.access_token;
  const url = new URL("/payments", system.url);
  const called = () => oauth.fetchProtectedResource(config, token, url, "GET", null, undefined, { DPoP });
  for (let times = 0; times < 3; times += 1) expect((await called()).status).toBe(200);
  expect(await list(token)).toMatchObject({ status: 401, body: { error: { code: "token_proof_missing" } } });
  const thief = oauth.getDPoPHandle(config, await oauth.randomDPoPKeyPair("ES256"));
  const stolen = oauth.fetchProtectedResource(config, token, url, "GET", null, undefined, { DPoP: thief });
  await expect(stolen).rejects.toMatchObject({ status: 401 });
  expect(await oauth.tokenIntrospection(config, token)).toMatchObject({
    active: true,
    token_type: "DPoP",
    cnf: { jkt: await DPoP.calculateThumbprint() },
  });
  await oauth.tokenRevocation(config, token);
  await expect
    .poll(() =>
      called().then(
        ({ status }) => status,
        (error) => error.status,
      ),
    )
    .toBe(401);
});

test("payments:read lists payments and makes none; no path of a user's account is a client's", async () => {
  const clientId = await newClient();
  const { secret: token } = await addCredential(clientId, { kind: "api_key" });
  expect((await list(token)).status).toBe(200);
  expect((await api.post("/payments", PAYMENT, { token })).status).toBe(403);
  for (const path of ["/auth/me", "/auth/sessions", "/admin/users"])
    expect((await api.get(path, { token })).status, path).toBe(403);
});

test("a client pays what needs no approval; what a person has to approve or prove is refused, and never forwarded", async () => {
  const clientId = await newClient(["payments:read", "payments:write"]);
  const { secret: token } = await addCredential(clientId, { kind: "api_key" });
  expect((await api.post("/payments", PAYMENT, { token })).status).toBe(201);
  for (const [path, body] of [
    ["/payments", { ...PAYMENT, amount: 25_000 }],
    ["/payees", { name: `Payee ${clientId}` }],
  ] as const) {
    const refused = await api.post(path, body, { token });
    expect(refused, path).toMatchObject({ status: 403, body: { error: { code: "user_required" } } });
    expect(refused.headers.get("www-authenticate")).toBeNull();
  }
  const { body: paid } = await list(token);
  expect(JSON.stringify(paid)).not.toContain("25000");
});

test("a revoked API key is refused by the next call, a disabled client's too, and works again when it is active", async () => {
  const clientId = await newClient();
  const [first, second] = [
    await addCredential(clientId, { kind: "api_key" }),
    await addCredential(clientId, { kind: "api_key" }),
  ];
  for (const { secret } of [first, second]) expect((await list(secret)).status).toBe(200);
  expect((await remove(clientId, first.credential.id)).status).toBe(200);
  expect((await list(first.secret)).status).toBe(401);
  expect((await list(second.secret)).status).toBe(200);
  const set = (status: string) =>
    api.call("PATCH", `/admin/clients/${clientId}`, { token: admin, body: { status } });
  await set("disabled");
  await expect.poll(async () => (await list(second.secret)).status).toBe(401);
  await set("active");
  await expect.poll(async () => (await list(second.secret)).status).toBe(200);
});

test("a rotation under load loses no call", async () => {
  const clientId = await newClient();
  let key = await addCredential(clientId, { kind: "api_key" });
  const statuses = new Map<number, number>();
  let isDone = false;
  const load = (async () => {
    while (!isDone) {
      const { status } = await list(key.secret);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  })();
  for (let round = 0; round < 3; round += 1) {
    const old = key;
    key = await addCredential(clientId, { kind: "api_key" });
    // The load has used the new one.
    const before = statuses.get(200) ?? 0;
    await expect.poll(() => statuses.get(200) ?? 0).toBeGreaterThan(before + 2);
    expect((await remove(clientId, old.credential.id)).status).toBe(200);
  }
  isDone = true;
  await load;
  expect([...statuses.keys()]).toEqual([200]);
});

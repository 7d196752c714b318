import { expect, test, vi } from "vitest";
import type { Principal, Verification } from "#token-client/principal.ts";
import { clientCredential as credential, machineClient } from "../testing/answering-gateway.ts";
import { principalWith, send, testGateway, USER_ID } from "../testing/test-gateway.ts";

const PATH = `/admin/clients/${machineClient.id}`;
const client = (scopes: string[]): Principal => ({
  ...principalWith(""),
  kind: "client",
  userId: machineClient.id,
  clientId: machineClient.id,
  scopes,
});
const verdicts: Record<string, Verification> = {
  admin: { kind: "active", principal: principalWith("ADMIN") },
  auditor: { kind: "active", principal: principalWith("AUDITOR") },
  reader: { kind: "active", principal: client(["clients:read"]) },
  writer: { kind: "active", principal: client(["clients:write"]) },
};

function start() {
  const refused: string[] = [];
  const addClientCredential = vi.fn(async () => ({ credential, secret: "gh_key" }));
  const gateway = testGateway({
    clientAdmin: {
      listClients: async () => ({ clients: [machineClient], nextCursor: "" }),
      getClient: async () => ({ client: { ...machineClient, credentials: [credential] } }),
      addClientCredential,
      revokeClientCredential: async () => ({}),
    },
    verifier: {
      verify: (token) => verdicts[token] ?? { kind: "inactive", reason: "invalid" },
      refuseSession: (id) => void refused.push(id),
      nowMs: () => Date.now(),
      assertReady() {},
      close() {},
    },
  });
  return { ...gateway, refused, addClientCredential };
}

test.each([
  ["admin", 200, 201],
  ["auditor", 403, 403],
  ["reader", 200, 403],
  ["writer", 403, 201],
])("%s: reading is %d, adding a credential %d", async (token, reading, writing) => {
  const { app } = start();
  expect((await send(app, { url: "/admin/clients", token })).statusCode).toBe(reading);
  const body = { kind: "api_key" };
  const added = await send(app, { method: "POST", url: `${PATH}/credentials`, token, body });
  expect(added.statusCode).toBe(writing);
});

test("reading is noted, who a client is stands in the log, and no secret does", async () => {
  const { app, entries, readings } = start();
  const shown = await send(app, { url: PATH, token: "reader" });
  expect(shown.json().data.client).toMatchObject({
    ownerId: USER_ID,
    credentials: [{ kind: "api_key", keyId: "gh_00" }],
  });
  expect(readings).toMatchObject([
    { action: "client.read", actor: { userId: machineClient.id, role: "CLIENT" } },
  ]);
  const added = await send(app, {
    method: "POST",
    url: `${PATH}/credentials`,
    token: "writer",
    body: { kind: "secret" },
  });
  expect(added.json().data.secret).toBe("gh_key");
  expect(JSON.stringify(entries)).not.toContain("gh_key");
  expect(entries).toMatchObject([{ actor: { userId: machineClient.id, role: "CLIENT" } }, {}]);
});

test.each([
  [{ kind: "public_key" }],
  [{ kind: "secret", publicKey: { kty: "OKP" } }],
  [{ kind: "password" }],
  [{ kind: "secret", secret: "mine" }],
])("the credential %j is refused", async (body) => {
  const { app, addClientCredential } = start();
  const response = await send(app, { method: "POST", url: `${PATH}/credentials`, token: "admin", body });
  expect(response.statusCode).toBe(400);
  expect(addClientCredential).not.toHaveBeenCalled();
});

test("a public key is passed on as it came", async () => {
  const { app, addClientCredential } = start();
  const publicKey = {
    kty: "OKP",
    crv: "Ed25519",
    x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    d: "secret",
  };
  await send(app, {
    method: "POST",
    url: `${PATH}/credentials`,
    token: "admin",
    body: { kind: "public_key", publicKey },
  });
  const [[request] = []] = addClientCredential.mock.calls as unknown as [[{ publicJwkJson: string }]];
  expect(JSON.parse(request?.publicJwkJson ?? "")).toEqual(publicKey);
});

test("a revoked credential is refused here before the stream says so", async () => {
  const { app, refused } = start();
  const url = `${PATH}/credentials/${credential.id}`;
  expect((await send(app, { method: "DELETE", url, token: "admin" })).statusCode).toBe(200);
  expect(refused).toEqual([credential.id]);
});

test("whoever acts on a client may say why, and need not", async () => {
  const act = () => vi.fn(async () => ({ client: machineClient, credential, secret: "" }));
  const clientAdmin = {
    createClient: act(),
    changeClient: act(),
    deleteClient: act(),
    addClientCredential: act(),
    revokeClientCredential: act(),
  };
  const { app } = testGateway({ clientAdmin });
  const wanted = { name: "Shop", ownerId: USER_ID, permissions: ["payments:read"] };
  const acts = [
    { method: "POST", url: "/admin/clients", body: wanted },
    { method: "PATCH", url: PATH, body: { status: "disabled" } },
    { method: "DELETE", url: PATH, body: {} },
    { method: "POST", url: `${PATH}/credentials`, body: { kind: "secret" } },
    { method: "DELETE", url: `${PATH}/credentials/${credential.id}`, body: {} },
  ] as const;
  const token = "admin-token";
  for (const why of [{ reason: "Ticket 4711" }, {}]) {
    for (const call of acts) {
      const answer = await send(app, { ...call, token, body: { ...call.body, ...why } });
      expect(answer.statusCode).toBeLessThan(300);
    }
    const sent = expect.objectContaining({ reason: why.reason ?? "" });
    for (const call of Object.values(clientAdmin))
      expect(call).toHaveBeenLastCalledWith(sent, expect.anything());
  }
  const tooLong = { method: "DELETE", url: PATH, token, body: { reason: "r".repeat(121) } } as const;
  expect((await send(app, tooLong)).statusCode).toBe(400);
  // A reason alone changes nothing.
  const alone = { method: "PATCH", url: PATH, token, body: { reason: "Ticket 4711" } } as const;
  expect((await send(app, alone)).statusCode).toBe(400);
});

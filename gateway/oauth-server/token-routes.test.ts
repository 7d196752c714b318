import { expect, test, vi } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import type { Principal } from "#token-client/principal.ts";
import type { GatewayDeps } from "../app.ts";
import { principalWith, SESSION_ID, send, testGateway } from "../testing/test-gateway.ts";

const CLIENT_ID = "0199a000-0000-7000-8000-00000000000c";
const ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const known = { clientId: CLIENT_ID, credentialId: SESSION_ID };
const clientPrincipal: Principal = {
  ...principalWith(""),
  kind: "client",
  userId: CLIENT_ID,
  clientId: CLIENT_ID,
  scopes: ["payments:read"],
  tokenId: "0199a000-0000-7000-8000-0000000000ff",
};

function start(overrides: Parameters<typeof testGateway>[0] = {}) {
  const grantClientToken = vi.fn(async () => ({
    ...known,
    accessToken: "a.b.c",
    expiresInS: 900,
    scope: "payments:read",
  }));
  const authenticateClient = vi.fn(async () => known);
  const revokeClientTokens = vi.fn(async () => ({ sequence: 1 }));
  const clients = { grantClientToken, authenticateClient } as Partial<GatewayDeps["clients"]>;
  const gateway = testGateway({ clients, sessions: { revokeClientTokens }, ...overrides });
  const post = (url: string, body: string, headers: Record<string, string> = {}) =>
    send(gateway.app, {
      method: "POST",
      url,
      body,
      headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    });
  return { ...gateway, post, grantClientToken, authenticateClient, revokeClientTokens };
}

const basic = (id = CLIENT_ID, secret = "secret") => ({
  authorization: `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString("base64")}`,
});
const byAssertion = new URLSearchParams({
  grant_type: "client_credentials",
  client_assertion_type: ASSERTION_TYPE,
  client_assertion: "e30.e30.AA",
}).toString();

test("a token in the words of RFC 6749, asked for by a secret whose escapes are decoded", async () => {
  const { post, grantClientToken, entries } = start();
  const response = await post(
    "/oauth/token",
    "grant_type=client_credentials&scope=payments%3Aread",
    basic(CLIENT_ID, "a:b %+ü"),
  );
  expect(response.statusCode).toBe(200);
  expect(response.headers).toMatchObject({ "cache-control": "no-store", pragma: "no-cache" });
  expect(response.json()).toEqual({
    access_token: "a.b.c",
    token_type: "Bearer",
    expires_in: 900,
    scope: "payments:read",
  });
  expect(grantClientToken).toHaveBeenCalledExactlyOnceWith(
    {
      authentication: {
        proof: { $case: "secret", value: { clientId: CLIENT_ID, secret: "a:b %+ü" } },
        clientIp: "127.0.0.1",
      },
      scope: "payments:read",
      confirmation: undefined,
    },
    expect.anything(),
  );
  expect(entries).toMatchObject([
    { kind: "intent", action: "client.token", actor: {} },
    {
      kind: "outcome",
      outcome: "success",
      actor: { userId: CLIENT_ID, role: "CLIENT", sessionId: SESSION_ID },
    },
  ]);
  expect(JSON.stringify(entries)).not.toContain("a:b");
});

test("an assertion is passed on, and a client_id beside it names the same client", async () => {
  const { post, grantClientToken } = start();
  expect((await post("/oauth/token", byAssertion)).statusCode).toBe(200);
  expect(grantClientToken).toHaveBeenCalledWith(
    expect.objectContaining({
      authentication: { proof: { $case: "assertion", value: "e30.e30.AA" }, clientIp: "127.0.0.1" },
    }),
    expect.anything(),
  );
  expect((await post("/oauth/token", `${byAssertion}&client_id=${CLIENT_ID}`)).statusCode).toBe(200);
  const other = await post("/oauth/token", `${byAssertion}&client_id=${SESSION_ID}`);
  expect([other.statusCode, other.json().error]).toEqual([401, "invalid_client"]);
  expect(other.payload).not.toContain("a.b.c");
});

test.each([
  ["nothing", "", {}, 400, "invalid_request"],
  ["no grant type", "scope=a", basic(), 400, "invalid_request"],
  ["an empty grant type", "grant_type=", basic(), 400, "invalid_request"],
  ["another grant type", "grant_type=password", basic(), 400, "unsupported_grant_type"],
  ["a parameter twice", "grant_type=client_credentials&scope=a&scope=a", basic(), 400, "invalid_request"],
  ["no proof", "grant_type=client_credentials", {}, 401, "invalid_client"],
  [
    "a user's token",
    "grant_type=client_credentials",
    { authorization: "Bearer user-token" },
    401,
    "invalid_client",
  ],
  [
    "a secret in the body",
    "grant_type=client_credentials&client_id=x&client_secret=y",
    {},
    401,
    "invalid_client",
  ],
  ["two proofs", byAssertion, basic(), 400, "invalid_request"],
  [
    "an assertion of another type",
    byAssertion.replace("jwt-bearer", "saml2-bearer"),
    {},
    400,
    "invalid_request",
  ],
  [
    "a broken escape",
    "grant_type=client_credentials",
    { authorization: `Basic ${btoa("%zz:a")}` },
    401,
    "invalid_client",
  ],
])("%s: the RFC's own refusal, and nobody is asked", async (_what, body, headers, status, error) => {
  const { post, grantClientToken } = start();
  const response = await post("/oauth/token", body, headers);
  expect([response.statusCode, response.json().error]).toEqual([status, error]);
  expect(Object.keys(response.json()).sort()).toEqual(["error", "error_description"]);
  expect(response.json().error_description).toMatch(/^[\x20\x21\x23-\x5b\x5d-\x7e]*$/);
  expect(response.headers["cache-control"]).toBe("no-store");
  if (status === 401)
    expect(response.headers["www-authenticate"]).toBe('Basic realm="gatehouse", charset="UTF-8"');
  expect(grantClientToken).not.toHaveBeenCalled();
});

test.each([
  ["invalid_client", 401, "invalid_client"],
  ["invalid_scope", 400, "invalid_scope"],
  ["too_many_requests", 429, "temporarily_unavailable"],
  ["service_unavailable", 503, "temporarily_unavailable"],
] as const)("%s is answered with %d %s", async (code, status, error) => {
  const { post, grantClientToken } = start();
  grantClientToken.mockRejectedValue(new DomainError(code));
  const response = await post("/oauth/token", "grant_type=client_credentials", basic());
  expect([response.statusCode, response.json().error]).toEqual([status, error]);
});

test("JSON is not what the token endpoint reads", async () => {
  const { post } = start();
  const response = await post("/oauth/token", "{}", { ...basic(), "content-type": "application/json" });
  expect([response.statusCode, response.json().error]).toEqual([415, "invalid_request"]);
});

const verifying = (principal: Principal | undefined) => {
  const refused: string[] = [];
  return {
    refused,
    verifier: {
      verify: () =>
        principal === undefined
          ? ({ kind: "inactive", reason: "invalid" } as const)
          : ({ kind: "active", principal } as const),
      refuseSession: (id: string) => void refused.push(id),
      nowMs: () => Date.now(),
      assertReady() {},
      close() {},
    },
  };
};

test("a client revokes its own token: one token, here at once", async () => {
  const { refused, verifier } = verifying(clientPrincipal);
  const { post, revokeClientTokens } = start({ verifier });
  const response = await post("/oauth/revoke", "token=a.b.c&token_type_hint=access_token", basic());
  expect([response.statusCode, response.json()]).toEqual([200, {}]);
  expect(revokeClientTokens).toHaveBeenCalledExactlyOnceWith(
    { ids: [clientPrincipal.tokenId] },
    expect.anything(),
  );
  expect(refused).toEqual([clientPrincipal.tokenId]);
});

test.each([
  [
    "another client's token",
    { ...clientPrincipal, clientId: SESSION_ID, userId: SESSION_ID },
    400,
    "unauthorized_client",
  ],
  ["a user's token", principalWith("USER"), 400, "unauthorized_client"],
  ["no valid token", undefined, 200, undefined],
] as const)("%s is not revoked: %d", async (_what, principal, status, error) => {
  const { verifier } = verifying(principal as Principal | undefined);
  const { post, revokeClientTokens } = start({ verifier });
  const response = await post("/oauth/revoke", "token=a.b.c", basic());
  expect([response.statusCode, response.json().error]).toEqual([status, error]);
  expect(revokeClientTokens).not.toHaveBeenCalled();
});

test("an API key is a credential, and not revoked as a token; a stranger revokes nothing", async () => {
  const { post, revokeClientTokens, authenticateClient } = start();
  const key = await post("/oauth/revoke", `token=gh_${"0a".repeat(16)}_${"k".repeat(43)}`, basic());
  expect([key.statusCode, key.json().error]).toEqual([400, "unsupported_token_type"]);
  authenticateClient.mockRejectedValue(new DomainError("invalid_client"));
  expect((await post("/oauth/revoke", "token=a.b.c", basic())).statusCode).toBe(401);
  expect(revokeClientTokens).not.toHaveBeenCalled();
});

test("the metadata is that of RFC 8414 and RFC 9728", async () => {
  const { app } = start();
  const server = await send(app, { url: "/.well-known/oauth-authorization-server" });
  expect(server.json()).toMatchObject({
    issuer: "https://gateway.test",
    token_endpoint: "https://gateway.test/oauth/token",
    grant_types_supported: ["client_credentials"],
    token_endpoint_auth_methods_supported: ["private_key_jwt", "client_secret_basic"],
  });
  const resource = await send(app, { url: "/.well-known/oauth-protected-resource" });
  expect(resource.json()).toMatchObject({
    resource: "https://gateway.test",
    authorization_servers: ["https://gateway.test"],
  });
  const { app: early } = start({
    tokenIssuer: () => {
      throw new DomainError("service_unavailable");
    },
  });
  expect((await send(early, { url: "/.well-known/oauth-authorization-server" })).statusCode).toBe(503);
});

import { randomUUID } from "node:crypto";
import { type Client, status } from "@grpc/grpc-js";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { failure } from "#gateway/edge/answers/envelope.ts";
import { challengeOf, HTTP_STATUS } from "#gateway/edge/answers/http-errors.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import { HeaderValueOption_HeaderAppendAction as HeaderAppendAction } from "#proto/envoy/config/core/v3/base.ts";
import {
  AuthorizationClient,
  AuthorizationService,
  type CheckResponse,
} from "#proto/envoy/service/auth/v3/external_auth.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { logIn, startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { createEnvoyAuthRpc, envoyCallers } from "./envoy-auth-rpc.ts";
import { issueSession } from "./sessions/issue-session.ts";
import { revokeSession } from "./sessions/revoke-session.ts";
import { exchangeToken } from "./tokens/exchange-token.ts";
import { issueClientToken } from "./tokens/issue-client-token.ts";
import type { ProvenApiKey } from "./tokens/verify-token.ts";

const apiKeys = new Map<string, ProvenApiKey>();

const clock = { ms: Date.now() };
let database: TestDatabase;
let certificates: TestCertificates;
let replica: TokenReplica;
let server: RpcServer;
let port: number;
let envoy: AuthorizationClient;
const clients: Client[] = [];

beforeAll(async () => {
  certificates = await createTestCertificates();
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql, { clock, apiKeys });
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("token-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("token-service"),
  });
  server.add(AuthorizationService, envoyCallers(["envoy"]), createEnvoyAuthRpc(replica.deps));
  port = await server.listen();
  envoy = clientOf("envoy");
});

afterEach(() => {
  clock.ms = Date.now();
});

afterAll(async () => {
  for (const client of clients) client.close();
  await server.close(0);
  replica.stop();
  await database.drop();
  await certificates.remove();
});

function clientOf(name: "envoy" | "gateway" | "operator"): AuthorizationClient {
  const client = createRpcClient(AuthorizationClient, {
    address: `127.0.0.1:${port}`,
    service: "token-service",
    certificate: certificates.of(name),
  });
  clients.push(client);
  return client;
}

function check(
  headers: Record<string, string>,
  client = envoy,
  contextExtensions: Record<string, string> = {},
): Promise<CheckResponse> {
  const http = { method: "POST", path: "/payments", host: "api.test", headers };
  const attributes = { source: undefined, request: { http }, contextExtensions };
  return callUnary(client, client.check, { attributes }, newCallContext({ budgetMs: 60_000 }));
}

function okOf({ status: result, httpResponse }: CheckResponse) {
  if (result?.code !== status.OK || httpResponse?.$case !== "okResponse")
    throw new Error(JSON.stringify(httpResponse));
  return httpResponse.value;
}

function denialOf({ status: result, httpResponse }: CheckResponse) {
  if (httpResponse?.$case !== "deniedResponse") throw new Error("not refused");
  const { value } = httpResponse;
  const headers = Object.fromEntries(value.headers.map(({ header }) => [header?.key, header?.value]));
  const body = JSON.parse(value.body) as { error: { code: ErrorCode; requestId: string } };
  return { grpc: result?.code, http: value.status?.code, headers, body };
}

/** What Envoy does to a request's headers: sets, then removes (ext_authz.cc, `onComplete`). */
function applied(response: CheckResponse, headers: Record<string, string>): Record<string, string> {
  const { headers: set, headersToRemove } = okOf(response);
  const result = new Map(Object.entries(headers));
  for (const { header, appendAction } of set) {
    expect(appendAction).toBe(HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD);
    result.set(header?.key ?? "", header?.value ?? "");
  }
  for (const name of headersToRemove) result.delete(name);
  return Object.fromEntries(result);
}

const AUTH_CONTEXT = {
  "x-auth-context": "urn:gatehouse:acr:1",
  "x-auth-time": expect.stringMatching(/^\d{10}$/),
};

test("a valid token passes, and the upstream gets its identity", async () => {
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(replica, userId, "AUDITOR");
  const headers = { ":method": "POST", authorization: `Bearer ${accessToken}`, accept: "*/*" };
  expect(applied(await check(headers), headers)).toEqual({
    ...headers,
    "x-user-id": userId,
    "x-user-role": "AUDITOR",
    "x-session-id": sessionId,
    ...AUTH_CONTEXT,
  });
});

test("a client's token and API key pass as a client, and no identity of a user does", async () => {
  const client = {
    clientId: randomUUID(),
    credentialId: randomUUID(),
    scopes: ["a:read"],
    provenAt: new Date(),
  };
  const apiKey = `gh_${"0a".repeat(16)}_${"k".repeat(43)}`;
  apiKeys.set(apiKey, { ...client, publicId: "0a".repeat(16) });
  for (const token of [issueClientToken(replica.deps, client).accessToken, apiKey]) {
    const authorization = { authorization: `Bearer ${token}` };
    const forged = {
      "x-user-id": "victim",
      "x-user-role": "ADMIN",
      "x-client_id": "other",
      "x-scope": "all",
    };
    const headers = { ...authorization, ...forged, "x-auth-time": "9999999999" };
    expect(applied(await check(headers), headers)).toEqual({
      ...authorization,
      "x-client-id": client.clientId,
      "x-scope": "a:read",
      "x-session-id": client.credentialId,
    });
  }
});

test("identity headers of the client are removed in either spelling; the verified ones stay", async () => {
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(replica, userId);
  const honest = {
    authorization: `Bearer ${accessToken}`,
    "x-users": "1",
    "x-request-id": "r",
    "x-auth-token": "of the upstream",
    __proto__x: "",
  };
  const forged = {
    "x-user-id": "victim",
    "x-user-role": "ADMIN,ADMIN",
    "x-session-id": "stolen",
    "x-user-email": "victim@example.com",
    "x-user": "victim",
    "x-session": "stolen",
    "x-session-amr": "otp",
    x_user_id: "victim",
    "x-user_role": "ADMIN",
    "x_session-id": "stolen",
    "x-auth-context": "urn:gatehouse:acr:3",
    x_auth_context: "urn:gatehouse:acr:3",
    "x-auth_time": "9999999999",
    "x-approval-id": "019a0000-0000-7000-8000-000000000001",
    "x-approval-method": "passkey",
    "x-approval-digest": "0".repeat(64),
    x_approval_use: "first",
  };
  const headers = { ...honest, ...forged };
  expect(applied(await check(headers), headers)).toEqual({
    ...honest,
    "x-user-id": userId,
    "x-user-role": "USER",
    "x-session-id": sessionId,
    ...AUTH_CONTEXT,
  });
});

/** Tokens made when the test runs, by what is the matter with them. */
const refusals: [string, ErrorCode, () => Promise<Record<string, string>>][] = [
  ["no Authorization header", "token_missing", async () => ({})],
  ["another scheme", "token_missing", async () => ({ authorization: "Basic YTpi" })],
  ["nothing after the scheme", "token_invalid", async () => ({ authorization: "Bearer " })],
  ["text that is no token", "token_invalid", async () => ({ authorization: "Bearer a.b.c" })],
  [
    "two Authorization headers, which Envoy joins",
    "token_invalid",
    async () => {
      const { accessToken } = await logIn(replica, randomUUID());
      return { authorization: `Bearer ${accessToken},Bearer ${accessToken}` };
    },
  ],
  [
    "a refresh token",
    "token_invalid",
    async () => ({ authorization: `Bearer ${(await logIn(replica, randomUUID())).refreshToken}` }),
  ],
  [
    "an ended session",
    "token_invalid",
    async () => {
      const userId = randomUUID();
      const { accessToken, sessionId } = await logIn(replica, userId);
      okOf(await check({ authorization: `Bearer ${accessToken}` }));
      await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
      await replica.deps.revocations.refresh();
      return { authorization: `Bearer ${accessToken}` };
    },
  ],
  [
    "an expired token",
    "token_expired",
    async () => {
      const { accessToken } = await logIn(replica, randomUUID());
      clock.ms += 906_000;
      return { authorization: `Bearer ${accessToken}` };
    },
  ],
];

test.each(refusals)("%s is refused: %s, as the gateway says it", async (_name, code, make) => {
  const requestId = randomUUID();
  const denial = denialOf(await check({ ...(await make()), "x-request-id": requestId }));
  expect(denial).toEqual({
    grpc: status.UNAUTHENTICATED,
    http: HTTP_STATUS[code],
    headers: {
      "www-authenticate": challengeOf(code, undefined),
      "content-type": "application/json; charset=utf-8",
      "cache-control": "no-store",
      "x-request-id": requestId,
    },
    body: failure(new DomainError(code), requestId, undefined).body,
  });
});

test("a token of a key is refused, whatever its scheme: nobody checks its proof here", async () => {
  const proven = { jkt: "A".repeat(43), x5tS256: "" };
  const user = { userId: randomUUID(), role: "USER", amr: ["pwd"], acr: 1, ip: "", userAgent: "" } as const;
  const login = { ...user, amr: ["pwd"], authTime: new Date(clock.ms), proven };
  const { accessToken } = await issueSession(replica.deps, login);
  for (const [scheme, code] of [
    ["Bearer", "token_invalid"],
    ["DPoP", "token_missing"],
  ])
    expect(denialOf(await check({ authorization: `${scheme} ${accessToken}` })).body.error.code).toBe(code);
});

test("a route with an audience accepts its own tokens only, and only Envoy's configuration names it", async () => {
  const { accessToken: issuers, userId } = await logIn(replica, randomUUID());
  const exchanged = await exchangeToken(replica.deps, { token: issuers, audience: "payments" });
  const checked = (token: string, extensions?: Record<string, string>) => {
    const headers = { authorization: `Bearer ${token}`, audience: "payments" };
    return check(headers, envoy, extensions);
  };
  const payments = { audience: "payments", other: "x" };
  expect(okOf(await checked(exchanged.accessToken, payments)).headers).toContainEqual(
    expect.objectContaining({ header: { key: "x-user-id", value: userId } }),
  );
  okOf(await checked(issuers));
  for (const [token, extensions] of [
    [exchanged.accessToken, {}],
    [exchanged.accessToken, { audience: "ledger" }],
    [issuers, payments],
    [issuers, { audience: "" }],
  ] as const)
    expect(denialOf(await checked(token, extensions)).body.error.code).toBe("token_invalid");
});

test("without a request id that can be repeated safely, the answer has one of its own", async () => {
  for (const sent of [{}, { "x-request-id": 'a"\r\nset-cookie: a=b' }, { "x-request-id": "a".repeat(65) }]) {
    const { headers, body } = denialOf(await check(sent as Record<string, string>));
    expect(body.error.requestId).toMatch(/^[0-9a-f-]{36}$/);
    expect(headers["x-request-id"]).toBe(body.error.requestId);
  }
});

test("a check that says nothing of an HTTP request is refused", async () => {
  const ask = (attributes: Parameters<typeof envoy.check>[0]["attributes"]) =>
    callUnary(envoy, envoy.check, { attributes }, newCallContext({ budgetMs: 60_000 })).then(denialOf);
  expect(await ask(undefined)).toMatchObject({ http: 401 });
  expect(await ask({ source: undefined, request: undefined, contextExtensions: {} })).toMatchObject({
    http: 401,
  });
  expect(await ask({ source: undefined, request: { http: undefined }, contextExtensions: {} })).toMatchObject(
    { http: 401 },
  );
});

test.each([
  ["bearer a.b.c", "token_invalid"], // the scheme's case does not matter: what follows was looked at
  ["BEARER  a.b.c", "token_invalid"],
  ["Bearer", "token_invalid"],
  ["Bearer a b", "token_invalid"],
  ["Bearera.b.c", "token_missing"],
  ["", "token_missing"],
])("the header %j is %s", async (authorization, code) => {
  expect(denialOf(await check({ authorization })).body.error.code).toBe(code);
});

test.each(["gateway", "operator"] as const)("%s is no Envoy and learns nothing", async (name) => {
  const { accessToken } = await logIn(replica, randomUUID());
  await expect(check({ authorization: `Bearer ${accessToken}` }, clientOf(name))).rejects.toMatchObject({
    code: "caller_not_allowed",
  });
});

test("while revocations cannot be read the call fails: neither passed nor refused", async () => {
  const { accessToken } = await logIn(replica, randomUUID());
  const headers = { authorization: `Bearer ${accessToken}` };
  okOf(await check(headers));
  await database.ownerSql`alter table revocation_head rename to gone`;
  try {
    await expect
      .poll(() =>
        check(headers).then(
          () => "answered",
          (error: DomainError) => error.code,
        ),
      )
      .toBe("service_unavailable");
  } finally {
    await database.ownerSql`alter table gone rename to revocation_head`;
  }
  await expect
    .poll(() =>
      check(headers)
        .then(okOf)
        .catch(() => undefined),
    )
    .toBeDefined();
});

import { expect, test, vi } from "vitest";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import type { Backends } from "../backends/backends.ts";
import { completedLogin, HOST, SESSION_ID, send, testGateway, USER_ID } from "../testing/test-gateway.ts";
import type { TokenDelivery } from "./oauth-redirect.ts";

type Identity = Backends["identity"];
type OAuthResult = Awaited<ReturnType<Identity["completeOAuthLogin"]>>["result"];

const STATE = "s".repeat(43);
const BROWSER = "b".repeat(43);
const RETURN_TO = "https://app.example/signed-in?a=b";
const COOKIE = `__Host-gatehouse_oauth=${BROWSER}`;

function gateway(
  result: OAuthResult,
  tokenDelivery: TokenDelivery = "fragment",
  overrides: Partial<Identity> = {},
) {
  const complete = vi.fn<Identity["completeOAuthLogin"]>(async () => ({
    returnTo: RETURN_TO,
    result,
    endedSessionIds: [],
  }));
  const begin = vi.fn<Identity["beginOAuthLogin"]>(async () => ({
    authorizationUrl: "https://id.example/authorize?x=y",
    browserToken: BROWSER,
    expiresInS: 600,
    isSecure: true,
  }));
  const identity = { completeOAuthLogin: complete, beginOAuthLogin: begin, ...overrides };
  return { ...testGateway({ identity, tokenDelivery }), complete, begin };
}
const { result: completed } = completedLogin("1.device");
const mfaChallenge = {
  $case: "mfaChallenge" as const,
  value: { tempToken: "t", methods: ["totp"], userId: USER_ID },
};
const refusedAs = (value: string) => ({ $case: "errorCode" as const, value });
const callback = (app: ReturnType<typeof gateway>["app"], query = `code=c&state=${STATE}`, headers = {}) =>
  send(app, { url: `/auth/google/callback?${query}`, headers: { cookie: COOKIE, ...headers } });

test("a login begins with a redirect, and a cookie that only this origin can set", async () => {
  const { app, begin, entries } = gateway(completed);
  const headers = { cookie: "gatehouse_device=2.a.b.0.1.p" };
  const response = await send(app, { url: "/auth/google?returnTo=https://app.example/", headers });
  expect(response.statusCode).toBe(302);
  expect(response.headers).toMatchObject({
    location: "https://id.example/authorize?x=y",
    "set-cookie": `__Host-gatehouse_oauth=${BROWSER}; Max-Age=600; Path=/; HttpOnly; Secure; SameSite=Lax`,
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
  });
  expect(begin.mock.lastCall?.[0]).toMatchObject({
    clientIp: "127.0.0.1",
    deviceToken: "2.a.b.0.1.p",
    provider: "google",
    returnTo: "https://app.example/",
    browserToken: "",
    isAfresh: false,
  });
  await send(app, { url: "/auth/google?prompt=login" });
  expect(begin.mock.lastCall?.[0]).toMatchObject({ isAfresh: true });
  const other = await send(app, { url: "/auth/google?prompt=none" });
  expect([other.statusCode, begin.mock.calls.length]).toEqual([400, 2]);
  expect(entries).toEqual([]);
});

test.each<[string, OAuthResult, TokenDelivery, string]>([
  [
    "tokens in the fragment",
    completed,
    "fragment",
    `${RETURN_TO}#accessToken=access.jwt.text&refreshToken=refresh.jwt.text&tokenType=Bearer&expiresIn=900`,
  ],
  [
    "tokens in the query, if that was asked for",
    completed,
    "query",
    `${RETURN_TO}&accessToken=access.jwt.text&refreshToken=refresh.jwt.text&tokenType=Bearer&expiresIn=900`,
  ],
  ["a second factor", mfaChallenge, "fragment", `${RETURN_TO}#requireMfa=true&tempToken=t`],
  [
    "a second factor to set up",
    { $case: "mfaEnrollment", value: { tempToken: "t", methods: ["totp"], userId: USER_ID } },
    "fragment",
    `${RETURN_TO}#requireMfaEnrollment=true&tempToken=t`,
  ],
  [
    "a code",
    { $case: "oneTimeCode", value: { code: "one-time", userId: USER_ID } },
    "fragment",
    `${RETURN_TO}&code=one-time`,
  ],
  [
    "a link",
    { $case: "linked", value: { provider: "google", email: "", linkedAt: new Date(0), userId: USER_ID } },
    "fragment",
    `${RETURN_TO}#linked=google`,
  ],
  ["a failure", refusedAs("link_required"), "query", `${RETURN_TO}#error=link_required`],
  ["a failure that this version does not know", refusedAs("new"), "query", `${RETURN_TO}#error=oauth_failed`],
  ["a result that this version does not know", undefined, "query", `${RETURN_TO}#error=oauth_failed`],
])("it ends with a redirect that carries %s", async (_name, result, delivery, location) => {
  const { app } = gateway(result, delivery);
  const response = await callback(app);
  expect(response.statusCode).toBe(302);
  expect(response.headers).toMatchObject({
    location,
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
  });
});

test("the callback is a GET, and in the audit log all the same: before, and with what it came to", async () => {
  const { app, entries, log } = gateway(completed);
  await callback(app);
  expect(entries).toMatchObject([
    { kind: "intent", action: "auth.oauth_login", method: "GET", resource: "google" },
    { kind: "outcome", outcome: "success", actor: { userId: USER_ID, sessionId: SESSION_ID } },
  ]);
  const refused = gateway(refusedAs("oauth_failed"));
  await callback(refused.app);
  expect(refused.entries[1]).toMatchObject({
    kind: "outcome",
    outcome: "failure",
    errorCode: "oauth_failed",
    httpStatus: 302,
  });
  const away = gateway(refusedAs("service_unavailable"));
  await callback(away.app);
  expect(away.entries[1]).toMatchObject({ outcome: "unknown" });
  const written = JSON.stringify(entries) + log();
  for (const secret of [STATE, BROWSER, "access.jwt.text", "refresh.jwt.text"])
    expect(written).not.toContain(secret);
});

test("the browser's language is passed on, for an account that is made", async () => {
  const { app, complete } = gateway(completed);
  await callback(app, undefined, { "accept-language": "xx;q=0.2, pt-br" });
  expect(complete.mock.lastCall?.[0]).toMatchObject({ language: "pt-BR" });
});

test("without an audit log logins are refused", async () => {
  const { complete, ...made } = gateway(completed);
  const { app } = testGateway({
    identity: { completeOAuthLogin: complete },
    nextRecorder: () => ({
      record: () => Promise.reject(new DomainError("audit_unavailable")),
      enqueue: () => undefined,
    }),
  });
  expect((await callback(app)).statusCode).toBe(503);
  expect(complete).not.toHaveBeenCalled();
  await made.app.close();
});

test.each([
  ["no state", "code=c", COOKIE],
  ["a state that is none of ours", "code=c&state=x", COOKIE],
  ["two states", `code=c&state=${STATE}&state=${STATE}`, COOKIE],
  ["no cookie", `code=c&state=${STATE}`, "a=b"],
  ["a cookie that is none of ours", `code=c&state=${STATE}`, "__Host-gatehouse_oauth=x"],
])(
  "with %s no service is called and nothing recorded: 400 oauth_state_invalid",
  async (_name, query, cookie) => {
    const { app, complete, entries } = gateway(completed);
    const response = await callback(app, query, { cookie });
    expect([response.statusCode, response.json().error.code]).toEqual([400, "oauth_state_invalid"]);
    expect(complete).not.toHaveBeenCalled();
    expect(entries).toEqual([]);
  },
);

test("a browser gets a page, with nothing of the provider in it", async () => {
  const { app } = gateway(completed);
  const query = "error=%3Cscript%3E&error_description=%3Cscript%3Ealert(1)%3C/script%3E&state=x";
  const response = await callback(app, query, { accept: "text/html" });
  expect(response.statusCode).toBe(400);
  expect(response.headers["content-type"]).toContain("text/html");
  expect(response.payload).not.toContain("script");
});

test("of the provider's parameters only four go on, and a plain cookie is distinguished from a secure one", async () => {
  const { app, complete } = gateway(completed);
  await callback(app, `code=c&state=${STATE}&iss=i&error=&error_description=evil&session_state=1&code2=x`, {
    cookie: `gatehouse_oauth=${BROWSER}`,
  });
  expect(complete.mock.lastCall?.[0]).toEqual({
    language: "",
    provider: "google",
    code: "c",
    state: STATE,
    iss: "i",
    error: "",
    browserToken: BROWSER,
    isBrowserTokenSecure: false,
    clientIp: "127.0.0.1",
    userAgent: expect.any(String),
    deviceToken: "",
  });
  await callback(app);
  expect(complete.mock.lastCall?.[0]).toMatchObject({ isBrowserTokenSecure: true });
});

test("the provider may take its seconds: the callback has more time than other calls", async () => {
  const { app, complete } = gateway(completed);
  await callback(app);
  const leftMs = (complete.mock.lastCall?.[1].deadlineMs ?? 0) - Date.now();
  expect(leftMs).toBeGreaterThan(6_000);
  expect(leftMs).toBeLessThanOrEqual(8_000);
});

test("an answer as a form (Apple) becomes a GET, which brings the cookie", async () => {
  const { app, complete } = gateway(completed);
  const response = await send(app, {
    method: "POST",
    url: "/auth/apple/callback",
    body: `code=a%26b&state=${STATE}&user=%7B%7D&error_description=x`,
    headers: { "content-type": "application/x-www-form-urlencoded" },
  });
  expect(response.statusCode).toBe(303);
  expect(response.headers.location).toBe(`/auth/apple/callback?code=a%26b&state=${STATE}`);
  expect(complete).not.toHaveBeenCalled();
});

test("other paths are not providers, whatever the method; HEAD logs no user in", async () => {
  const { app, begin, complete } = gateway(completed);
  for (const url of ["/auth/login", "/auth/logout", "/v1/auth/register"]) {
    const response = await send(app, { url });
    expect([response.statusCode, response.json().error.code, response.headers.allow]).toEqual([
      405,
      "method_not_allowed",
      "POST, OPTIONS",
    ]);
  }
  const head = await send(app, {
    method: "HEAD",
    url: `/auth/google/callback?code=c&state=${STATE}`,
    headers: { cookie: COOKIE },
  });
  expect(head.statusCode).toBe(405);
  expect(begin).not.toHaveBeenCalled();
  expect(complete).not.toHaveBeenCalled();
});

test.each<[string, ErrorCode, number]>([
  ["/auth/nobody", "provider_not_found", 404],
  ["/auth/google", "service_unavailable", 503],
])("%s: %s", async (url, code, status) => {
  const { app } = gateway(completed, "fragment", {
    beginOAuthLogin: () => Promise.reject(new DomainError(code)),
  });
  const response = await send(app, { url });
  expect([response.statusCode, response.json().error.code]).toEqual([status, code]);
});

test.each([
  "/auth/google?returnTo=a&returnTo=b",
  "/auth/google?codeChallenge=short",
  "/auth/google?return_to=x",
])("%s is 400 validation_failed", async (url) => {
  const { app, begin } = gateway(completed);
  expect((await send(app, { url })).json().error.code).toBe("validation_failed");
  expect(begin).not.toHaveBeenCalled();
});

test("a code is exchanged for tokens and the user, or for a second factor", async () => {
  const body = { code: "c", codeVerifier: "v" };
  const done = gateway(completed, "fragment", {
    exchangeOAuthCode: async () => ({ result: completed }),
  });
  const response = await send(done.app, { method: "POST", url: "/auth/oauth/exchange", body });
  expect(response.json().data).toMatchObject({ accessToken: "access.jwt.text", user: { id: USER_ID } });
  expect(done.entries).toMatchObject([
    { action: "auth.oauth_exchange", kind: "intent" },
    { kind: "outcome", outcome: "success", actor: { userId: USER_ID } },
  ]);
  const waiting = gateway(completed, "fragment", {
    exchangeOAuthCode: async () => ({ result: mfaChallenge }),
  });
  const second = await send(waiting.app, { method: "POST", url: "/auth/oauth/exchange", body });
  expect(second.json().data).toEqual({ requireMfa: true, tempToken: "t", methods: ["totp"] });
});

test("a user lists, links and unlinks identities; sessions that unlinking ends are refused at once", async () => {
  const unlink = vi.fn<Identity["unlinkIdentity"]>(async () => ({ endedSessionIds: ["s1"] }));
  const linked = { provider: "google", email: "a@example.com", linkedAt: new Date(0), userId: USER_ID };
  const { app, begin, refused, entries } = gateway(completed, "fragment", {
    unlinkIdentity: unlink,
    listLinkedIdentities: async () => ({ identities: [linked] }),
  });
  const token = "user-token";
  const listed = await send(app, { url: "/auth/me/identities", token });
  expect(listed.json().data.identities).toEqual([
    { provider: "google", email: "a@example.com", linkedAt: "1970-01-01T00:00:00.000Z" },
  ]);
  const url = "/auth/me/identities/google";
  const linking = await send(app, { method: "POST", url, token, body: { password: "p" } });
  expect(linking.json().data).toEqual({ url: "https://id.example/authorize?x=y" });
  expect(linking.headers["set-cookie"]).toContain("__Host-gatehouse_oauth=");
  expect(begin.mock.lastCall?.[0]).toMatchObject({
    clientIp: "127.0.0.1",
    provider: "google",
    linkTo: { userId: USER_ID, password: "p" },
  });
  expect((await send(app, { method: "DELETE", url, token })).statusCode).toBe(200);
  expect(unlink.mock.lastCall?.[0]).toMatchObject({
    provider: "google",
    owner: { sessionId: SESSION_ID, password: "" },
  });
  expect(refused).toEqual(["s1"]);
  expect(entries.map((entry) => entry.action)).toEqual(
    ["auth.identity.link", "auth.identity.unlink"].flatMap((action) => [action, action]),
  );
  for (const method of ["GET", "POST", "DELETE"] as const) {
    const path = method === "GET" ? "/auth/me/identities" : url;
    expect((await send(app, { method, url: path, headers: { host: HOST } })).statusCode).toBe(401);
  }
});

test("a pushed event is taken with 202 and no body, and the sessions that it ends are refused at once", async () => {
  const receive = vi.fn<Identity["receiveSecurityEvent"]>(async () => ({ endedSessionIds: ["s1", "s2"] }));
  const { app, refused, entries } = gateway(completed, "fragment", { receiveSecurityEvent: receive });
  const headers = { "content-type": "application/secevent+jwt", authorization: "Bearer the.token" };
  const call = { method: "POST", url: "/auth/google/events", body: "a.b.c", headers } as const;
  const response = await send(app, call);
  expect([response.statusCode, response.body]).toEqual([202, ""]);
  expect(receive.mock.lastCall?.[0]).toEqual({
    provider: "google",
    event: "a.b.c",
    bearerToken: "the.token",
    clientIp: "127.0.0.1",
  });
  expect(refused).toEqual(["s1", "s2"]);
  expect(entries).toMatchObject([
    { action: "auth.security_event", kind: "intent" },
    { kind: "outcome", outcome: "success" },
  ]);
  expect(entries[1]?.actor).toEqual({});
});

test("a refused event has the form of RFC 8935; another status than 400 has ours, and says when to send again", async () => {
  const fields = [{ field: "event", code: "invalid_audience", message: "aud is wrong" }];
  const failures = [
    new DomainError("validation_failed", undefined, { fields }),
    new DomainError("service_unavailable", undefined, { retryAfterMs: 30_000 }),
  ];
  const receiveSecurityEvent = async () => {
    throw failures.shift();
  };
  const { app } = gateway(completed, "fragment", { receiveSecurityEvent });
  const push = (body: string, type = "application/secevent+jwt") =>
    send(app, { method: "POST", url: "/auth/google/events", body, headers: { "content-type": type } });
  const wrong = await push("a.b.c");
  expect([wrong.statusCode, wrong.json()]).toEqual([
    400,
    { err: "invalid_audience", description: "aud is wrong" },
  ]);
  const away = await push("a.b.c");
  expect([away.statusCode, away.headers["retry-after"]]).toEqual([503, "30"]);
  expect((await push("")).json()).toMatchObject({ err: "invalid_request" });
  expect((await push("a.b.c", "application/json")).statusCode).toBe(415);
  expect((await push("a".repeat(16_385))).statusCode).toBe(413);
});

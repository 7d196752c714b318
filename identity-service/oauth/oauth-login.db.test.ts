import { randomBytes } from "node:crypto";
import type { ServerResponse } from "node:http";
import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import {
  type Answer,
  drip,
  flood,
  type HostileProvider,
  hang,
  type Lies,
  redirectTo,
  startHostileProvider,
} from "#tests/support/people/hostile-provider.ts";
import { forgotPassword } from "../accounts/mail-a-link.ts";
import { register } from "../accounts/register.ts";
import { resetPassword } from "../accounts/reset-password.ts";
import { deleteUser } from "../admin/delete-user.ts";
import { listIdentities } from "../identities/external-identity-store.ts";
import { completeMfaLogin } from "../login/complete-mfa-login.ts";
import { createCountLogin } from "../login/count-logins.ts";
import { logIn as logInWith } from "../login/log-in.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { createHashShare } from "../passwords/hash-share.ts";
import type { PasswordOwner } from "../passwords/prove-owner.ts";
import { asOperator, proveCredentials, sessionAt, soon, testDeps } from "../testing/test-deps.ts";
import { MemoryThrottle } from "../throttle/memory-throttle.ts";
import { throttleLimits } from "../throttle/throttle.ts";
import { beginOAuthLogin, deleteExpiredOAuth } from "./begin-oauth-login.ts";
import { completeOAuthLogin, type OAuthResult } from "./complete-oauth-login.ts";
import { exchangeOAuthCode } from "./exchange-oauth-code.ts";
import { partyOf, settingsOf } from "./oauth.fixture.ts";
import { challengeOf } from "./oauth-flow-secrets.ts";
import { unlinkIdentity } from "./unlink-identity.ts";

const RETURN_TO = "https://app.example/signed-in";
const OTHER = "https://app.example/other?a=b";
const VERIFIER = randomBytes(32).toString("base64url");
const PASSWORD = "Correct-Horse-42";
const from = { clientIp: "192.0.2.1", userAgent: "test", deviceToken: "" };

let database: TestDatabase;
let provider: HostileProvider;
let deps: Awaited<ReturnType<typeof testDeps>>;
let logLines: string[];

beforeAll(async () => {
  database = await createTestDatabase("identity-service");
  provider = await startHostileProvider();
});
beforeEach(async () => {
  await emptyTables(
    database.ownerSql,
    "users",
    "counted_mails",
    "oauth_flows",
    "mail_outbox",
    "session_ends",
    "security_events",
  );
  provider.lie({});
  for (const path of Object.keys(provider.counts)) delete provider.counts[path];
  logLines = [];
  acceptedLanguage = "";
  deps = { ...(await testDeps(database.sql)), returnTo: [RETURN_TO, OTHER] };
  useParties();
});
afterAll(async () => {
  provider.close();
  await database.drop();
});

const context = () => newCallContext({ budgetMs: 60_000 });
const useParties = (timeoutMs = 5_000) => {
  const settings = settingsOf(provider.issuer);
  const names = ["demo", "other"];
  deps.relyingParties = new Map(
    names.map((name) => [name, partyOf({ ...settings, name }, timeoutMs, logLines)]),
  );
};
const tokenRequests = () => provider.counts["/token"] ?? 0;
const users = () =>
  database.ownerSql`select id, email, email_verified, first_name, last_name, password_hash from users order by id`;

interface Beginning {
  name?: string;
  codeChallenge?: string;
  returnTo?: string;
  browserToken?: string;
  isAfresh?: boolean;
  linkTo?: PasswordOwner;
  clientIp?: string;
}
const begin = ({
  name = "demo",
  codeChallenge = "",
  returnTo = "",
  browserToken = "",
  isAfresh = false,
  linkTo,
  clientIp = from.clientIp,
}: Beginning = {}) =>
  beginOAuthLogin(
    deps,
    {
      provider: name,
      returnTo,
      codeChallenge,
      browserToken,
      isBrowserTokenSecure: true,
      isAfresh,
      linkTo,
      clientIp,
    },
    context(),
  );
/** Of the browser. */
let acceptedLanguage = "";
const complete = (browserToken: string, answer: Answer, name = "demo", isBrowserTokenSecure = true) =>
  completeOAuthLogin(
    deps,
    { ...answer, ...from, provider: name, browserToken, isBrowserTokenSecure, language: acceptedLanguage },
    context(),
  );

/** A whole flow, the provider's user saying yes. */
async function flow(beginning: Beginning = {}): Promise<OAuthResult> {
  const { authorizationUrl, browserToken } = await begin(beginning);
  return (await complete(browserToken, provider.authorize(authorizationUrl), beginning.name)).result;
}
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );
function userIdOf(result: OAuthResult): string {
  if (result.kind !== "completed") throw new Error(JSON.stringify(result));
  return result.user.id;
}

async function registered(email = "ada@example.com", isVerified = true) {
  const person = { email, password: PASSWORD, firstName: "A", lastName: "L" };
  const user = await register(deps, person, soon());
  if (isVerified) await proveCredentials(database.ownerSql, user.id);
  return user;
}
/** As who reads the mail of ada@example.com. */
async function setPasswordByMail(): Promise<void> {
  await forgotPassword(deps, { email: "ada@example.com" });
  await deps.afterAnswer.drained();
  const [mail] = await database.ownerSql`
    select data from mail_outbox where template = 'reset-password' order by id desc limit 1`;
  const link = new URL(deps.linkTokens.completed(mail?.data).link ?? "");
  const token = link.searchParams.get("token") ?? "";
  await resetPassword(deps, { token, newPassword: PASSWORD }, context());
}
const recorded = () =>
  database.ownerSql`
    select type, reason, user_id, actor_id, ip from security_events where type like 'identity_%' order by id`;
const ownerOf = (userId: string, overrides: Partial<PasswordOwner> = {}): PasswordOwner => ({
  acr: 1,
  userId,
  sessionId: deps.newId(),
  authTime: deps.now(),
  password: PASSWORD,
  ...from,
  ...overrides,
});

test("the way to the provider has everything: code flow, PKCE S256, state, nonce, the provider's own callback", async () => {
  const { authorizationUrl, ...departure } = await begin();
  const url = new URL(authorizationUrl);
  expect(url.origin + url.pathname).toBe(`${provider.issuer}/authorize`);
  expect(Object.fromEntries(url.searchParams)).toEqual({
    client_id: "gatehouse",
    response_type: "code",
    redirect_uri: "https://gatehouse.example/auth/demo/callback",
    scope: "openid email",
    state: expect.stringMatching(/^[\w-]{43}$/),
    nonce: expect.stringMatching(/^[\w-]{43}$/),
    code_challenge: expect.stringMatching(/^[\w-]{43}$/),
    code_challenge_method: "S256",
    max_age: "31536000",
  });
  expect(departure).toEqual({
    browserToken: expect.stringMatching(/^[\w-]{43}$/),
    expiresInS: 600,
    isSecure: true,
  });
  const stored = JSON.stringify(await database.ownerSql`select * from oauth_flows`);
  for (const secret of [
    departure.browserToken,
    ...["state", "nonce"].map((key) => url.searchParams.get(key) ?? "?"),
  ])
    expect(stored).not.toContain(secret);
});

test.each([
  ["login", { prompt: "login", max_age: "0" }, { max_age: "31536000" }],
  ["select_account", { prompt: "select_account" }, {}],
  [undefined, {}, {}],
] as const)("a login afresh asks the provider by %j", async (afreshPrompt, afresh, otherwise) => {
  deps.relyingParties = new Map([["demo", partyOf(settingsOf(provider.issuer, { afreshPrompt }))]]);
  const askedOf = async (isAfresh: boolean) => {
    const { searchParams } = new URL((await begin({ isAfresh })).authorizationUrl);
    return Object.fromEntries([...searchParams].filter(([name]) => ["prompt", "max_age"].includes(name)));
  };
  expect([await askedOf(true), await askedOf(false)]).toEqual([afresh, otherwise]);
});

describe("a session is as old as the login at the provider", () => {
  const issuedAt = () => deps.tokenService.issueSession.mock.lastCall?.[0].authTime;
  const secondsOf = (date: Date) => Math.floor(date.getTime() / 1_000);

  test.each<[string, number | undefined, number]>([
    ["an hour ago", -3_600, -3_600],
    ["in an hour, by its clock", 3_600, 0],
    ["at a time that no clock has", 1e300, 0],
    ["at a time that it does not say", undefined, 0],
  ])("%s, by both ways", async (_, claimed, expected) => {
    const now = new Date(secondsOf(deps.now()) * 1_000);
    deps.now = () => now;
    provider.lie({ claims: { auth_time: claimed && secondsOf(now) + claimed } });
    const authTime = new Date(now.getTime() + expected * 1_000);
    userIdOf(await flow());
    expect(issuedAt()).toEqual(authTime);
    const result = await flow({ codeChallenge: challengeOf(VERIFIER) });
    if (result.kind !== "oneTimeCode") throw new Error(JSON.stringify(result));
    await exchangeOAuthCode(deps, { code: result.code, codeVerifier: VERIFIER, ...from }, context());
    expect(deps.tokenService.issueSession).toHaveBeenCalledTimes(2);
    expect(issuedAt()).toEqual(authTime);
  });

  test.each([
    ["a new account", async () => undefined],
    ["an account that it takes over", () => registered("ada@example.com", false)],
  ])("and recent enough for %s, whose credentials it proves", async (_, prepare) => {
    await prepare();
    provider.lie({ claims: { auth_time: secondsOf(deps.now()) - 30 } });
    const id = userIdOf(await flow());
    const owner = ownerOf(id, { password: "", authTime: issuedAt() ?? new Date(0) });
    expect(await codeOf(begin({ name: "other", linkTo: owner }))).toBe("done");
    const earlier = { ...owner, authTime: new Date(owner.authTime.getTime() - 1_000) };
    expect(await codeOf(begin({ name: "other", linkTo: earlier }))).toBe("reauthentication_required");
  });

  test("and not as the userinfo endpoint says", async () => {
    provider.lie({ claims: { email: undefined }, userinfo: { auth_time: 1 } });
    userIdOf(await flow());
    expect(issuedAt()?.getTime()).toBeGreaterThan(deps.now().getTime() - 60_000);
  });
});

test.each([
  ["pt_BR", "fr", "pt-BR"],
  ["<b>", "fr-CA", "fr-CA"],
  [{ language: "de" }, "", null],
  [undefined, "no language", null],
])(
  "of a provider's locale %j and a browser's language %j a new account has %j",
  async (locale, browser, kept) => {
    provider.lie({ claims: { locale } });
    acceptedLanguage = browser;
    userIdOf(await flow());
    const languages = () => database.ownerSql`select language from users`;
    expect(await languages()).toEqual([{ language: kept }]);
    provider.lie({ claims: { locale: "it" } });
    userIdOf(await flow());
    expect(await languages()).toEqual([{ language: kept }]);
  },
);

test("a first login makes the account, without a password; the next ones find it, whatever address the provider says", async () => {
  const id = userIdOf(await flow());
  expect(await users()).toEqual([
    {
      id,
      email: "ada@example.com",
      email_verified: true,
      first_name: "Ada",
      last_name: "Lovelace",
      password_hash: null,
    },
  ]);
  expect(deps.tokenService.issueSession.mock.lastCall?.[0]).toMatchObject({
    userId: id,
    role: "USER",
    amr: ["fed"],
  });
  const victim = await registered("victim@example.com");
  provider.lie({ claims: { email: "victim@example.com" } });
  expect(userIdOf(await flow())).toBe(id);
  expect((await users()).map(({ email }) => email)).toEqual(["ada@example.com", "victim@example.com"]);
  expect(victim.id).not.toBe(id);
});

test.each(["true", 1, null])("an address is not verified by %j, and the log says why", async (verified) => {
  provider.lie({ claims: { email_verified: verified } });
  await flow();
  expect(await users()).toMatchObject([{ email_verified: false, password_hash: null }]);
  expect(logLines.join("")).toContain("is not a boolean, so the address counts as not verified");
});

test("an address that only the userinfo endpoint sends is found there", async () => {
  provider.lie({
    claims: { email: undefined, email_verified: undefined },
    userinfo: { email: "from@userinfo.example", email_verified: true },
  });
  await flow();
  expect(await users()).toMatchObject([{ email: "from@userinfo.example", email_verified: true }]);
});

test("an address of the userinfo endpoint is not verified by the ID token, which does not name it", async () => {
  provider.lie({
    claims: { email: undefined, email_verified: true },
    userinfo: { email: "from@userinfo.example", email_verified: undefined },
  });
  await flow();
  expect(await users()).toMatchObject([{ email: "from@userinfo.example", email_verified: false }]);
});

describe("a provider that lies gets nobody in: no user, no session", () => {
  const inS = (seconds: number) => Math.floor(Date.now() / 1_000) + seconds;
  test.each<[string, () => Lies]>([
    ["a broken signature", () => ({ signature: "broken" })],
    ["a signature of another key", () => ({ signature: "of another key" })],
    ["alg none", () => ({ signature: "none" })],
    ["HS256 with the client secret", () => ({ signature: "hs256" })],
    ["another audience", () => ({ claims: { aud: "another" } })],
    ["several audiences without azp", () => ({ claims: { aud: ["gatehouse", "another"] } })],
    ["several audiences, azp another", () => ({ claims: { aud: ["gatehouse", "another"], azp: "another" } })],
    ["another issuer", () => ({ claims: { iss: "https://accounts.google.com" } })],
    ["another nonce", () => ({ claims: { nonce: "another" } })],
    ["no nonce", () => ({ claims: { nonce: undefined } })],
    ["an expired token", () => ({ claims: { exp: inS(-60), iat: inS(-360) } })],
    ["a token of the future", () => ({ claims: { nbf: inS(300) } })],
    ["no sub", () => ({ claims: { sub: undefined } })],
    ["a sub that is no text", () => ({ claims: { sub: 7 } })],
    ["an empty sub", () => ({ claims: { sub: "" } })],
    ["a sub of 256 bytes", () => ({ claims: { sub: "x".repeat(256) } })],
    ["a sub with a zero byte", () => ({ claims: { sub: "a\0b" } })],
    [
      "another sub at the userinfo endpoint",
      () => ({ claims: { email: undefined }, userinfo: { sub: "sub-2" } }),
    ],
    ["no address", () => ({ claims: { email: "" } })],
    ["an address that is none", () => ({ claims: { email: "ada@@example.com" } })],
    ["an address that looks like another", () => ({ claims: { email: "\uff41da@example.com" } })],
    [
      "token endpoint: 500",
      () => ({ answers: { "/token": (response) => response.writeHead(500).end("<script>") } }),
    ],
    ["token endpoint: 429", () => ({ answers: { "/token": (response) => response.writeHead(429).end() } })],
    ["token endpoint: no JSON", () => ({ answers: { "/token": (response) => response.end("<html>") } })],
    ["token endpoint: a redirect", () => ({ answers: { "/token": redirectTo("http://169.254.169.254/") } })],
    ["token endpoint: 50 MiB", () => ({ answers: { "/token": flood } })],
    ["token endpoint: hangs up", () => ({ answers: { "/token": (response) => response.destroy() } })],
    ["keys: 50 MiB", () => ({ answers: { "/jwks": flood } })],
    ["keys: none", () => ({ answers: { "/jwks": (response) => response.end('{"keys":[]}') } })],
  ])("%s", async (_name, lies) => {
    provider.lie(lies());
    expect(await flow()).toEqual({ kind: "refused", code: "oauth_failed" });
    expect(await users()).toEqual([]);
    expect(await database.ownerSql`select * from external_identities`).toEqual([]);
    expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  });

  test.each<[string, Lies]>([
    ["hangs", { answers: { "/token": hang } }],
    ["drips", { answers: { "/token": drip } }],
    ["drips its keys", { answers: { "/jwks": drip } }],
  ])("and one that %s is left after its time", async (_name, lies) => {
    useParties(400);
    provider.lie(lies);
    expect(await flow()).toEqual({ kind: "refused", code: "oauth_failed" });
    expect(await users()).toEqual([]);
  });

  test("which all its answers share", async () => {
    useParties(3_000);
    provider.lie({ delayMs: 1_600 });
    expect(await flow()).toEqual({ kind: "refused", code: "oauth_failed" });
    expect(tokenRequests()).toBeLessThanOrEqual(1);
  });

  test("but not before", async () => {
    provider.lie({ answers: { "/token": drip } });
    const startedMs = performance.now();
    expect(await flow()).toEqual({ kind: "refused", code: "oauth_failed" });
    const tookMs = performance.now() - startedMs;
    expect(tookMs).toBeGreaterThan(4_500);
  });

  test("the log holds no code, no token and no text of the provider", async () => {
    provider.lie({
      answers: {
        "/token": (response) =>
          response
            .writeHead(400, { "content-type": "application/json" })
            .end('{"error":"EVIL_TEXT","error_description":"EVIL"}'),
      },
    });
    const { authorizationUrl, browserToken } = await begin();
    const answer = provider.authorize(authorizationUrl);
    await complete(browserToken, answer);
    const logged = [...logLines, ...deps.logLines].join("");
    expect(logged).toContain('"reason"');
    for (const secret of ["EVIL", answer.code, answer.state, browserToken])
      expect(logged).not.toContain(secret);
  });
});

describe("discovery", () => {
  const beginNow = () => codeOf(begin());
  test.each<[string, () => Lies]>([
    ["another issuer", () => ({ discovery: { issuer: "https://accounts.google.com" } })],
    ["keys at a link-local address", () => ({ discovery: { jwks_uri: "http://169.254.169.254/keys" } })],
    ["keys at a private address", () => ({ discovery: { jwks_uri: "http://10.0.0.1/keys" } })],
    [
      "a token endpoint that is no web address",
      () => ({ discovery: { token_endpoint: "file:///etc/passwd" } }),
    ],
    [
      "an authorization endpoint that is a script",
      () => ({ discovery: { authorization_endpoint: "javascript:alert(1)" } }),
    ],
    ["no keys", () => ({ discovery: { jwks_uri: undefined } })],
    [
      "a redirect",
      () => ({ answers: { "/.well-known/openid-configuration": redirectTo("http://127.0.0.1:1/") } }),
    ],
    ["50 MiB", () => ({ answers: { "/.well-known/openid-configuration": flood } })],
    ["drip by drip", () => ({ answers: { "/.well-known/openid-configuration": drip } })],
  ])("%s: nobody is sent there", async (_name, lies) => {
    useParties(400);
    provider.lie(lies());
    expect(await beginNow()).toBe("service_unavailable");
    expect(await database.ownerSql`select * from oauth_flows`).toEqual([]);
  });

  test("an outage does not affect a provider whose metadata is known; a new key is used at once", async () => {
    const id = userIdOf(await flow());
    provider.lie({ answers: { "/.well-known/openid-configuration": hang } });
    expect(userIdOf(await flow())).toBe(id);
    expect(provider.counts["/.well-known/openid-configuration"]).toBe(1);
    expect(provider.counts["/jwks"]).toBe(1);
    await provider.rotate();
    expect(userIdOf(await flow())).toBe(id);
    expect(provider.counts["/jwks"]).toBe(2);
  });
});

describe("a callback that is nobody's asks the provider nothing", () => {
  const handle = () => randomBytes(32).toString("base64url");
  test.each<[string, (answer: Answer, browser: string) => Promise<unknown>]>([
    ["without a state", (answer, browser) => complete(browser, { ...answer, state: "" })],
    ["with another state", (answer, browser) => complete(browser, { ...answer, state: handle() })],
    ["of another browser", (answer) => complete(handle(), answer)],
    ["of a browser without the cookie", (answer) => complete("", answer)],
    [
      "with a cookie that anybody on this host could have set",
      (answer, browser) => complete(browser, answer, "demo", false),
    ],
    ["of another provider (mix-up)", (answer, browser) => complete(browser, answer, "other")],
  ])("%s", async (_name, attempt) => {
    const { authorizationUrl, browserToken } = await begin();
    const answer = provider.authorize(authorizationUrl);
    expect(await codeOf(attempt(answer, browserToken))).toBe("oauth_state_invalid");
    expect(tokenRequests()).toBe(0);
    // And it has not ended the flow of the one whose it is.
    expect((await complete(browserToken, answer)).result.kind).toBe("completed");
  });

  test("of a provider that we do not know", async () => {
    expect(await codeOf(flow({ name: "nobody" }))).toBe("provider_not_found");
  });

  test("after ten minutes; and then it is gone", async () => {
    const { authorizationUrl, browserToken } = await begin();
    const later = new Date(deps.now().getTime() + 600_000);
    deps.now = () => later;
    expect(await codeOf(complete(browserToken, provider.authorize(authorizationUrl)))).toBe(
      "oauth_state_invalid",
    );
    expect(tokenRequests()).toBe(0);
    await deleteExpiredOAuth(deps);
    expect(await database.ownerSql`select * from oauth_flows`).toEqual([]);
  });

  test("whose `iss` is another provider's (RFC 9207)", async () => {
    const { authorizationUrl, browserToken } = await begin();
    const answer = { ...provider.authorize(authorizationUrl), iss: "https://evil.example" };
    expect((await complete(browserToken, answer)).result).toEqual({ kind: "refused", code: "oauth_failed" });
    expect(tokenRequests()).toBe(0);
  });

  test.each([
    ["access_denied", "oauth_denied"],
    ["server_error", "oauth_failed"],
    ["<script>alert(1)</script>", "oauth_failed"],
  ])("that is the error %s: %s, and not a word of it", async (error, code) => {
    const { authorizationUrl, browserToken } = await begin();
    const answer = { ...provider.authorize(authorizationUrl), code: "", error };
    expect(await complete(browserToken, answer)).toEqual({
      returnTo: RETURN_TO,
      result: { kind: "refused", code },
      endedSessionIds: [],
    });
    expect(tokenRequests()).toBe(0);
  });

  test("a thousand with random states: the provider hears of none", async () => {
    for (let round = 0; round < 1_000; round += 1) {
      const answer = { code: "c", state: handle(), iss: "", error: "" };
      expect(await codeOf(complete(handle(), answer))).toBe("oauth_state_invalid");
    }
    expect(provider.counts).toEqual({});
  });
});

test("fifty callbacks with one state at once: one gets in, the token endpoint is asked once", async () => {
  const { authorizationUrl, browserToken } = await begin();
  const answer = provider.authorize(authorizationUrl);
  const codes = await Promise.all(Array.from({ length: 50 }, () => codeOf(complete(browserToken, answer))));
  expect(codes.filter((code) => code === "done")).toHaveLength(1);
  expect(new Set(codes)).toEqual(new Set(["done", "oauth_state_invalid"]));
  expect(tokenRequests()).toBe(1);
  expect(deps.tokenService.issueSession).toHaveBeenCalledTimes(1);
});

test("twenty first logins of one person at once: one account", async () => {
  const results = await Promise.all(Array.from({ length: 20 }, () => flow()));
  expect(new Set(results.map(userIdOf)).size).toBe(1);
  expect(await users()).toHaveLength(1);
});

test("two tabs of one browser: neither ends the other's login", async () => {
  const first = await begin();
  const second = await begin({ browserToken: first.browserToken });
  expect(second.browserToken).toBe(first.browserToken);
  for (const { authorizationUrl } of [first, second]) {
    expect((await complete(first.browserToken, provider.authorize(authorizationUrl))).result.kind).toBe(
      "completed",
    );
  }
});

test("an attacker's code in the victim's callback is worth nothing", async () => {
  const victim = await begin();
  const attacker = await begin();
  const stolen = provider.authorize(attacker.authorizationUrl);
  const own = provider.authorize(victim.authorizationUrl);
  const result = (await complete(victim.browserToken, { ...own, code: stolen.code })).result;
  expect(result).toEqual({ kind: "refused", code: "oauth_failed" });
  expect(await users()).toEqual([]);
});

test("one network cannot fill the table of flows: beyond its budget it is refused, and others are not", async () => {
  const limits = throttleLimits({ network: 10, everything: 100, callsOfNetwork: 1, calls: 100 });
  deps.throttle = new MemoryThrottle({ limits, now: () => deps.now().getTime() });
  const codes = await Promise.all(Array.from({ length: 30 }, () => codeOf(begin())));
  expect(codes.filter((code) => code === "too_many_requests")).toHaveLength(20);
  expect(await database.ownerSql`select * from oauth_flows`).toHaveLength(10);
  expect(await codeOf(begin({ clientIp: "198.51.100.7" }))).toBe("done");
});

test("`returnTo` is on the list, exactly, or the call is refused", async () => {
  const { authorizationUrl, browserToken } = await begin({ returnTo: OTHER });
  expect((await complete(browserToken, provider.authorize(authorizationUrl))).returnTo).toBe(OTHER);
  for (const returnTo of [
    `${RETURN_TO}/`,
    `${RETURN_TO}?x`,
    "https://app.example",
    "https://evil.example",
    "//evil.example",
  ]) {
    expect(await codeOf(begin({ returnTo }))).toBe("validation_failed");
  }
});

describe("what is no provider's fault", () => {
  test("an absent token-service is reported to the client through the redirect", async () => {
    deps.tokenService.issueSession.mockRejectedValueOnce(new DomainError("service_unavailable"));
    expect(await flow()).toEqual({ kind: "refused", code: "service_unavailable" });
  });

  test.each([new Error("a defect"), new DomainError("not_found")])(
    "%s is answered for by us",
    async (error) => {
      deps.tokenService.issueSession.mockRejectedValueOnce(error);
      await expect(flow()).rejects.toBe(error);
    },
  );

  test("a network that has used up its share of the provider gets busy, and the provider is not called", async () => {
    deps.providerShare = createHashShare({ maxOfNetwork: 0, maxOfStrangers: 1_000 });
    expect(await flow()).toEqual({ kind: "refused", code: "busy" });
    expect(tokenRequests()).toBe(0);
  });
});

test("the sessions of a claimed account end before the new one begins", async () => {
  await registered("ada@example.com", false);
  const order: string[] = [];
  deps.tokenService.revokeUserSessions.mockImplementationOnce(async () => {
    order.push("ended");
    return ["s1"];
  });
  const { issueSession } = deps.tokenService;
  const issue = issueSession.getMockImplementation();
  issueSession.mockImplementationOnce(async (...args) => {
    order.push("begun");
    return issue?.(...args) ?? Promise.reject(new Error("no session"));
  });
  const { authorizationUrl, browserToken } = await begin();
  const done = await complete(browserToken, provider.authorize(authorizationUrl));
  expect(done).toMatchObject({ result: { kind: "completed" }, endedSessionIds: ["s1"] });
  expect(order).toEqual(["ended", "begun"]);
});

test("where an address must be proven, a proven one gets in, by both ways", async () => {
  deps.loginRequiresVerifiedEmail = true;
  expect((await flow()).kind).toBe("completed");
  expect((await flow({ codeChallenge: challengeOf(VERIFIER) })).kind).toBe("oneTimeCode");
});

test("where it need not be, an unproven one gets in, by both ways", async () => {
  provider.lie({ claims: { email_verified: false } });
  expect((await flow()).kind).toBe("completed");
  expect((await flow({ codeChallenge: challengeOf(VERIFIER) })).kind).toBe("oneTimeCode");
});

test("a flow is valid until its last millisecond", async () => {
  const { authorizationUrl, browserToken } = await begin();
  const last = new Date(deps.now().getTime() + 600_000 - 1);
  deps.now = () => last;
  expect((await complete(browserToken, provider.authorize(authorizationUrl))).result.kind).toBe("completed");
});

test("a cookie that other origins could have set counts only if no secure one is possible", async () => {
  const beginWith = (browserToken: string) =>
    beginOAuthLogin(
      deps,
      {
        provider: "demo",
        returnTo: "",
        codeChallenge: "",
        browserToken,
        isBrowserTokenSecure: false,
        isAfresh: false,
        linkTo: undefined,
        clientIp: from.clientIp,
      },
      context(),
    );
  const { browserToken: kept } = await begin();
  expect((await beginWith(kept)).browserToken).not.toBe(kept);
  deps.isPublicOriginSecure = false;
  const { authorizationUrl, browserToken, isSecure } = await beginWith(kept);
  expect([browserToken, isSecure]).toEqual([kept, false]);
  const { result } = await complete(kept, provider.authorize(authorizationUrl), "demo", false);
  expect(result.kind).toBe("completed");
});

test.each([
  ["codeChallenge", { codeChallenge: "x" }, "must be an S256 challenge"],
  ["returnTo", { returnTo: "https://evil.example" }, "is not a configured address"],
] as const)(
  "a beginning with an invalid %s is refused with the name of the field",
  async (field, beginning, message) => {
    await expect(begin(beginning)).rejects.toMatchObject({
      code: "validation_failed",
      fields: [{ field, code: "invalid_value", message }],
    });
  },
);

test("linking needs a session, and begins even if strangers have used up all calls", async () => {
  const user = await registered("someone@else.example");
  const limits = throttleLimits({ network: 10, everything: 100, calls: 1 });
  deps.throttle = new MemoryThrottle({ limits, now: () => deps.now().getTime() });
  const codes = await Promise.all(Array.from({ length: 20 }, () => codeOf(begin())));
  expect(codes).toContain("too_many_requests");
  expect(await codeOf(begin({ linkTo: ownerOf(user.id) }))).toBe("done");
});

describe("the one-time code", () => {
  const exchange = (code: string, codeVerifier = VERIFIER) =>
    exchangeOAuthCode(deps, { code, codeVerifier, ...from }, context());
  async function newCode(): Promise<string> {
    const result = await flow({ codeChallenge: challengeOf(VERIFIER) });
    if (result.kind !== "oneTimeCode") throw new Error(JSON.stringify(result));
    return result.code;
  }

  test("begins the session when it is exchanged, and not before; nothing of it is stored", async () => {
    const code = await newCode();
    expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
    expect(JSON.stringify(await database.ownerSql`select * from oauth_codes`)).not.toContain(code);
    expect(await exchange(code)).toMatchObject({
      user: { email: "ada@example.com" },
      tokens: { accessToken: "access" },
    });
    expect(await codeOf(exchange(code))).toBe("oauth_code_invalid");
  });

  test("logins of one account at providers have a budget", async () => {
    const limits = throttleLimits({ network: 10, everything: 10, logins: 2 });
    deps.throttle = new MemoryThrottle({ limits, now: () => deps.now().getTime() });
    const codes: string[] = [];
    for (let login = 0; login < 3; login += 1) codes.push(await codeOf(exchange(await newCode())));
    expect(codes).toEqual(["done", "done", "too_many_requests"]);
  });

  test("fifty exchanges at once: one session", async () => {
    const code = await newCode();
    const codes = await Promise.all(Array.from({ length: 50 }, () => codeOf(exchange(code))));
    expect(codes.filter((outcome) => outcome === "done")).toHaveLength(1);
    expect(new Set(codes)).toEqual(new Set(["done", "oauth_code_invalid"]));
    expect(deps.tokenService.issueSession).toHaveBeenCalledTimes(1);
  });

  test.each<[string, (code: string) => Promise<unknown>]>([
    ["another verifier", (code) => exchange(code, randomBytes(32).toString("base64url"))],
    ["no verifier", (code) => exchange(code, "")],
    ["the challenge as verifier", (code) => exchange(code, challengeOf(VERIFIER))],
  ])("is used up by %s", async (_name, attempt) => {
    const code = await newCode();
    expect(await codeOf(attempt(code))).toBe("oauth_code_invalid");
    expect(await codeOf(exchange(code))).toBe("oauth_code_invalid");
    expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  });

  test("is over after 60 seconds, when sessions were ended since, and when the account is disabled", async () => {
    const code = await newCode();
    await database.ownerSql`update users set session_epoch = session_epoch + 1`;
    expect(await codeOf(exchange(code))).toBe("oauth_code_invalid");
    const disabled = await newCode();
    await database.ownerSql`update users set status = 'disabled'`;
    expect(await codeOf(exchange(disabled))).toBe("oauth_code_invalid");
    await database.ownerSql`update users set status = 'active'`;
    const old = await newCode();
    const later = new Date(deps.now().getTime() + 60_000);
    deps.now = () => later;
    expect(await codeOf(exchange(old))).toBe("oauth_code_invalid");
    // Not only ended again: none of them began a session.
    expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  });
});

test("each login at a provider is counted by its outcome; linking is not a login", async () => {
  const metrics = createMetrics("test");
  deps.countLogin = createCountLogin(metrics);
  await flow();
  const coded = await flow({ codeChallenge: challengeOf(VERIFIER) });
  if (coded.kind !== "oneTimeCode") throw new Error(JSON.stringify(coded));
  const exchange = { code: coded.code, codeVerifier: VERIFIER, ...from };
  await exchangeOAuthCode(deps, exchange, context());
  expect(await codeOf(exchangeOAuthCode(deps, exchange, context()))).toBe("oauth_code_invalid");
  const user = await registered("someone@else.example");
  provider.lie({ claims: { sub: "linked" } });
  await flow({ linkTo: ownerOf(user.id) });
  await database.ownerSql`update users set status = 'disabled'`;
  await flow();
  const counted = (await metrics.render()).matchAll(
    /^gatehouse_logins_total\{step="(\w+)",outcome="(\w+)".* (\d+)$/gm,
  );
  expect([...counted].map(([, ...counts]) => counts)).toEqual([
    ["provider", "completed", "1"],
    ["provider", "code_issued", "1"],
    ["code", "completed", "1"],
    ["code", "oauth_code_invalid", "1"],
    ["provider", "oauth_failed", "1"],
  ]);
});

describe("an account with the same address", () => {
  test.each([
    { local: true, external: true, expected: "completed", mails: ["identity-linked"] },
    { local: true, external: false, expected: "link_required", mails: [] },
    { local: false, external: true, expected: "completed", mails: ["account-claimed"] },
    { local: false, external: false, expected: "link_required", mails: [] },
  ])("proven here: $local, there: $external: $expected", async ({ local, external, expected, mails }) => {
    const user = await registered("ada@example.com", local);
    provider.lie({ claims: { email_verified: external, email: "ADA@example.com" } });
    const result = await flow();
    expect(result.kind === "refused" ? result.code : result.kind).toBe(expected);
    expect(await listIdentities(database.sql, user.id)).toHaveLength(expected === "completed" ? 1 : 0);
    expect(
      await database.ownerSql`select template, recipient from mail_outbox where template <> 'verify-email'`,
    ).toEqual(mails.map((template) => ({ template, recipient: "ada@example.com" })));
    expect(await users()).toHaveLength(1);
  });

  test("that an attacker made in wait for its owner: the reset of its password takes the attacker's way in away", async () => {
    provider.lie({ claims: { sub: "attacker", email_verified: false } });
    const id = userIdOf(await flow());
    await setPasswordByMail();
    expect(await listIdentities(database.sql, id)).toEqual([]);
    provider.lie({ claims: { sub: "attacker", email_verified: false } });
    expect(await flow()).toEqual({ kind: "refused", code: "link_required" });
  });

  test("a reset proves the address: what its owner links after it stays at the next one", async () => {
    const user = await registered("ada@example.com", false);
    await setPasswordByMail();
    expect(await users()).toMatchObject([{ email_verified: true }]);
    expect((await flow({ linkTo: ownerOf(user.id) })).kind).toBe("linked");
    await database.ownerSql`update external_identities set linked_at = now() - interval '31 days'`;
    await setPasswordByMail();
    expect(await listIdentities(database.sql, user.id)).toHaveLength(1);
  });
});

test("a disabled account stays out, by every way", async () => {
  const id = userIdOf(await flow());
  await database.ownerSql`update users set status = 'disabled' where id = ${id}`;
  expect(await flow()).toEqual({ kind: "refused", code: "oauth_failed" });
  expect(await flow({ codeChallenge: challengeOf(VERIFIER) })).toEqual({
    kind: "refused",
    code: "oauth_failed",
  });
});

test("sessions that end while the new one begins end it too", async () => {
  await flow();
  const { issueSession } = deps.tokenService;
  deps.tokenService.issueSession = issueSession.mockImplementationOnce(async ({ userId }) => {
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
  expect(await flow()).toEqual({ kind: "refused", code: "oauth_failed" });
  expect(deps.tokenService.revokeSession).toHaveBeenCalledTimes(1);
});

test("where an address must be proven, an unproven one stays out here too", async () => {
  deps.loginRequiresVerifiedEmail = true;
  provider.lie({ claims: { email_verified: false } });
  expect(await flow()).toEqual({ kind: "refused", code: "email_not_verified" });
  expect(await flow({ codeChallenge: challengeOf(VERIFIER) })).toEqual({
    kind: "refused",
    code: "email_not_verified",
  });
});

test("without disclosure, claiming an account by an unverified address reveals nothing", async () => {
  deps.loginRequiresVerifiedEmail = true;
  deps.registrationDiscloses = false;
  provider.lie({ claims: { email_verified: false } });
  const free = await flow();
  await registered();
  expect(await flow()).toEqual(free);
  expect(free).toEqual({ kind: "refused", code: "email_not_verified" });
});

test("a second factor is asked for here too, and the session says how it began", async () => {
  const user = await registered();
  const enrollment = await beginTotpEnrollment(
    deps,
    { ...sessionAt(deps), userId: user.id, password: PASSWORD, clientIp: "" },
    soon(),
  );
  const code = (shiftS: number) =>
    generateSync({ secret: enrollment.secret, epoch: Math.floor(deps.now().getTime() / 1_000) + shiftS });
  await confirmTotpEnrollment(
    deps,
    { ...sessionAt(deps), userId: user.id, sessionId: deps.newId(), code: code(-30), ...from },
    context(),
  );
  const result = await flow();
  if (result.kind !== "mfaChallenge") throw new Error(JSON.stringify(result));
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  await completeMfaLogin(deps, { tempToken: result.tempToken, code: code(0), ...from }, context());
  expect(deps.tokenService.issueSession.mock.lastCall?.[0]).toMatchObject({ amr: ["fed", "otp", "mfa"] });
});

describe("linking and unlinking", () => {
  test("a linking that was begun in a session that has ended since links nothing", async () => {
    const user = await registered("someone@else.example");
    const owner = ownerOf(user.id);
    deps.tokenService.isSessionLive.mockResolvedValueOnce(false);
    expect(await flow({ linkTo: owner })).toEqual({ kind: "refused", code: "oauth_failed" });
    expect(await listIdentities(database.sql, user.id)).toEqual([]);
    const { userId, sessionId } = owner;
    expect(deps.tokenService.isSessionLive.mock.lastCall?.[0]).toEqual({ userId, sessionId });
  });

  test("one that a version began which did not name its session is not asked about", async () => {
    const user = await registered("someone@else.example");
    expect((await flow({ linkTo: ownerOf(user.id, { sessionId: "" }) })).kind).toBe("linked");
    expect(deps.tokenService.isSessionLive).not.toHaveBeenCalled();
  });

  test("nothing is linked to an account whose credentials are not proven, at the beginning and at the end", async () => {
    const user = await registered("someone@else.example", false);
    expect(await codeOf(begin({ linkTo: ownerOf(user.id) }))).toBe("email_not_verified");
    await proveCredentials(database.ownerSql, user.id);
    const { authorizationUrl, browserToken } = await begin({ linkTo: ownerOf(user.id) });
    await database.ownerSql`update users set credentials_proven_email = null, credentials_proven_at = null`;
    const { result } = await complete(browserToken, provider.authorize(authorizationUrl));
    expect(result).toEqual({ kind: "refused", code: "email_not_verified" });
  });

  test.each([
    ["disabled", () => database.ownerSql`update users set status = 'disabled'`],
    ["erased", () => database.ownerSql`delete from users`],
  ])("nothing is linked to an account that was %s while its browser was away", async (_what, end) => {
    const user = await registered("someone@else.example");
    deps.tokenService.isSessionLive.mockImplementationOnce(async () => {
      await end();
      return true;
    });
    expect(await flow({ linkTo: ownerOf(user.id) })).toEqual({ kind: "refused", code: "oauth_failed" });
    expect(await database.ownerSql`select from external_identities`).toHaveLength(0);
  });

  test("two tabs that link the same are one link and one mail; a second login at the provider is refused", async () => {
    const user = await registered("someone@else.example");
    const beginnings = [];
    for (let tab = 0; tab < 3; tab += 1) beginnings.push(await begin({ linkTo: ownerOf(user.id) }));
    const done = [];
    for (const [tab, { authorizationUrl, browserToken }] of beginnings.entries()) {
      if (tab === 2) provider.lie({ claims: { sub: "sub-2" } });
      done.push(await complete(browserToken, provider.authorize(authorizationUrl)));
    }
    expect(done).toMatchObject([
      { result: { kind: "linked", identity: { userId: user.id } }, endedSessionIds: [] },
      { result: { kind: "linked", identity: { userId: user.id } }, endedSessionIds: [] },
      { result: { kind: "refused", code: "already_linked" } },
    ]);
    expect(await database.ownerSql`select from mail_outbox where template = 'identity-linked'`).toHaveLength(
      1,
    );
    expect(await recorded()).toHaveLength(1);
  });

  test("a password that is replaced while it is checked takes nothing away", async () => {
    const user = await registered("someone@else.example");
    await flow({ linkTo: ownerOf(user.id) });
    const { verify } = deps.passwords;
    deps.passwords.verify = async (...args) => {
      const verdict = await verify(...args);
      await database.ownerSql`update users set password_hash = null`;
      return verdict;
    };
    const removal = { owner: ownerOf(user.id), provider: "demo" };
    expect(await codeOf(unlinkIdentity(deps, removal, context()))).toBe("invalid_credentials");
    expect(await listIdentities(database.sql, user.id)).toHaveLength(1);
  });

  test("a provider that is not configured any more is taken away all the same, and named by its name", async () => {
    const user = await registered("someone@else.example");
    await flow({ linkTo: ownerOf(user.id) });
    deps.relyingParties = new Map();
    await unlinkIdentity(deps, { owner: ownerOf(user.id), provider: "demo" }, context());
    const mails = await database.ownerSql`select data from mail_outbox where template = 'identity-unlinked'`;
    expect(mails).toMatchObject([{ data: { provider: "demo" } }]);
    expect((await recorded()).at(-1)).toMatchObject({ type: "identity_unlinked", reason: "demo" });
  });

  test("a user links an account of another address with the password, logs in with it, and takes it away again", async () => {
    const user = await registered("someone@else.example");
    deps.wakeMailWorker.mockClear();
    const result = await flow({ linkTo: ownerOf(user.id) });
    expect(result).toMatchObject({ kind: "linked", identity: { provider: "demo", userId: user.id } });
    expect(deps.wakeMailWorker).toHaveBeenCalled();
    expect(userIdOf(await flow())).toBe(user.id);
    deps.wakeMailWorker.mockClear();
    deps.tokenService.revokeUserSessions.mockResolvedValueOnce(["s1"]);
    const owner = ownerOf(user.id);
    expect(await unlinkIdentity(deps, { owner, provider: "demo" }, context())).toEqual(["s1"]);
    expect(deps.wakeMailWorker).toHaveBeenCalled();
    expect(deps.tokenService.revokeUserSessions.mock.lastCall?.[0]).toMatchObject({
      userId: user.id,
      exceptSessionId: owner.sessionId,
      reason: "identity_unlinked",
    });
    expect(await listIdentities(database.sql, user.id)).toEqual([]);
    const mails = await database.ownerSql`
      select template, data from mail_outbox where template like 'identity-%' order by template`;
    expect(mails).toMatchObject([
      { template: "identity-linked", data: { provider: "Demo", ip: "192.0.2.1" } },
      { template: "identity-unlinked", data: { provider: "Demo" } },
    ]);
    const event = { reason: "demo", user_id: user.id, actor_id: user.id, ip: "192.0.2.1" };
    expect(await recorded()).toEqual([
      { ...event, type: "identity_linked" },
      { ...event, type: "identity_unlinked" },
    ]);
  });

  test("linking an account because of its address is recorded in the audit log", async () => {
    const user = await registered();
    await flow();
    await flow();
    expect(await recorded()).toMatchObject([{ type: "identity_linked", reason: "demo", user_id: user.id }]);
  });

  test.each<[string, Partial<PasswordOwner>, string]>([
    ["no password", { password: "" }, "reauthentication_required"],
    ["a wrong password", { password: "wrong" }, "invalid_credentials"],
  ])("with %s nothing is linked or unlinked", async (_name, overrides, code) => {
    const user = await registered("someone@else.example");
    await flow({ linkTo: ownerOf(user.id) });
    const owner = ownerOf(user.id, overrides);
    expect(await codeOf(begin({ name: "other", linkTo: owner }))).toBe(code);
    expect(await codeOf(unlinkIdentity(deps, { owner, provider: "demo" }, context()))).toBe(code);
    expect(await listIdentities(database.sql, user.id)).toHaveLength(1);
  });

  test("an account without a password needs a login of the last ten minutes", async () => {
    const id = userIdOf(await flow());
    await database.ownerSql`update users set credentials_proven_at = now() - interval '1 hour'`;
    const ago = (minutes: number) => new Date(deps.now().getTime() - minutes * 60_000);
    const old = ownerOf(id, { password: "", authTime: ago(11) });
    expect(await codeOf(begin({ name: "other", linkTo: old }))).toBe("reauthentication_required");
    expect(await codeOf(begin({ name: "other", linkTo: { ...old, authTime: ago(9) } }))).toBe("done");
  });

  test("the last way in stays", async () => {
    const id = userIdOf(await flow());
    const owner = ownerOf(id, { password: "" });
    expect(await codeOf(unlinkIdentity(deps, { owner, provider: "demo" }, context()))).toBe(
      "last_credential",
    );
    expect(await codeOf(unlinkIdentity(deps, { owner, provider: "other" }, context()))).toBe("not_found");
    provider.lie({ claims: { sub: "sub-2", email: "x@example.com" } });
    expect((await flow({ name: "other", linkTo: owner })).kind).toBe("linked");
    const both = await Promise.all(
      ["demo", "other"].map((name) => codeOf(unlinkIdentity(deps, { owner, provider: name }, context()))),
    );
    const [done, refused] = both.sort();
    expect(done).toBe("done");
    // The first one's end of the other sessions may come after the second one's proof.
    expect(["invalid_credentials", "last_credential"]).toContain(refused);
    const [left, ...more] = await listIdentities(database.sql, id);
    expect(more).toEqual([]);
    const last = { owner, provider: left?.provider ?? "" };
    expect(await codeOf(unlinkIdentity(deps, last, context()))).toBe("last_credential");
  });

  test("a login that is ended while an account without a password is changed takes nothing away", async () => {
    const id = userIdOf(await flow());
    const owner = ownerOf(id, { password: "" });
    provider.lie({ claims: { sub: "sub-2", email: "x@example.com" } });
    await flow({ name: "other", linkTo: owner });
    let unlinked: Promise<string> | undefined;
    await transaction(database.ownerSql, async (tx) => {
      await tx`update users set session_epoch = session_epoch + 1`;
      unlinked = codeOf(unlinkIdentity(deps, { owner, provider: "demo" }, context()));
      await expect.poll(database.waitingForLocks, { interval: 5 }).toBe(1);
    });
    expect(await unlinked).toBe("invalid_credentials");
    expect(await listIdentities(database.sql, id)).toHaveLength(2);
  });

  test("another user's identity, or a second one of a provider, is not linked", async () => {
    userIdOf(await flow());
    const user = await registered("someone@else.example");
    expect(await flow({ linkTo: ownerOf(user.id) })).toEqual({ kind: "refused", code: "already_linked" });
    provider.lie({ claims: { sub: "sub-2" } });
    expect((await flow({ linkTo: ownerOf(user.id) })).kind).toBe("linked");
    expect(await codeOf(begin({ linkTo: ownerOf(user.id) }))).toBe("already_linked");
  });

  test("ending the user's sessions cancels a linking in progress", async () => {
    const user = await registered("someone@else.example");
    const { authorizationUrl, browserToken } = await begin({ linkTo: ownerOf(user.id) });
    await database.ownerSql`update users set session_epoch = session_epoch + 1`;
    const { result } = await complete(browserToken, provider.authorize(authorizationUrl));
    expect(result).toEqual({ kind: "refused", code: "oauth_failed" });
    expect(await listIdentities(database.sql, user.id)).toEqual([]);
  });

  test("an account that is erased takes its links with it", async () => {
    const id = userIdOf(await flow());
    await flow({ codeChallenge: challengeOf(VERIFIER) });
    await begin({ name: "other", linkTo: ownerOf(id, { password: "" }) });
    await deleteUser(deps, id, asOperator());
    for (const table of ["external_identities", "oauth_codes", "oauth_flows"]) {
      expect(await database.ownerSql`select * from ${database.ownerSql(table)}`, table).toEqual([]);
    }
    expect(userIdOf(await flow())).not.toBe(id);
  });
});

test("an account without a password is an account with a wrong password at the login by password", async () => {
  await flow();
  const attempt = { email: "ada@example.com", password: "", ...from };
  expect(await codeOf(logInWith(deps, attempt, context()))).toBe("invalid_credentials");
  expect(await codeOf(logInWith(deps, { ...attempt, password: PASSWORD }, context()))).toBe(
    "invalid_credentials",
  );
});

test("while a provider hangs, a login by password does not", async () => {
  await registered("someone@else.example");
  useParties(60_000);
  const isOver = Promise.withResolvers<void>();
  provider.lie({ answers: { "/token": (response) => void isOver.promise.then(() => response.destroy()) } });
  const stuck = Promise.all(Array.from({ length: 40 }, () => flow()));
  await expect.poll(tokenRequests).toBeGreaterThan(0);
  const attempt = { email: "someone@else.example", password: PASSWORD, ...from };
  expect(await logInWith(deps, attempt, context())).toMatchObject({
    user: { email: "someone@else.example" },
  });
  // At most 32 are in flight; the others are not started.
  expect(tokenRequests()).toBeLessThanOrEqual(32);
  isOver.resolve();
  expect(new Set((await stuck).map((result) => result.kind === "refused" && result.code))).toEqual(
    new Set(["oauth_failed"]),
  );
});

describe("GitHub", () => {
  const answer = (body: unknown) => (response: ServerResponse) =>
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
  const useGithub = () => {
    const { issuer } = provider;
    const endpoints = {
      authorization: `${issuer}/authorize`,
      token: `${issuer}/token`,
      userinfo: `${issuer}/user`,
    };
    const settings = settingsOf("https://github.com", { protocol: "github", endpoints });
    deps.relyingParties = new Map([["demo", partyOf(settings, 5_000, logLines)]]);
  };
  const token = answer({ access_token: "gho_x", token_type: "bearer", scope: "user:email" });
  async function githubFlow(user: unknown, emails: unknown): Promise<OAuthResult> {
    useGithub();
    provider.lie({ answers: { "/token": token, "/user": answer(user), "/user/emails": answer(emails) } });
    const { authorizationUrl, browserToken } = await begin();
    return (await complete(browserToken, { ...provider.authorize(authorizationUrl), iss: "" })).result;
  }

  test("the account is the number, the address the primary one, proven if GitHub says so", async () => {
    const emails = [
      { email: "old@example.com", primary: false, verified: true },
      { email: "Octo@example.com", primary: true, verified: true },
    ];
    const id = userIdOf(
      await githubFlow({ id: 583231, login: "octocat", name: "Mona Lisa Octocat" }, emails),
    );
    expect(await users()).toMatchObject([
      { id, email: "octo@example.com", email_verified: true, first_name: "Mona", last_name: "Lisa Octocat" },
    ]);
    expect(await database.ownerSql`select issuer, subject from external_identities`).toEqual([
      { issuer: "https://github.com", subject: "583231" },
    ]);
  });

  test.each([
    ["no number", { login: "octocat" }, []],
    ["a number that is text", { id: "583231" }, []],
    ["addresses that are none", { id: 1 }, { message: "Not Found" }],
    ["no primary address", { id: 1 }, [{ email: "a@example.com", primary: false, verified: true }]],
  ])("%s: nobody gets in", async (_name, user, emails) => {
    expect(await githubFlow(user, emails)).toEqual({ kind: "refused", code: "oauth_failed" });
    expect(await users()).toEqual([]);
  });
});

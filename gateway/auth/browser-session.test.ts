import { expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { textWithReferences } from "#tests/support/house/openapi-answers.ts";
import type { OpenApiDocument } from "../openapi/openapi-document.ts";
import { answeringGateway, passkey } from "../testing/answering-gateway.ts";
import {
  completedLogin,
  HOST,
  SESSION_ID,
  send,
  testGateway,
  tokens,
  USER_ID,
} from "../testing/test-gateway.ts";

const OWN = `http://${HOST}`;
const APP = "https://app.example.com";
const NAME = "__Host-gatehouse-refresh";
const KEPT = [
  `${NAME}=refresh.jwt.text; Max-Age=604800; Path=/; HttpOnly; Secure; SameSite=Strict`,
  `${NAME}-hint=1; Max-Age=604800; Path=/; Secure; SameSite=Strict`,
];
const DROPPED = [
  `${NAME}=; Max-Age=0; Path=/; HttpOnly; Secure; SameSite=Strict`,
  `${NAME}-hint=; Max-Age=0; Path=/; Secure; SameSite=Strict`,
];
const browser = { "gatehouse-client": "browser", origin: OWN };

const pair = { ...tokens, refreshExpiresInS: 604_800 };
const { result } = completedLogin();
const completed = { result: { ...result, value: { ...result.value, tokens: pair } } };
const mfaChallenge = {
  result: {
    $case: "mfaChallenge" as const,
    value: { tempToken: "temp", methods: ["totp"], userId: USER_ID, passkeyOptionsJson: "" },
  },
};
const OTHER_SESSION = "0199a000-0000-7000-8000-0000000000ff";

/** Every call that begins or renews a session. */
const WAYS: Record<string, object> = {
  "/auth/login": { email: "ada@example.com", password: "correct horse battery" },
  "/auth/mfa/verify": { tempToken: "temp", code: "123456" },
  "/auth/mfa/enable": { tempToken: "temp", code: "123456" },
  "/auth/login/change-password": { tempToken: "temp", newPassword: "correct horse battery" },
  "/auth/oauth/exchange": { code: "code", codeVerifier: "v".repeat(43) },
  "/auth/passkeys": {
    tempToken: "temp",
    name: "Phone",
    response: {
      id: "AAAA",
      type: "public-key",
      response: { clientDataJSON: "AAAA", attestationObject: "AAAA" },
    },
  },
  "/auth/passkeys/login": {
    challengeToken: "challenge",
    response: {
      id: "AAAA",
      type: "public-key",
      response: { clientDataJSON: "AAAA", authenticatorData: "AAAA", signature: "AAAA" },
    },
  },
};

function gateway(overrides: Parameters<typeof testGateway>[0] = {}) {
  const refreshed: string[] = [];
  const proven: string[] = [];
  const ended: string[] = [];
  const reasons = new Set<string>();
  let unavailable = false;
  let refusal: DomainError | undefined;
  let sessionOfCookie = SESSION_ID;
  const made = testGateway({
    allowedOrigins: new Set([APP]),
    identity: {
      login: async () => completed,
      completeMfaLogin: async () => ({ result: completed, completed: undefined, passwordChange: undefined }),
      changePasswordAtLogin: async () => ({ result: completed, completed: undefined }),
      exchangeOAuthCode: async () => completed,
      completePasskeyLogin: async () => ({ result: completed }),
      completeTotpEnrollmentAtLogin: async () => ({ result: completed, recoveryCodes: ["a"] }),
      completePasskeyRegistrationAtLogin: async () => ({ result: completed, recoveryCodes: ["a"], passkey }),
      endOwnSessions: async () => ({ userId: USER_ID, endedSessionIds: [SESSION_ID] }),
    },
    sessions: {
      refreshSession: async ({ refreshToken }) => {
        refreshed.push(refreshToken);
        if (refusal !== undefined) throw refusal;
        return { tokens: pair };
      },
      proveRefreshToken: async ({ refreshToken }) => {
        proven.push(refreshToken);
        if (refusal !== undefined) throw refusal;
        return { userId: USER_ID, sessionId: sessionOfCookie };
      },
      revokeSession: async ({ sessionId, reason }) => {
        if (unavailable) throw new DomainError("service_unavailable");
        reasons.add(reason);
        return { sequence: ended.push(sessionId) };
      },
    },
    ...overrides,
  });
  const post = (url: string, headers: Record<string, string>, body?: unknown, token?: string) =>
    send(made.app, { method: "POST", url, headers, body, ...(token !== undefined && { token }) });
  return {
    ...made,
    refreshed,
    proven,
    ended,
    reasons,
    post,
    failRevocations: () => {
      unavailable = true;
    },
    refuse: (code: "refresh_token_invalid" | "refresh_token_reused" | "service_unavailable") => {
      refusal = new DomainError(code);
    },
    cookieIsOf: (sessionId: string) => {
      sessionOfCookie = sessionId;
    },
  };
}

const cookie = `${NAME}=kept.jwt.text`;

test.each(Object.entries(WAYS))(
  "%s keeps the refresh token of a browser in a cookie, and out of the JSON",
  async (url, body) => {
    const { post } = gateway();
    for (const path of [url, `/v1${url}`]) {
      const answer = await post(path, browser, body);
      expect([answer.statusCode < 300, answer.headers["set-cookie"]]).toEqual([true, KEPT]);
      expect(answer.body).not.toContain("refresh");
      expect(answer.json().data).toMatchObject({
        accessToken: "access.jwt.text",
        tokenType: "Bearer",
        expiresIn: 900,
        user: { id: USER_ID },
      });
    }
    const plain = await post(url, { origin: OWN }, body);
    expect(plain.headers["set-cookie"]).toBeUndefined();
    expect(plain.json().data).toMatchObject({
      accessToken: "access.jwt.text",
      refreshToken: "refresh.jwt.text",
    });
  },
);

test("every answer of the API that may have a refresh token may have it in a cookie, and no other one", async () => {
  const document = await answeringGateway().document();
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.values(methods).map((operation) => ({ path, operation })),
  );
  const hasHeader = ({ parameters }: OpenApiDocument["paths"][string][string]) =>
    textWithReferences(document, parameters).includes('"Gatehouse-Client"');
  const named = new Set(operations.filter(({ operation }) => hasHeader(operation)).map(({ path }) => path));
  const withTokens = operations
    .filter(({ operation }) => textWithReferences(document, operation.responses).includes('"refreshToken"'))
    .map(({ path }) => path);
  expect(withTokens.sort()).toEqual([...Object.keys(WAYS), "/auth/refresh"].sort());
  expect([...named].sort()).toEqual([...withTokens, "/auth/logout"].sort());
});

test.each([undefined, {}])("a refresh with the body %j uses the cookie and renews it", async (body) => {
  const { post, refreshed } = gateway();
  const answer = await post("/auth/refresh", { ...browser, cookie }, body);
  expect([answer.statusCode, answer.headers["set-cookie"]]).toEqual([200, KEPT]);
  expect(answer.json().data).toEqual({ accessToken: "access.jwt.text", tokenType: "Bearer", expiresIn: 900 });
  expect(refreshed).toEqual(["kept.jwt.text"]);
});

test.each(["refresh_token_invalid", "refresh_token_reused"] as const)(
  "a refresh that is refused as %s ends the cookie",
  async (code) => {
    const { post, refuse } = gateway();
    refuse(code);
    const answer = await post("/auth/refresh", { ...browser, cookie });
    expect([answer.statusCode, answer.json().error.code, answer.headers["set-cookie"]]).toEqual([
      401,
      code,
      DROPPED,
    ]);
    // A token in the body says nothing about a cookie.
    const plain = await post("/auth/refresh", { origin: OWN, cookie }, { refreshToken: "a.b.c" });
    expect([plain.statusCode, plain.headers["set-cookie"]]).toEqual([401, undefined]);
  },
);

test("a refresh that fails for another reason keeps the cookie", async () => {
  const { post, refuse } = gateway();
  refuse("service_unavailable");
  const answer = await post("/auth/refresh", { ...browser, cookie });
  expect([answer.statusCode, answer.headers["set-cookie"]]).toEqual([503, undefined]);
});

test.each(Object.entries(WAYS))(
  "%s ends the session whose cookie it replaces, and says nothing about it",
  async (url, body) => {
    const { post, cookieIsOf, ended, reasons, refused, refuse, entries } = gateway();
    cookieIsOf(OTHER_SESSION);
    const replacing = await post(url, { ...browser, cookie }, body);
    expect([replacing.statusCode < 300, replacing.headers["set-cookie"]]).toEqual([true, KEPT]);
    expect([ended, [...reasons], refused]).toEqual([[OTHER_SESSION], ["replaced"], [OTHER_SESSION]]);
    expect(entries.at(-1)).toMatchObject({ outcome: "success", actor: { sessionId: SESSION_ID } });
    // A cookie that opens nothing changes nothing.
    refuse("refresh_token_invalid");
    for (const planted of ["evil.jwt.text", "garbage", ""]) {
      const answer = await post(url, { ...browser, cookie: `${NAME}=${planted}` }, body);
      expect([answer.statusCode, answer.body]).toEqual([replacing.statusCode, replacing.body]);
      expect(answer.headers["set-cookie"]).toEqual(KEPT);
    }
    expect(ended).toEqual([OTHER_SESSION]);
  },
);

test.each(Object.entries(WAYS))(
  "%s without the header, or with two cookies, ends no other session",
  async (url, body) => {
    const { post, proven, ended } = gateway();
    const two = { ...browser, cookie: `${cookie}; ${NAME}=evil.jwt.text` };
    for (const headers of [{ cookie, origin: OWN }, { cookie }, two])
      expect((await post(url, headers, body)).statusCode).toBeLessThan(300);
    expect([proven, ended]).toEqual([[], []]);
  },
);

test.each([
  ["refused", () => Promise.reject(new DomainError("invalid_credentials")), 401],
  ["answered with a next step", async () => mfaChallenge, 200],
])("a login that is %s ends no other session", async (_what, login, status) => {
  const { post, proven, ended } = gateway({ identity: { login } });
  const answer = await post("/auth/login", { ...browser, cookie }, WAYS["/auth/login"]);
  expect([answer.statusCode, answer.headers["set-cookie"], proven, ended]).toEqual([
    status,
    undefined,
    [],
    [],
  ]);
});

test.each(["proof", "end"])(
  "a login whose replaced session cannot be ended (%s) gives nobody tokens, and its entry says that its end is unknown",
  async (what) => {
    const { post, refuse, failRevocations, entries } = gateway();
    if (what === "proof") refuse("service_unavailable");
    else failRevocations();
    const answer = await post("/auth/login", { ...browser, cookie }, WAYS["/auth/login"]);
    expect([answer.statusCode, answer.json().error.code]).toEqual([503, "service_unavailable"]);
    expect(answer.headers["set-cookie"]).toBeUndefined();
    expect(answer.body).not.toContain("jwt");
    expect(entries.at(-1)).toMatchObject({ action: "auth.login", outcome: "unknown" });
  },
);

test("without the header the cookie alone does nothing", async () => {
  const { post, refreshed, proven, ended, app } = gateway();
  const alone = { cookie, origin: OWN };
  for (const body of [undefined, {}]) {
    expect((await post("/auth/refresh", alone, body)).statusCode).toBe(400);
    expect((await post("/auth/logout", alone, body)).statusCode).toBe(401);
  }
  // Neither is what is in it an access token, even if it could be one.
  for (const held of [cookie, `${NAME}=admin-token`]) {
    for (const url of ["/auth/me", "/auth/sessions", "/admin/users"])
      expect((await send(app, { url, headers: { ...browser, cookie: held } })).statusCode).toBe(401);
  }
  expect([refreshed, proven, ended]).toEqual([[], [], []]);
});

test("a browser without a cookie has no session; where nothing was tried, the audit log has nothing", async () => {
  const { post, refreshed, entries, refuse } = gateway();
  for (const held of [browser, { ...browser, cookie: `${NAME}-hint=1` }]) {
    const answer = await post("/auth/refresh", held);
    expect([answer.statusCode, answer.json().error.code]).toEqual([401, "refresh_token_invalid"]);
    expect(answer.headers["set-cookie"]).toEqual(DROPPED);
  }
  expect((await post("/auth/logout", browser)).json().error.code).toBe("token_missing");
  expect([refreshed, entries]).toEqual([[], []]);
  refuse("refresh_token_invalid");
  for (const tried of [cookie, `${NAME}=`, `${cookie}; ${NAME}=evil.jwt.text`]) {
    await post("/auth/refresh", { ...browser, cookie: tried });
    expect(entries.splice(0)).toMatchObject([
      { kind: "intent", action: "auth.refresh" },
      { kind: "outcome", action: "auth.refresh", outcome: "failure" },
    ]);
  }
});

test.each([
  ["another name", "gatehouse-refresh=kept.jwt.text"],
  ["the prefix in other letters", "__host-gatehouse-refresh=kept.jwt.text"],
  ["the weaker prefix", "__Secure-gatehouse-refresh=kept.jwt.text"],
  // Browsers check the prefix of the name as it was set: this one has none.
  ["a space that only some servers trim", `\u00a0${NAME}=kept.jwt.text`],
  ["an empty value", `${NAME}=`],
])("a cookie with %s is not read", async (_what, header) => {
  const { post, refreshed } = gateway();
  const answer = await post("/auth/refresh", { ...browser, cookie: header });
  expect([answer.statusCode, refreshed]).toEqual([401, []]);
});

test("of two cookies none is used, and neither ends", async () => {
  const { post, refreshed, proven } = gateway();
  for (const planted of [`${NAME}=evil.jwt.text; ${cookie}`, `${cookie};a=b;\t${NAME}=evil.jwt.text`]) {
    for (const url of ["/auth/refresh", "/auth/logout"]) {
      const answer = await post(url, { ...browser, cookie: planted });
      expect([answer.statusCode, answer.headers["set-cookie"]]).toEqual([400, undefined]);
    }
  }
  expect([refreshed, proven]).toEqual([[], []]);
});

test("a refresh token belongs into the cookie or the body, not into both", async () => {
  const { post, refreshed, proven } = gateway();
  for (const url of ["/auth/refresh", "/auth/logout"]) {
    const answer = await post(url, { ...browser, cookie }, { refreshToken: "body.jwt.text" });
    expect([answer.statusCode, answer.json().error.details]).toMatchObject([
      400,
      [{ field: "refreshToken", code: "unknown_key" }],
    ]);
  }
  expect([refreshed, proven]).toEqual([[], []]);
});

test.each(["Browser", "browser, browser", "native", ""])("Gatehouse-Client: %j is refused", async (value) => {
  const { post, refreshed } = gateway();
  const headers = { ...browser, "gatehouse-client": value, cookie };
  for (const [url, body] of [...Object.entries(WAYS), ["/auth/refresh", undefined] as const]) {
    const answer = await post(url, headers, body);
    expect([answer.statusCode, answer.json().error.code]).toEqual([400, "bad_request"]);
    expect(answer.headers["set-cookie"]).toBeUndefined();
  }
  expect(refreshed).toEqual([]);
});

test.each([
  ["its own origin", { origin: OWN }, 200],
  ["a listed one of the same site", { origin: APP, "sec-fetch-site": "same-site" }, 200],
  ["a listed one", { origin: APP }, 200],
  ["a listed one of another site", { origin: APP, "sec-fetch-site": "cross-site" }, 403],
  ["its own host by another scheme", { origin: `https://${HOST}` }, 403],
  ["its own host on another port", { origin: `${OWN}:8443` }, 403],
  ["a sub-domain", { origin: `http://evil.${HOST}`, "sec-fetch-site": "same-site" }, 403],
  ["a stranger", { origin: "https://evil.example" }, 403],
  [
    "a stranger that calls itself the same",
    { origin: "https://evil.example", "sec-fetch-site": "same-origin" },
    403,
  ],
  ["an opaque origin", { origin: "null" }, 403],
  ["an empty origin", { origin: "" }, 403],
  ["no origin, of the same origin", { "sec-fetch-site": "same-origin" }, 200],
  ["no origin, of the same site", { "sec-fetch-site": "same-site" }, 403],
  ["no origin, typed by the user", { "sec-fetch-site": "none" }, 403],
  ["no origin at all", {}, 403],
])("a browser session from %s", async (_who, from: Record<string, string>, status) => {
  const { post, refreshed, ended } = gateway();
  const headers = { "gatehouse-client": "browser", cookie, ...from };
  const codes = [];
  for (const [url, body] of [
    ...Object.entries(WAYS),
    ["/auth/refresh", undefined],
    ["/auth/logout", undefined],
  ] as const) {
    const answer = await post(url, headers, body);
    codes.push(answer.statusCode === 201 ? 200 : answer.statusCode);
    if (status !== 403) continue;
    expect([answer.json().error.code, answer.headers["set-cookie"]]).toEqual([
      "origin_not_allowed",
      undefined,
    ]);
  }
  expect(new Set(codes)).toEqual(new Set([status]));
  // Each login ends what it replaces.
  const logins = Object.keys(WAYS).length;
  expect([refreshed.length, ended.length]).toEqual(status === 200 ? [1, logins + 1] : [0, 0]);
});

test("behind a proxy that speaks HTTPS, the own origin is https, and where all origins may call, none but it", async () => {
  const { post } = gateway({ isTrustedProxy: () => true, allowedOrigins: new Set(["*"]) });
  const from = async (origin: string) => {
    const headers = { ...browser, origin, cookie, "x-forwarded-proto": "https" };
    return (await post("/auth/refresh", headers)).statusCode;
  };
  expect([await from(`https://${HOST}`), await from(OWN), await from(APP), await from("*")]).toEqual([
    200, 403, 403, 403,
  ]);
});

test.each([
  ["session", [SESSION_ID], DROPPED],
  ["others", [], undefined],
  ["all", [], DROPPED],
])("a logout of '%s' by the cookie", async (scope, expected, setCookie) => {
  const { post, ended, proven, refused } = gateway();
  const answer = await post("/auth/logout", { ...browser, cookie }, { scope });
  expect([answer.statusCode, ended, answer.headers["set-cookie"]]).toEqual([200, expected, setCookie]);
  expect(proven).toEqual(["kept.jwt.text"]);
  expect(refused.length).toBeGreaterThan(0);
});

test("a logout by a cookie that is good for nothing more ends the cookie", async () => {
  const { post, refuse, ended } = gateway();
  refuse("refresh_token_invalid");
  const answer = await post("/auth/logout", { ...browser, cookie });
  expect([answer.statusCode, answer.headers["set-cookie"], ended]).toEqual([401, DROPPED, []]);
  // The access token is enough.
  const other = await post("/auth/logout", { ...browser, cookie }, undefined, "user-token");
  expect([other.statusCode, other.headers["set-cookie"], ended]).toEqual([200, DROPPED, [SESSION_ID]]);
});

test("a logout with the access token of one session and the cookie of another ends neither", async () => {
  const { post, cookieIsOf, ended } = gateway();
  cookieIsOf(OTHER_SESSION);
  const answer = await post("/auth/logout", { ...browser, cookie }, undefined, "user-token");
  expect([answer.statusCode, answer.json().error.code]).toEqual([409, "conflict"]);
  expect([answer.headers["set-cookie"], ended]).toEqual([undefined, []]);
  // Without the header the cookie is not there.
  const plain = await post("/auth/logout", { cookie }, undefined, "user-token");
  expect([plain.statusCode, plain.headers["set-cookie"], ended]).toEqual([200, undefined, [SESSION_ID]]);
});

test("a logout with an access token that is not good any more is refused as everywhere", async () => {
  const { post, ended } = gateway();
  const revoked = await post("/auth/logout", { ...browser, cookie }, undefined, "revoked-token");
  expect([revoked.statusCode, revoked.json().error.code, ended]).toEqual([401, "token_invalid", []]);
  // Where it has only expired, the cookie proves the session.
  const expired = await post("/auth/logout", { ...browser, cookie }, undefined, "expired-token");
  expect([expired.statusCode, ended]).toEqual([200, [SESSION_ID]]);
});

test("the token in the cookie is in no log line and in no audit entry", async () => {
  const { post, entries, log } = gateway();
  await post("/auth/refresh", { ...browser, cookie });
  await post("/auth/logout", { ...browser, cookie });
  const written = JSON.stringify(entries) + log();
  expect(written).toContain("auth.refresh");
  expect(written).not.toContain("jwt.text");
});

const preflight = (url: string, names: string, origin = APP) => ({
  method: "OPTIONS" as const,
  url,
  headers: {
    origin,
    "access-control-request-method": "POST",
    "access-control-request-headers": names,
  },
});

test("a listed origin may send the header and cookies to the routes of browser sessions only", async () => {
  const { app } = gateway();
  const asked = "content-type,gatehouse-client";
  for (const url of [...Object.keys(WAYS), "/auth/refresh", "/v1/auth/refresh", "/auth/logout"]) {
    const { headers } = await send(app, preflight(url, asked));
    expect([
      url,
      headers["access-control-allow-headers"],
      headers["access-control-allow-credentials"],
    ]).toEqual([url, asked, "true"]);
  }
  for (const url of ["/auth/me", "/auth/sessions", "/auth/step-up", "/auth/register", "/nothing"]) {
    for (const names of [asked, "Gatehouse-Client", "a, gatehouse-client"]) {
      const { headers } = await send(app, preflight(url, names));
      expect([
        url,
        headers["access-control-allow-headers"],
        headers["access-control-allow-credentials"],
      ]).toEqual([url, undefined, undefined]);
    }
  }
  const other = await send(app, preflight("/auth/me", "authorization"));
  expect(other.headers["access-control-allow-headers"]).toBe("authorization");
  const stranger = await send(app, preflight("/auth/refresh", asked, "https://evil.example"));
  expect(Object.keys(stranger.headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
});

test("credentials are allowed where a cookie is read, and nowhere else", async () => {
  const { app, post } = gateway();
  const allowed = async (url: string, body?: object) =>
    (await post(url, { origin: APP }, body)).headers["access-control-allow-credentials"];
  const email = { email: "ada@example.com" };
  expect([
    await allowed("/auth/login", WAYS["/auth/login"]),
    await allowed("/auth/refresh", { refreshToken: "a.b.c" }),
    await allowed("/auth/forgot-password", email),
    await allowed("/auth/passkeys/login/options", {}),
  ]).toEqual(["true", "true", "true", "true"]);
  const me = await send(app, { url: "/auth/me", token: "user-token", headers: { origin: APP } });
  expect(me.headers["access-control-allow-origin"]).toBe(APP);
  expect(me.headers["access-control-allow-credentials"]).toBeUndefined();
  expect(await allowed("/auth/register", {})).toBeUndefined();
});

test.each([true, false])("with device-bound sessions on: %s, a login offers the binding", async (isOn) => {
  const bound = { ...tokens, refreshExpiresInS: 604_800, deviceChallenge: "0.challenge" };
  const { post } = gateway({
    deviceBoundSessions: isOn,
    identity: { login: async () => ({ result: { ...result, value: { ...result.value, tokens: bound } } }) },
    sessions: {
      proveDevice: async () => ({ sessionId: SESSION_ID, cookie: "", challenge: "1.next", expiresInS: 0 }),
    },
  });
  const login = await post("/auth/login", browser, WAYS["/auth/login"]);
  expect(login.headers["secure-session-registration"]).toBe(
    isOn ? '(ES256);path="/auth/device-session";challenge="0.challenge"' : undefined,
  );
  // Other clients keep their tokens themselves.
  const other = await post("/auth/login", {}, WAYS["/auth/login"]);
  expect(other.headers["secure-session-registration"]).toBe(undefined);
  const path = await post("/auth/device-session", { "sec-secure-session-id": `"${SESSION_ID}"` });
  expect([path.statusCode, path.headers["secure-session-challenge"]]).toEqual(
    isOn ? [403, `"1.next";id="${SESSION_ID}"`] : [405, undefined],
  );
  // The call has no token that could lack a scope.
  expect(path.headers["www-authenticate"]).toBeUndefined();
});

import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addRoutes } from "../../support/house/routes.ts";
import { type Answer, type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { totpApp } from "../../support/people/totp-app.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

const NAME = "__Host-gatehouse-refresh";
const DROPPED = [
  `${NAME}=; Max-Age=0; Path=/; HttpOnly; Secure; SameSite=Strict`,
  `${NAME}-hint=; Max-Age=0; Path=/; Secure; SameSite=Strict`,
];

let system: System;
let api: ApiClient;
let browser: Record<string, string>;
/** Of the same site, and of another one. */
let listed: string[];
/** What the upstream received, by path. */
const received = new Map<string, string | undefined>();
const upstream = createServer((request, response) => {
  received.set(request.url ?? "", request.headers.cookie);
  response.setHeader("set-cookie", [`${NAME}=evil.jwt.text; Path=/; Secure`, "theme=dark"]);
  response.end("{}");
});

beforeAll(async () => {
  system = oneSystem();
  api = apiClient(system.url);
  listed = (system.environment.ALLOWED_ORIGINS ?? "").split(",");
  browser = { "gatehouse-client": "browser", origin: system.url };
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  const { port } = upstream.address() as AddressInfo;
  await addRoutes(
    system,
    `
  - prefix: /cookies
    upstream: http://127.0.0.1:${port}
    methods:
      GET: { roles: [USER] }
`,
  );
});
afterAll(() => upstream.close());

/** As a browser keeps it: the name and the value. */
function cookieIn(answer: Answer): string {
  const lines = answer.headers.getSetCookie().filter((line) => line.startsWith(`${NAME}=`));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(
    /^__Host-gatehouse-refresh=[\w-]+\.[\w-]+\.[\w-]+; Max-Age=\d+; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
  );
  expect(answer.body.data.refreshToken).toBeUndefined();
  expect(answer.body.data.accessToken).toMatch(/^ey/);
  return lines[0]?.split(";")[0] ?? "";
}
const refresh = (cookie: string, headers = browser) =>
  api.post("/auth/refresh", undefined, { headers: { ...headers, cookie } });

async function enter(user: { email: string; password: string }, headers: Record<string, string> = {}) {
  const { email, password } = user;
  const answer = await api.post("/auth/login", { email, password }, { headers: { ...browser, ...headers } });
  expect(answer.status).toBe(200);
  return { cookie: cookieIn(answer), accessToken: answer.body.data.accessToken as string };
}
const isLive = async (token: string) => (await api.get("/auth/me", { token })).status === 200;

/** The session has ended, and so does the cookie. */
async function expectEnded(cookie: string, code = "refresh_token_invalid"): Promise<void> {
  const answer = await refresh(cookie);
  expect([answer.status, answer.body.error.code]).toEqual([401, code]);
  expect(answer.headers.getSetCookie()).toEqual(DROPPED);
}

test("a browser logs in, refreshes for as long as the session lives, and logs out", async () => {
  const user = await api.newUser();
  const { cookie, accessToken } = await enter(user);
  expect(await isLive(accessToken)).toBe(true);
  const answer = await refresh(cookie);
  const next = cookieIn(answer);
  expect(next).not.toBe(cookie);
  const lifetimeS = Number(/Max-Age=(\d+)/.exec(answer.headers.getSetCookie()[0] ?? "")?.[1]);
  expect([lifetimeS > 604_000, lifetimeS <= 604_800]).toEqual([true, true]);
  expect(await isLive(answer.body.data.accessToken)).toBe(true);
  const left = await api.post("/auth/logout", undefined, { headers: { ...browser, cookie: next } });
  expect([left.status, left.headers.getSetCookie()]).toEqual([200, DROPPED]);
  expect(await isLive(answer.body.data.accessToken)).toBe(false);
  await expectEnded(next);
  // The session that the user began elsewhere goes on.
  expect(await isLive(user.accessToken)).toBe(true);
});

test("a cookie that was copied and used ends the session, and both cookies", async () => {
  const { cookie: first } = await enter(await api.newUser());
  const second = cookieIn(await refresh(first));
  const third = cookieIn(await refresh(second));
  await expectEnded(first, "refresh_token_reused");
  await expectEnded(third);
});

function claimsOf(token: string): { sub: string; sid: string } {
  return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
}

test("a second factor, a new factor and a provider's code end in a cookie, too", async () => {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  const { email, password, accessToken: token } = user;
  const { secret } = (await api.post("/auth/mfa/setup", { password }, { token })).body.data;
  const nextCode = totpApp(secret);
  expect((await api.post("/auth/mfa/enable", { code: await nextCode() }, { token })).status).toBe(200);
  const begun = await api.post("/auth/login", { email, password }, { headers: browser });
  expect(begun.headers.getSetCookie().join()).not.toContain(NAME);
  const { tempToken } = begun.body.data;
  // Each of them ends the session that it replaces.
  const former = await enter(await api.newUser());
  const verified = await api.post(
    "/auth/mfa/verify",
    { tempToken, code: await nextCode() },
    { headers: { ...browser, cookie: former.cookie } },
  );
  await expectEnded(former.cookie);
  const cookie = cookieIn(await refresh(cookieIn(verified)));

  const codeVerifier = randomBytes(32).toString("base64url");
  const codeChallenge = createHash("sha256").update(codeVerifier).digest("base64url");
  const landed = await logInAtProvider(codeChallenge);
  const exchanged = await api.post(
    "/auth/oauth/exchange",
    { code: landed.searchParams.get("code"), codeVerifier },
    { headers: { ...browser, cookie } },
  );
  await expectEnded(cookie);
  cookieIn(await refresh(cookieIn(exchanged)));
});

/** @returns where the gateway sends the browser at the end. */
async function logInAtProvider(codeChallenge: string): Promise<URL> {
  const jars = new Map<string, Map<string, string>>();
  const go = async (url: string, method = "GET") => {
    const { origin } = new URL(url);
    const jar = jars.get(origin) ?? new Map<string, string>();
    jars.set(origin, jar);
    const cookie = [...jar].map((pair) => pair.join("=")).join("; ");
    const response = await fetch(url, { method, headers: { cookie }, redirect: "manual" });
    for (const line of response.headers.getSetCookie()) {
      const [pair = ""] = line.split(";");
      jar.set(pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1));
    }
    const location = response.headers.get("location");
    return location === null ? "" : new URL(location, url).href;
  };
  const page = await go(await go(`${system.url}/auth/demo?codeChallenge=${codeChallenge}`));
  await go(page);
  const callback = await go(await go(`${page}/grace`, "POST"));
  return new URL(await go(callback));
}

test("whatever ends the session ends what the cookie opens; a change in the own session does not", async () => {
  const user = await api.newUser();
  const { email, password, accessToken: token } = user;
  const here = await enter(user);
  const newPassword = "another correct horse";
  const there = await enter(user);
  // By this session: it stays, the others go.
  const changed = await api.post(
    "/auth/change-password",
    { currentPassword: password, newPassword },
    { token: here.accessToken },
  );
  expect(changed.status).toBe(200);
  await expectEnded(there.cookie);
  expect(await isLive(token)).toBe(false);
  const kept = cookieIn(await refresh(here.cookie));

  const elsewhere = await api.logIn({ email, password: newPassword });
  expect((await api.post("/auth/logout", { scope: "all" }, { token: elsewhere.accessToken })).status).toBe(
    200,
  );
  await expectEnded(kept);

  const last = await enter({ email, password: newPassword });
  const gone = await api.call("DELETE", "/auth/me", {
    token: last.accessToken,
    body: { password: newPassword },
  });
  expect(gone.status).toBe(200);
  await expectEnded(last.cookie);
});

test("a foreign origin gets no session by any call, and uses none", async () => {
  const user = await api.newUser();
  const { email, password } = user;
  const { cookie, accessToken } = await enter(user);
  const foreign = [
    { origin: "https://evil.example" },
    { origin: "null" },
    { origin: system.url.replace("localhost", "evil.localhost") },
    { origin: listed[1], "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
    {},
  ];
  for (const from of foreign) {
    const headers = { "gatehouse-client": "browser", cookie, ...from } as Record<string, string>;
    for (const [path, body] of [
      ["/auth/login", { email, password }],
      ["/auth/refresh", undefined],
      ["/auth/logout", undefined],
    ] as const) {
      const answer = await api.post(path, body, { headers });
      expect([answer.status, answer.body.error.code]).toEqual([403, "origin_not_allowed"]);
      expect(answer.headers.getSetCookie()).toEqual([]);
    }
  }
  expect(await isLive(accessToken)).toBe(true);
  cookieIn(await refresh(cookie, { "gatehouse-client": "browser", origin: listed[0] ?? "" }));
});

test("the cookie alone does nothing, and the header with another value or a second token neither", async () => {
  const { cookie, accessToken } = await enter(await api.newUser());
  const alone = { cookie, origin: system.url };
  expect((await api.post("/auth/refresh", undefined, { headers: alone })).status).toBe(400);
  expect((await api.post("/auth/refresh", {}, { headers: alone })).status).toBe(400);
  expect((await api.post("/auth/logout", undefined, { headers: alone })).status).toBe(401);
  expect((await api.get("/auth/me", { headers: { ...browser, cookie } })).status).toBe(401);
  const another = { ...browser, cookie, "gatehouse-client": "Browser" };
  expect((await api.post("/auth/refresh", undefined, { headers: another })).status).toBe(400);
  const twice = await api.post(
    "/auth/refresh",
    { refreshToken: "a.b.c" },
    { headers: { ...browser, cookie } },
  );
  expect([twice.status, twice.body.error.code]).toEqual([400, "validation_failed"]);
  expect(await isLive(accessToken)).toBe(true);
  // Nothing was used up.
  cookieIn(await refresh(cookie));
});

test("the access token of another session: a logout ends neither, a refresh is of the cookie's session, other routes see the token", async () => {
  const ada = await api.newUser();
  const mine = await enter(ada);
  const other = await api.newUser();
  const both = { headers: { ...browser, cookie: mine.cookie }, token: other.accessToken };
  const left = await api.post("/auth/logout", undefined, both);
  expect([left.status, left.body.error.code, left.headers.getSetCookie()]).toEqual([409, "conflict", []]);
  expect([await isLive(mine.accessToken), await isLive(other.accessToken)]).toEqual([true, true]);
  const me = await api.get("/auth/me", both);
  expect(me.body.data.user.email).toBe(other.email);
  const refreshed = await api.post("/auth/refresh", undefined, both);
  const token = refreshed.body.data.accessToken as string;
  expect((await api.get("/auth/me", { token })).body.data.user.email).toBe(ada.email);
});

test("a cookie that was planted before the login is replaced, and does not become the user's", async () => {
  const attacker = await enter(await api.newUser());
  const user = await api.newUser();
  const { cookie } = await enter(user, { cookie: attacker.cookie });
  const refreshed = await refresh(cookie);
  const { accessToken: token } = refreshed.body.data;
  expect((await api.get("/auth/me", { token })).body.data.user.email).toBe(user.email);
  // A browser that has both, whatever their order, uses none.
  const current = cookieIn(refreshed);
  for (const both of [`${attacker.cookie}; ${current}`, `${current}; ${attacker.cookie}`]) {
    expect([(await refresh(both)).status, (await refresh(both)).headers.getSetCookie()]).toEqual([400, []]);
  }
  cookieIn(await refresh(current));
});

test("a login ends the session whose cookie it replaces, at once, and the audit log of its owner says so", async () => {
  const ada = await api.newUser();
  const former = await enter(ada);
  const grace = await api.newUser();
  const present = await enter(grace, { cookie: former.cookie });
  expect([await isLive(former.accessToken), await isLive(present.accessToken)]).toEqual([false, true]);
  await expectEnded(former.cookie);
  // Other sessions of both go on.
  expect([await isLive(ada.accessToken), await isLive(grace.accessToken)]).toEqual([true, true]);
  const { sub: userId, sid: sessionId } = claimsOf(former.accessToken);
  const { accessToken: token } = await api.logIn(ADMIN);
  const events = async () => {
    const { entries } = (await api.get(`/admin/audit?resource=${sessionId}`, { token })).body.data;
    return (entries as { kind: string }[]).filter(({ kind }) => kind === "event");
  };
  await expect.poll(events, { timeout: 30_000 }).toEqual([
    expect.objectContaining({
      action: "session.revoked",
      reason: "replaced",
      outcome: "success",
      actor: { userId, sessionId },
    }),
  ]);
});

test("a cookie that proves nothing any more, a login that fails, one of a stranger and one without the header end no session", async () => {
  const user = await api.newUser();
  const { email, password } = user;
  const first = await enter(user);
  const second = cookieIn(await refresh(first.cookie));
  const present = cookieIn(await refresh(second));
  // Two generations old: whoever copied it must not end the session by a login of their own.
  const stranger = await api.newUser();
  await enter(stranger, { cookie: first.cookie });
  for (const planted of ["evil.jwt.text", "garbage", present.slice(NAME.length + 1, -4)])
    await enter(stranger, { cookie: `${NAME}=${planted}` });
  const logIn = (body: object, headers: Record<string, string>) =>
    api.post("/auth/login", body, { headers: { cookie: present, ...headers } });
  expect((await logIn({ email, password: "wrong" }, browser)).status).toBe(401);
  const evil = { ...browser, origin: "https://evil.example" };
  expect((await logIn({ email, password }, evil)).status).toBe(403);
  expect((await logIn({ email, password }, { origin: system.url })).status).toBe(200);
  expect(await isLive(first.accessToken)).toBe(true);
  cookieIn(await refresh(present));
});

test("a cookie that a sub-domain can set is not read", async () => {
  const { cookie } = await enter(await api.newUser());
  const value = cookie.slice(NAME.length + 1);
  for (const name of [
    "gatehouse-refresh",
    "__Secure-gatehouse-refresh",
    "__host-gatehouse-refresh",
    `\u00a0${NAME}`,
  ]) {
    const answer = await refresh(`${name}=${value}`);
    expect([answer.status, answer.body.error.code]).toEqual([401, "refresh_token_invalid"]);
  }
  cookieIn(await refresh(cookie));
});

test("an upstream neither sees the cookie nor sets it", async () => {
  const { cookie, accessToken: token } = await enter(await api.newUser());
  const headers = { cookie: `theme=light; ${cookie}; gatehouse_device=1.a.b.c`, origin: system.url };
  const answer = await api.get("/cookies/seen", { token, headers });
  expect([answer.status, received.get("/cookies/seen")]).toEqual([200, "theme=light"]);
  expect(answer.headers.getSetCookie()).toEqual(["theme=dark; Path=/cookies"]);
  await api.get("/cookies/alone", { token, headers: { cookie } });
  expect(received.get("/cookies/alone")).toBeUndefined();
});

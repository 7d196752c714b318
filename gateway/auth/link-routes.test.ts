import { createHash } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import type { Backends } from "../backends/backends.ts";
import { LINK_PAGES } from "../edge/answers/link-pages.ts";
import { ada, send, testGateway, USER_ID } from "../testing/test-gateway.ts";

const TOKEN = "t".repeat(43);
const ended = { userId: USER_ID, endedSessionIds: ["s1"] };
const PAGES = [
  "verify-email",
  "disown-account",
  "reset-password",
  "confirm-email-change",
  "undo-email-change",
  "undo-access-change",
] as const;
const BROWSER = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
const FORM = { ...BROWSER, "content-type": "application/x-www-form-urlencoded" };

function withAccounts(accounts: Partial<Backends["identity"]> = {}) {
  return testGateway({
    identity: {
      verifyEmail: async () => ({ user: ada }),
      disownAccount: async () => ended,
      resetPassword: async () => ended,
      confirmEmailChange: async () => ({ user: ada, endedSessionIds: [] }),
      undoAccessChange: async () => ended,
      undoEmailChange: async () => ended,
      ...accounts,
    },
  });
}

const fieldsOf = (page: string) =>
  page === "reset-password" ? { token: TOKEN, newPassword: "another horse" } : { token: TOKEN };

test.each(PAGES)("opening %s shows a form and uses nothing up, as often as a scanner likes", async (page) => {
  // Without accounts: whoever asked one would fail.
  const { app, entries } = testGateway();
  for (const prefix of ["", "/v1"]) {
    for (const method of ["GET", "HEAD"] as const) {
      const url = `${prefix}/auth/${page}?token=${TOKEN}&utm_source=mail`;
      const response = await send(app, { method, url, headers: BROWSER });
      expect(response.statusCode).toBe(200);
      expect(response.headers).toMatchObject({
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
      });
      if (method === "HEAD") continue;
      expect(response.body).toContain(`<form method="post" action="/auth/${page}">`);
      expect(response.body).toContain(`<input type="hidden" name="token" value="${TOKEN}">`);
    }
  }
  expect(entries).toEqual([]);
});

test("a check names the address that a link confirms, and asks for nothing but what its purpose is", async () => {
  const asked: unknown[] = [];
  const { app, entries } = withAccounts({
    checkLink: async (request) => {
      asked.push(request);
      return { email: request.purpose === "verify_email" ? ada.email : "", isVouched: false };
    },
  });
  const check = async (link: string) => {
    const response = await send(app, { method: "POST", url: "/auth/links", body: { link, token: TOKEN } });
    return [response.statusCode, response.json().data];
  };
  expect(await check("verify-email")).toEqual([200, { email: ada.email, isVouched: false }]);
  expect(await check("reset-password")).toEqual([200, { isVouched: false }]);
  expect((await check("disown-account"))[0]).toBe(400);
  expect(asked).toEqual([
    { purpose: "verify_email", token: TOKEN },
    { purpose: "reset_password", token: TOKEN },
  ]);
  expect(entries).toEqual([]);
});

test("a page has one style, whose hash its policy names, and no script", async () => {
  const { app } = withAccounts();
  const { body, headers } = await send(app, { url: `/auth/reset-password?token=${TOKEN}` });
  const style = /<style>(.*)<\/style>/s.exec(body)?.[1] ?? "";
  const hash = createHash("sha256").update(style).digest("base64");
  expect(headers["content-security-policy"]).toBe(
    `default-src 'none'; style-src 'sha256-${hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  );
  expect(body).not.toMatch(/<script|\son\w+=|style="/);
  expect(body).toContain('<html lang="en">');
  expect(body).toContain('<label for="new-password">');
  expect(body).toMatch(/<input id="new-password"[^>]* autocomplete="new-password" required/);
});

test("every page names the operator, and the way to its support if there is one", async () => {
  const brand = { name: "Müller & Söhne", style: "", support: 'https://shop.example/help?a="b&c=$&' };
  const pageOf = async (app: ReturnType<typeof testGateway>["app"], query: string) =>
    (await send(app, { url: `/auth/reset-password${query}`, headers: BROWSER })).body;
  const { app } = testGateway({ brand });
  for (const query of [`?token=${TOKEN}`, ""]) {
    const page = await pageOf(app, query);
    expect(page).toMatch(/<title>[^<]+ – Müller &amp; Söhne<\/title>/);
    expect(page).toContain("<header>Müller &amp; Söhne</header>");
    expect(page).toContain('<a href="https://shop.example/help?a=&quot;b&amp;c=$&amp;">Support</a>');
  }
  expect(await pageOf(testGateway().app, `?token=${TOKEN}`)).not.toContain("Support");
});

test("what a link carries is text on its page, never markup", async () => {
  const { app } = withAccounts();
  const evil = `"><script>alert(1)</script>`;
  const { body } = await send(app, { url: `/auth/verify-email?token=${encodeURIComponent(evil)}` });
  expect(body).toContain("&quot;&gt;&lt;script&gt;");
  expect(body).not.toContain("<script");
});

test.each(PAGES)("the form of %s uses the link and shows what came of it", async (page) => {
  const { app, entries } = withAccounts();
  const body = new URLSearchParams(fieldsOf(page)).toString();
  const response = await send(app, { method: "POST", url: `/auth/${page}`, body, headers: FORM });
  expect([response.statusCode, response.headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
  expect(response.headers["cache-control"]).toBe("no-store");
  expect(response.body).toContain('role="status"');
  expect(response.body).not.toContain(TOKEN);
  const action = `auth.${page.replaceAll("-", "_")}`;
  expect(entries.at(-1)).toMatchObject({
    kind: "outcome",
    action,
    actor: { userId: USER_ID },
    outcome: "success",
  });
});

test.each(PAGES)("%s in JSON is answered in JSON", async (page) => {
  const { app, refused } = withAccounts();
  const response = await send(app, {
    method: "POST",
    url: `/auth/${page}`,
    body: fieldsOf(page),
    headers: BROWSER,
  });
  expect(response.json()).toMatchObject({ success: true });
  const isUser = page === "verify-email" || page === "confirm-email-change";
  expect(Object.keys(response.json().data)).toEqual(isUser ? ["user"] : []);
  expect(refused).toEqual(isUser ? [] : ["s1"]);
});

test.each([
  ["verify-email", "verifyEmail", "verification_token_invalid"],
  ["reset-password", "resetPassword", "reset_token_invalid"],
] as const)("a used link of %s is 400, in JSON and as a page", async (page, method, code) => {
  const { app } = withAccounts({ [method]: () => Promise.reject(new DomainError(code)) });
  const call = { method: "POST", url: `/auth/${page}` } as const;
  const json = await send(app, { ...call, body: fieldsOf(page) });
  expect([json.statusCode, json.json().error.code]).toEqual([400, code]);
  const body = new URLSearchParams(fieldsOf(page)).toString();
  const html = await send(app, { ...call, body, headers: FORM });
  expect([html.statusCode, html.headers["content-type"]]).toEqual([400, "text/html; charset=utf-8"]);
  expect(html.body).toContain("no longer valid");
  expect(html.body).not.toContain(TOKEN);
});

test.each([
  [new DomainError("password_too_short", "The password must have at least 8 characters"), 400, "at least 8"],
  [new DomainError("password_too_common"), 400, "most common"],
  [new DomainError("service_unavailable", "token-service.internal is away"), 503, "temporarily unavailable"],
])("a refused password shows the form again, with the reason: %s", async (error, status, text) => {
  const { app } = withAccounts({ resetPassword: () => Promise.reject(error) });
  const body = new URLSearchParams(fieldsOf("reset-password")).toString();
  const response = await send(app, { method: "POST", url: "/auth/reset-password", body, headers: FORM });
  expect(response.statusCode).toBe(status);
  expect(response.body).toMatch(new RegExp(`role="alert"[^<]*${text}`));
  expect(response.body).toContain(`value="${TOKEN}"`);
  expect(response.body).not.toContain("another horse");
  expect(response.body).not.toContain("internal");
});

test("an empty password is reported on the page", async () => {
  const { app } = withAccounts();
  const body = `token=${TOKEN}&newPassword=`;
  const response = await send(app, { method: "POST", url: "/auth/reset-password", body, headers: FORM });
  expect([response.statusCode, response.body.includes('role="alert"')]).toEqual([400, true]);
});

test("a link without its token is a page for a browser and JSON for others", async () => {
  const { app } = withAccounts();
  const page = await send(app, { url: "/auth/verify-email", headers: BROWSER });
  expect([page.statusCode, page.body.includes("not complete")]).toEqual([400, true]);
  const json = await send(app, { url: "/auth/verify-email" });
  expect(json.json().error).toMatchObject({ code: "validation_failed", details: [{ field: "token" }] });
});

test.each([
  ["a parameter twice", `token=${TOKEN}&token=${TOKEN}`, 400],
  ["an unknown parameter", `token=${TOKEN}&admin=1`, 400],
])("a form with %s is refused", async (_what, body, status) => {
  const { app } = withAccounts();
  const response = await send(app, { method: "POST", url: "/auth/verify-email", body, headers: FORM });
  expect(response.statusCode).toBe(status);
});

test("no other own route reads forms", async () => {
  const { app } = withAccounts();
  for (const url of ["/auth/forgot-password", "/auth/login", "/auth/register"]) {
    const response = await send(app, { method: "POST", url, body: "email=a%40b.co", headers: FORM });
    expect(response.statusCode).toBe(415);
  }
});

test("neither log nor audit entry has a link's token", async () => {
  const gateway = withAccounts({
    resetPassword: () => Promise.reject(new DomainError("reset_token_invalid")),
    verifyEmail: () => Promise.reject(new Error("a defect")),
  });
  for (const page of PAGES) {
    await send(gateway.app, { url: `/auth/${page}?token=${TOKEN}`, headers: BROWSER });
    await send(gateway.app, { method: "POST", url: `/auth/${page}`, body: fieldsOf(page) });
    const form = new URLSearchParams(fieldsOf(page)).toString();
    await send(gateway.app, { method: "POST", url: `/auth/${page}`, body: form, headers: FORM });
    await send(gateway.app, { url: `/auth/${page}/x?token=${TOKEN}`, headers: BROWSER });
    await send(gateway.app, { method: "POST", url: `/auth/${page}?token=${TOKEN}`, body: {} });
  }
  expect(gateway.log()).toContain("/auth/reset-password");
  expect(gateway.log() + JSON.stringify(gateway.entries)).not.toContain(TOKEN);
});

describe.each([
  ["verify-email", "verifyEmail"],
  ["confirm-email-change", "confirmEmailChange"],
] as const)("what comes along with the link of %s", (page, method) => {
  const use = async (body: object, headers: Record<string, string> = {}) => {
    const client = vi.fn(async () => ({ user: ada, endedSessionIds: [] }));
    const { app } = withAccounts({ [method]: client });
    const response = await send(app, { method: "POST", url: `/auth/${page}`, body, headers });
    const link = client.mock.lastCall as unknown as [object] | undefined;
    return { status: response.statusCode, code: response.json().error?.code, link: link?.[0] };
  };
  const nothing = { token: TOKEN, password: "", sessionUserId: "", clientIp: "127.0.0.1" };

  test.each([
    ["nothing", {}, {}, {}],
    ["a password", { password: "correct horse" }, {}, { password: "correct horse" }],
    ["an empty field of the form", { password: "" }, {}, {}],
    ["a session", {}, { authorization: "Bearer user-token" }, { sessionUserId: USER_ID }],
  ])("%s is passed on", async (_what, body, headers, proof) => {
    const used = await use({ token: TOKEN, ...body }, headers);
    expect(used).toEqual({ status: 200, code: undefined, link: { ...nothing, ...proof } });
  });

  test.each(["Bearer revoked-token", "Bearer expired-token", "Bearer unknown", "Bearer", "Basic YTpi", ""])(
    "%j is refused, not overlooked",
    async (authorization) => {
      const used = await use({ token: TOKEN, password: "correct horse" }, { authorization });
      expect(used).toEqual({ status: 401, code: "invalid_credentials", link: undefined });
    },
  );
});

test("the page of a verification asks for the password, and lets its reader disown the account", async () => {
  const { app } = withAccounts();
  const { body } = await send(app, { url: `/auth/verify-email?token=${TOKEN}` });
  const [, password = ""] = /<input id="password"([^>]*)>/.exec(body) ?? [];
  expect(password).toContain('autocomplete="current-password"');
  expect(password).not.toContain("required");
  expect(body).toContain('<label for="password">');
  expect(body).toContain('<form method="post" action="/auth/disown-account">');
  const confirm = await send(app, { url: `/auth/confirm-email-change?token=${TOKEN}` });
  expect(confirm.body).toContain("Password of your account (leave it empty if support sent the link)");
  expect(confirm.body).not.toContain("required");
});

test("sessions that a change of address ends are refused at once", async () => {
  const gateway = withAccounts({
    confirmEmailChange: async () => ({ user: ada, endedSessionIds: ["s1"] }),
  });
  await send(gateway.app, { method: "POST", url: "/auth/confirm-email-change", body: { token: TOKEN } });
  expect(gateway.refused).toEqual(["s1"]);
});

test("a wrong password shows the form of the page again", async () => {
  const { app } = withAccounts({
    confirmEmailChange: () => Promise.reject(new DomainError("invalid_credentials")),
  });
  const body = `token=${TOKEN}&password=wrong+horse`;
  const response = await send(app, {
    method: "POST",
    url: "/auth/confirm-email-change",
    body,
    headers: FORM,
  });
  expect(response.statusCode).toBe(401);
  expect(response.body).toContain('role="alert"');
  expect(response.body).toContain(`value="${TOKEN}"`);
  expect(response.body).not.toContain("wrong horse");
});

test("where the portal is served, a browser is sent to its page, with the token where no server sees it", async () => {
  const portal = { path: "/account", document: "<!doctype html>", files: new Map() };
  const { app } = testGateway({ webPages: [portal] });
  for (const page of Object.keys(LINK_PAGES)) {
    const url = `/auth/${page}?token=a-b%2B%23_1&utm_source=mail`;
    const sent = await send(app, { url, headers: BROWSER });
    expect([sent.statusCode, sent.headers.location]).toEqual([303, `/account/${page}#token=a-b%2B%23_1`]);
    expect(sent.headers["cache-control"]).toBe("no-store");
    // Without a browser, and without the portal, the page stands on its own.
    expect((await send(app, { url })).body).toContain('name="token"');
  }
});

import { createHash, randomBytes } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import { type PlainBrowser, plainBrowser } from "../../support/browser/plain-browser.ts";
import { type ApiClient, apiClient, patientFetch } from "../../support/people/api-client.ts";
import { expectOneUse } from "../../support/people/expect-one-use.ts";
import { startHostileProvider } from "../../support/people/hostile-provider.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, readLog, type System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;

beforeAll(() => {
  system = oneSystem();
  api = apiClient(system.url);
});

/** From the provider's page to where the callback sends the browser. */
async function choose(browser: PlainBrowser, user: string, start: string): Promise<string> {
  const page = (await browser(start)).next;
  expect(new URL(page).pathname).toMatch(/^\/login\//);
  await browser(page);
  const resumed = (await browser(`${page}/${user}`, "POST")).next;
  const callback = (await browser(resumed)).next;
  expect(callback).toMatch(`${system.url}/auth/demo/callback?`);
  return callback;
}

async function logIn(browser: PlainBrowser, user: string, query = ""): Promise<URL> {
  const departure = await browser(`${system.url}/auth/demo${query}`);
  expect(departure.response.status).toBe(302);
  return new URL((await browser(await choose(browser, user, departure.next))).next);
}
const fragmentOf = ({ hash }: URL) => new URLSearchParams(hash.slice(1));
const pageUrl = () => `http://127.0.0.1:${system.ports.DEMO_PROVIDER_PORT}/signed-in`;

describe("over plain HTTP", () => {
  test("the demo provider is on the list, a login there gives a session, and the audit log has it", async () => {
    const listed = await api.get("/auth/providers");
    expect(listed.body.data).toEqual({ providers: [{ name: "demo", displayName: "Demo" }] });

    const browser = plainBrowser();
    const departure = await browser(`${system.url}/auth/demo`);
    const callback = await choose(browser, "grace", departure.next);
    const answer = await browser(callback);
    const landed = new URL(answer.next);
    expect(landed.origin + landed.pathname).toBe(pageUrl());
    expect(answer.response.headers.get("referrer-policy")).toBe("no-referrer");
    const token = fragmentOf(landed).get("accessToken") ?? "";
    const me = await api.get("/auth/me", { token });
    expect(me.body.data.user).toMatchObject({
      email: "grace@demo.example",
      firstName: "Grace",
      emailVerified: true,
      role: "USER",
    });
    const identities = await api.get("/auth/me/identities", { token });
    expect(identities.body.data.identities).toMatchObject([
      { provider: "demo", email: "grace@demo.example" },
    ]);
    const refreshed = await api.post("/auth/refresh", {
      refreshToken: fragmentOf(landed).get("refreshToken"),
    });
    expect(refreshed.status).toBe(200);

    const again = await browser(callback);
    expect(again.response.status).toBe(400);
    const { accessToken: admin } = await api.logIn(ADMIN);
    const requestId = answer.response.headers.get("x-request-id");
    const audited = async () => {
      const { body } = await api.get(`/admin/audit?requestId=${requestId}`, { token: admin });
      return body.data.entries.length;
    };
    // The call's intent and outcome, the new account and its identity.
    await expect.poll(audited).toBe(4);
    for (const name of ["gateway", "identity-service", "token-service", "audit-service"]) {
      const log = await readLog(system, name);
      const { searchParams } = new URL(callback);
      for (const secret of [token, searchParams.get("code") ?? "?", searchParams.get("state") ?? "?"]) {
        expect(log, name).not.toContain(secret);
      }
    }
  });

  test("with a challenge there is a code, good once and for its verifier", async () => {
    const codeVerifier = randomBytes(32).toString("base64url");
    const codeChallenge = createHash("sha256").update(codeVerifier).digest("base64url");
    const landed = await logIn(plainBrowser(), "grace", `?codeChallenge=${codeChallenge}`);
    expect(landed.hash).toBe("");
    const code = landed.searchParams.get("code");
    const impatient = apiClient(system.url, { isPatient: false });
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => impatient.post("/auth/oauth/exchange", { code, codeVerifier })),
    );
    expectOneUse(answers, 200);
    for (const { status, body } of answers) {
      if (status === 200) expect(body.data.user.email).toBe("grace@demo.example");
      else if (status !== 503) expect(body.error.code).toBe("oauth_code_invalid");
    }
  });

  test("fifty callbacks at once: one session", async () => {
    const browser = plainBrowser(fetch);
    const callback = await choose(browser, "grace", (await browser(`${system.url}/auth/demo`)).next);
    const answers = await Promise.all(
      Array.from({ length: 50 }, async () => (await browser(callback)).response),
    );
    expectOneUse(answers, 302);
    for (const { status } of answers) expect([302, 400, 503]).toContain(status);
  });

  test("who declines comes back with a fixed code", async () => {
    expect((await logIn(plainBrowser(), "nobody")).hash).toBe("#error=oauth_denied");
  });

  test("another browser cannot end the login", async () => {
    const browser = plainBrowser();
    const callback = await choose(browser, "grace", (await browser(`${system.url}/auth/demo`)).next);
    const stranger = await plainBrowser()(callback);
    expect(stranger.response.status).toBe(400);
    expect(await stranger.response.json()).toMatchObject({ error: { code: "oauth_state_invalid" } });
    expect((await browser(callback)).response.status).toBe(302);
  });

  test("an address that has an account is linked by its owner only, who then logs in with it, and unlinks it", async () => {
    const owner = { email: "alan@demo.example", password: "correct horse battery" };
    await api.post("/auth/register", { ...owner, firstName: "Alan", lastName: "Turing" });
    expect((await logIn(plainBrowser(), "alan")).hash).toBe("#error=link_required");

    const { accessToken: token, user } = await api.logIn(owner);
    const path = "/auth/me/identities/demo";
    expect((await api.post(path, { password: owner.password }, { token })).body.error.code).toBe(
      "email_not_verified",
    );
    await proveAddress(system, api, owner);
    expect((await api.post(path, {}, { token })).body.error.code).toBe("reauthentication_required");
    const linking = await api.post(path, { password: owner.password }, { token });
    const cookie = linking.headers.get("set-cookie")?.split(";")[0] ?? "";
    const browser = plainBrowser();
    const callback = await choose(browser, "alan", linking.body.data.url);
    const linked = await patientFetch(callback, { headers: { cookie }, redirect: "manual" });
    expect(linked.headers.get("location")).toBe(`${pageUrl()}#linked=demo`);

    const accessToken = fragmentOf(await logIn(plainBrowser(), "alan")).get("accessToken") ?? "";
    const me = await api.get("/auth/me", { token: accessToken });
    expect(me.body.data.user.id).toBe(user.id);
    const removed = await api.call("DELETE", path, { token, body: { password: owner.password } });
    expect(removed.status).toBe(200);
    expect((await api.get("/auth/me", { token: accessToken })).status).toBe(401);
    expect((await api.get("/auth/me", { token })).status).toBe(200);
  });

  test("sixty callbacks with random states are refused, each for itself", async () => {
    // No more than the limit of an address leaves room for: gateway/edge/rate-limits.test.ts has what comes beyond.
    const handle = () => randomBytes(32).toString("base64url");
    for (let round = 0; round < 60; round += 1) {
      const answer = await api.get(`/auth/demo/callback?code=c&state=${handle()}`, {
        headers: { cookie: `gatehouse_oauth=${handle()}` },
      });
      expect(answer.body.error.code).toBe("oauth_state_invalid");
    }
  });
});

describe.skipIf(CHROMIUM === undefined)("in Chromium", () => {
  let chrome: Browser;
  beforeAll(async () => {
    chrome = await launchChromium();
  });
  afterAll(() => chrome?.close());

  test("two clicks log one in, and the tokens are out of the address again", async () => {
    const page = await (await chrome.newContext()).newPage();
    const problems: string[] = [];
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    await page.goto(`${system.url}/auth/demo`);
    await page.getByRole("button", { name: "Grace Hopper" }).click();
    await page.getByRole("heading", { name: "You are logged in" }).waitFor();
    expect(page.url()).toBe(pageUrl());
    expect(await page.locator("dl").innerText()).toContain("fed");

    await page.getByRole("link", { name: "Log in again" }).click();
    await page.getByRole("button", { name: "Nobody" }).click();
    await page.getByRole("heading", { name: "The login did not work" }).waitFor();
    expect(await page.locator("dd").innerText()).toBe("oauth_denied");
    expect(problems).toEqual([]);
  });

  test("a callback that somebody else began shows a page that says so", async () => {
    const browser = plainBrowser();
    const callback = await choose(browser, "grace", (await browser(`${system.url}/auth/demo`)).next);
    const page = await (await chrome.newContext()).newPage();
    const response = await page.goto(callback);
    expect(response?.status()).toBe(400);
    await page.getByRole("heading", { name: "This login is over" }).waitFor();
  });
});

describe("the providers file of the home", () => {
  test("a change is used by the running system, a wrong one changes nothing, and a login in progress goes on", async () => {
    const path = join(system.home, "providers.yaml");
    const kept = await readFile(path, "utf8");
    const listed = async () => (await api.get("/auth/providers")).body.data.providers;
    try {
      const browser = plainBrowser();
      const departure = await browser(`${system.url}/auth/demo`);
      const more = kept.replace("displayName: Demo", "displayName: Demonstration");
      const second = more.slice(more.indexOf("  - name: demo")).replace("name: demo", "name: second");
      await writeFile(path, more + second);
      await expect.poll(listed).toEqual([
        { name: "demo", displayName: "Demonstration" },
        { name: "second", displayName: "Demonstration" },
      ]);
      const landed = await browser(await choose(browser, "grace", departure.next));
      expect(fragmentOf(new URL(landed.next)).get("accessToken")).toMatch(/^ey/);
      expect((await browser(`${system.url}/auth/second`)).response.status).toBe(302);

      await writeFile(path, `${more + second}nonsense: true\n`);
      await expect
        .poll(() => readLog(system, "identity-service"))
        .toContain("the providers file has changed and cannot be used");
      expect(await readLog(system, "identity-service")).toContain("nonsense: is not known");
      expect(await listed()).toHaveLength(2);
    } finally {
      await writeFile(path, kept);
    }
    await expect.poll(listed).toEqual([{ name: "demo", displayName: "Demo" }]);
  });

  test("a security event of the provider ends the sessions here, once, and says so in the log", async () => {
    const path = join(system.home, "providers.yaml");
    const kept = await readFile(path, "utf8");
    const transmitter = await startHostileProvider();
    const issuer = `http://127.0.0.1:${system.ports.DEMO_PROVIDER_PORT}`;
    const about = { sub_id: { format: "iss_sub", iss: issuer, sub: "grace" } };
    const push = async (event: string) => {
      const headers = { "content-type": "application/secevent+jwt" };
      return (await api.call("POST", "/auth/demo/events", { body: event, headers })).status;
    };
    const logInAsGrace = async () => {
      const landed = fragmentOf(await logIn(plainBrowser(), "grace"));
      return { token: landed.get("accessToken") ?? "", refreshToken: landed.get("refreshToken") ?? "" };
    };
    const statusOf = async (token: string) => (await api.get("/auth/me", { token })).status;
    try {
      const event = await transmitter.securityEvent({ claims: about });
      expect(await push(event)).toBe(404);
      const taken = `{ audience: gatehouse, issuer: "${transmitter.issuer}", jwks: "${transmitter.issuer}/jwks" }`;
      await writeFile(path, `${kept.trimEnd()}\n    securityEvents: ${taken}\n`);
      const [here, elsewhere] = [await logInAsGrace(), await logInAsGrace()];
      expect(await statusOf(here.token)).toBe(200);
      await expect.poll(() => push(event)).toBe(202);
      for (const { token, refreshToken } of [here, elsewhere]) {
        expect(await statusOf(token)).toBe(401);
        expect((await api.post("/auth/refresh", { refreshToken })).status).toBe(401);
      }
      const later = await logInAsGrace();
      expect(await push(event)).toBe(202);
      expect(await statusOf(later.token)).toBe(200);
      const wrong = await transmitter.securityEvent({ claims: { ...about, aud: "another" } });
      const headers = { "content-type": "application/secevent+jwt" };
      const refused = await api.call("POST", "/auth/demo/events", { body: wrong, headers });
      expect([refused.status, refused.body]).toEqual([
        400,
        { err: "invalid_audience", description: "aud does not contain the configured audience" },
      ]);
      const { accessToken: admin } = await api.logIn(ADMIN);
      const reasons = async () => {
        const { body } = await api.get("/admin/audit?action=user.sessions_ended", { token: admin });
        return body.data.entries.map(({ reason }: { reason: string }) => reason);
      };
      await expect.poll(reasons).toContain("demo: session_revoked");
    } finally {
      await writeFile(path, kept);
      transmitter.close();
    }
  });
});

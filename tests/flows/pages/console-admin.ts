import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  expectSound,
  heading,
  seriousProblems,
  shownAtTop,
  type Watched,
  watch,
} from "../../support/browser/portal.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { requestToken } from "../../support/people/machine-client.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

const ROOMS = ["users", "clients", "clients/new", "webhooks", "webhooks/new", "roles", "system"];

let system: System;
let origin: string;
let api: ApiClient;
let browser: Browser;
let context: BrowserContext;
let page: Page;
let watched: Watched;
/** An administrator has three sessions at most: this one, the page's, and a test's own. */
let token: string;
let grace: { email: string; accessToken: string; user: { id: string } };
/** The pages of one account each. */
let accounts: string[];

/** An answer in the gateway's place. */
function refusal(status: number, code: string) {
  const headers = { "gatehouse-answer": "gateway", "retry-after": "1" };
  return { status, headers, json: { error: { code } } };
}

describe.skipIf(CHROMIUM === undefined)("an administrator in the console", () => {
  beforeAll(async () => {
    system = oneSystem();
    origin = `http://localhost:${system.ports.GATEWAY_PORT}`;
    api = apiClient(system.url);
    grace = await api.newUser();
    token = (await api.logIn(ADMIN)).accessToken;
    browser = await launchChromium();
    context = await browser.newContext({ locale: "en-GB", viewport: { width: 1200, height: 900 } });
    watched = await watch(context, origin);
    page = await context.newPage();
    await page.goto(`${origin}/console/users`);
    await page.getByLabel("E-mail address").fill(ADMIN.email);
    await page.getByLabel("Password", { exact: true }).fill(ADMIN.password);
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await heading(page, "Users").waitFor();
  });
  afterAll(() => browser?.close());

  test("a client is made, and its secret, which is shown once, gets a token", async () => {
    await page.getByRole("link", { name: "Clients" }).click();
    await page.getByRole("link", { name: "New client" }).click();
    await page.getByLabel("Name").fill("Shop of Grace");
    await page.getByLabel("Owner’s e-mail address").fill("nobody@example.com");
    await page.getByLabel("Reason").fill("Ticket 4720");
    await page.getByRole("button", { name: "Create the client" }).click();
    await page.getByText("Choose at least one.").waitFor();
    await page.getByLabel("payments:read").check();
    await page.getByRole("button", { name: "Create the client" }).click();
    await page.getByText("There is no active account with this address.").waitFor();
    await page.getByLabel("Owner’s e-mail address").fill(grace.email);
    await page.getByRole("button", { name: "Create the client" }).click();
    await heading(page, "Shop of Grace").waitFor();
    await page.getByRole("link", { name: grace.email }).waitFor();
    const clientId = page.url().split("/").at(-1) ?? "";
    accounts = [`users/${grace.user.id}`, `clients/${clientId}`];

    await page.getByRole("button", { name: "Add a credential" }).click();
    await page.getByRole("dialog").getByLabel("Reason").fill("Ticket 4721");
    await page.getByRole("dialog").getByRole("button", { name: "Add a credential" }).click();
    const once = page.getByRole("dialog", { name: "Keep this now" });
    await once.waitFor();
    expect(await seriousProblems(page)).toEqual([]);
    const [, secret = ""] = await once.locator("code").allInnerTexts();
    await page.keyboard.press("Escape");
    await page.mouse.click(5, 5);
    // The session ends while the secret is shown, which another tab notices.
    const { body } = await api.get("/auth/sessions", { token });
    for (const { id, current } of body.data.sessions)
      if (!current) await api.call("DELETE", `/auth/sessions/${id}`, { token });
    const tab = await context.newPage();
    await tab.goto(`${origin}/console/users`);
    await heading(tab, "Log in").waitFor();
    await expect.poll(() => page.locator("body").innerText()).not.toContain(grace.email);
    expect(await once.innerText()).toContain(secret);
    await once.getByRole("button", { name: "I have kept it" }).click();
    const ended = page.getByRole("dialog", { name: "You were logged out" });
    await ended.waitFor();
    await tab.getByLabel("E-mail address").fill(ADMIN.email);
    await tab.getByLabel("Password", { exact: true }).fill(ADMIN.password);
    await tab.getByRole("button", { name: "Log in", exact: true }).click();
    await ended.waitFor({ state: "detached" });
    await tab.close();
    const answer = await requestToken(api, clientId, secret);
    expect([answer.status, answer.body.scope]).toEqual([200, "payments:read"]);
    expect(await page.content()).not.toContain(secret);

    await page.getByRole("button", { name: /^Revoke / }).click();
    await page.getByRole("dialog").getByLabel("Reason").fill("Ticket 4722");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("The credential was revoked.").waitFor();
    expect((await requestToken(api, clientId, secret)).status).toBe(401);
  });

  test("a public key that is none is refused at its field", async () => {
    await page.getByRole("button", { name: "Add a credential" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Kind").selectOption("public_key");
    await dialog.getByLabel("Reason").fill("Ticket 4723");
    for (const text of ["not JSON", '{"kty":"OKP","crv":"Ed25519","x":"AA","d":"AA"}']) {
      await dialog.getByLabel("Public key", { exact: true }).fill(text);
      await dialog.getByRole("button", { name: "Add a credential" }).click();
      await dialog.getByText("This is not a public key").waitFor();
    }
    await page.keyboard.press("Escape");
    await page.getByText("It has none yet").waitFor();
  });

  test("several people are logged out at once with one reason, an entry each; oneself is left out, and a limit is waited for", async () => {
    const people = [await api.newUser(), await api.newUser(), await api.newUser()];
    await page.goto(`${origin}/console/users`);
    await page.getByText(/^\d+ of \d+ are shown\.$/).waitFor();
    await page.getByLabel("Second factor").selectOption("no");
    await page.getByLabel("Last login").selectOption("365");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByText("Nobody was found.").waitFor();
    await page.getByLabel("Last login").selectOption("");
    await page.getByLabel("Second factor").selectOption("");
    await page.getByRole("button", { name: "Search" }).click();
    for (const { email } of people) await page.getByLabel(`Choose ${email}`).check();
    await page.getByLabel("Order").selectOption("oldest");
    const button = page.getByRole("button", { name: "End all sessions" });
    expect(await seriousProblems(page)).toEqual([]);
    await button.click();
    const dialog = page.getByRole("dialog", { name: "End all sessions" });
    await dialog.getByText("For these accounts: 3").click();
    for (const { email } of people) await dialog.getByText(email).waitFor();
    expect(await seriousProblems(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });

    await page.getByLabel("Address or name").fill(ADMIN.email);
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByText("1 of 1 are shown.").waitFor();
    await page.getByLabel(`Choose ${ADMIN.email}`).check();
    await button.click();
    await dialog.getByText("Left out: 1").click();
    await dialog.getByText("Your own account.").waitFor();
    expect(await dialog.getByLabel("Reason").count()).toBe(0);
    await page.keyboard.press("Escape");

    await page.getByLabel("Address or name").fill("");
    await page.getByLabel("Order").selectOption("");
    await page.getByRole("button", { name: "Search" }).click();
    for (const { email } of people) await page.getByLabel(`Choose ${email}`).check();
    await button.click();
    await dialog.getByLabel("Reason").fill(`Ask ${grace.email}`);
    await dialog.getByRole("button", { name: "Do it for 3" }).click();
    await dialog.getByText("Leave out e-mail addresses").first().waitFor();
    // The second call comes too fast; the others are not lost.
    let calls = 0;
    await page.route("**/sessions/revoke", (route) => {
      calls += 1;
      return calls === 2 ? route.fulfill(refusal(429, "too_many_requests")) : route.continue();
    });
    await dialog.getByLabel("Reason").fill("Ticket 4730");
    await dialog.getByRole("button", { name: "Do it for 3" }).click();
    await dialog.getByText("Done for 3 of 3 accounts.").waitFor();
    expect(calls).toBe(4);
    await page.unroute("**/sessions/revoke");
    await dialog.getByRole("button", { name: "Close" }).click();
    for (const person of people) {
      expect((await api.get("/auth/me", { token: person.accessToken })).status).toBe(401);
      const reasons = async () => {
        const { body } = await api.get(`/admin/audit?resource=${person.user.id}`, { token });
        const { entries } = body.data as { entries: { reason?: string }[] };
        return entries.map(({ reason = "" }) => reason).filter((reason) => reason.includes("Ticket 4730"));
      };
      await expect.poll(reasons).toHaveLength(1);
    }
    expect(await page.getByLabel(`Choose ${people[0]?.email}`).isChecked()).toBe(false);
  });

  test("a run in German on a small phone: the tab asks before it closes, one is refused, and a stop leaves the rest as it was", async () => {
    const people = await Promise.all(Array.from({ length: 6 }, () => api.newUser()));
    await page.setViewportSize({ width: 360, height: 740 });
    await page.getByRole("combobox", { name: "Language" }).selectOption("de");
    await page.goto(`${origin}/console/users`);
    for (const { email } of people) await page.getByLabel(`${email} auswählen`).check();
    await page.getByRole("button", { name: "Alle Sitzungen beenden" }).click();
    const dialog = page.getByRole("dialog", { name: "Alle Sitzungen beenden" });
    await dialog.getByText("Für diese Konten: 6").click();
    await expectSound(page, "the choice");
    // The first goes through, the second is refused, three are under way, and one has not begun.
    const tried: string[] = [];
    const held = Promise.withResolvers<void>();
    await page.route("**/sessions/revoke", async (route) => {
      tried.push(route.request().url().split("/").at(-3) ?? "");
      if (tried.length === 2) return route.fulfill(refusal(404, "not_found"));
      if (tried.length > 2) await held.promise;
      return route.continue();
    });
    await dialog.getByLabel("Grund").fill("Ticket 4731");
    await dialog.getByRole("button", { name: "Für 6 ausführen" }).click();
    await dialog.getByText("2 von 6 Konten. Lassen Sie diesen Tab offen.").waitFor();
    await expect.poll(() => tried.length).toBe(5);
    await expectSound(page, "the run");
    const question = page.waitForEvent("dialog");
    await page.close({ runBeforeUnload: true });
    expect((await question).type()).toBe("beforeunload");
    await expect.poll(() => watched.problems.splice(0)).toEqual(["a dialog opened: "]);
    await dialog.getByRole("button", { name: "Anhalten" }).click();
    held.resolve();
    await dialog.getByText("Ausgeführt für 4 von 6 Konten.").waitFor();
    await dialog.getByText("Angehalten vor den übrigen 1, die unverändert sind.").waitFor();
    await dialog.getByText("Abgelehnt: 1").click();
    const refused = people.find(({ user }) => user.id === tried[1]);
    expect(await dialog.getByRole("listitem").allInnerTexts()).toEqual([
      expect.stringMatching(`^${refused?.email} .+`),
    ]);
    await expectSound(page, "the report");
    expect(await page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))")).toBe(true);
    await page.unroute("**/sessions/revoke");
    await dialog.getByRole("button", { name: "Schließen" }).click();
    for (const { user, accessToken } of people) {
      const hasEnded = tried.includes(user.id) && user.id !== refused?.user.id;
      expect((await api.get("/auth/me", { token: accessToken })).status).toBe(hasEnded ? 401 : 200);
    }
    await page.getByRole("combobox", { name: "Sprache" }).selectOption("en");
    await page.setViewportSize({ width: 1200, height: 900 });
  });

  test("a stop holds back the call that waits because calls come too fast", async () => {
    const people = [await api.newUser(), await api.newUser()];
    await page.goto(`${origin}/console/users`);
    for (const { email } of people) await page.getByLabel(`Choose ${email}`).check();
    await page.getByRole("button", { name: "End all sessions" }).click();
    const dialog = page.getByRole("dialog", { name: "End all sessions" });
    const tried: string[] = [];
    await page.route("**/sessions/revoke", (route) => {
      tried.push(route.request().url().split("/").at(-3) ?? "");
      const { headers, ...answer } = refusal(429, "too_many_requests");
      const late = { ...answer, headers: { ...headers, "retry-after": "600" } };
      return tried.length === 2 ? route.fulfill(late) : route.continue();
    });
    await dialog.getByLabel("Reason").fill("Ticket 4732");
    await dialog.getByRole("button", { name: "Do it for 2" }).click();
    await dialog.getByText("1 of 2 accounts. Keep this tab open.").waitFor();
    await expect.poll(() => tried.length).toBe(2);
    await dialog.getByRole("button", { name: "Stop" }).click();
    await dialog.getByText("Done for 1 of 2 accounts.").waitFor();
    await page.unroute("**/sessions/revoke");
    await dialog.getByRole("button", { name: "Close" }).click();
    const waiting = people.find(({ user }) => user.id === tried[1]);
    expect((await api.get("/auth/me", { token: waiting?.accessToken ?? "" })).status).toBe(200);
    expect(tried).toHaveLength(2);
  });

  test("users are exported as CSV, of the present search, in parts of which none is half", async () => {
    const email = `${randomUUID()}@example.com`;
    const person = { email, password: "correct horse battery", firstName: "=1+1", lastName: "Ada" };
    expect((await api.post("/auth/register", person)).status).toBe(201);
    await page.goto(`${origin}/console/users`);
    await page.getByLabel("Address or name").fill(email);
    await page.getByLabel("Order").selectOption("last_login");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByText("1 of 1 are shown.").waitFor();
    await page.getByRole("button", { name: "Export (CSV)" }).click();
    const dialog = page.getByRole("dialog", { name: "Export (CSV)" });
    // Without a field the first button has the focus.
    await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("CSV");
    const press = (name: string) => dialog.getByRole("button", { name, exact: true }).click();
    const exported = async (button: string) => {
      const download = page.waitForEvent("download");
      await press(button);
      return (await readFile(await (await download).path(), "utf8")).trimEnd().split("\n");
    };
    const [head, row, ...others] = await exported("CSV");
    expect(head).toMatch(/^id,email,firstName,.*,lastLoginAt$/);
    expect(row).toMatch(
      new RegExp(`^[0-9a-f-]{36},${email},'=1\\+1,Ada,USER,active,false,false,false,2.*Z,$`),
    );
    expect(others).toEqual([]);
    await dialog.getByText("Saved: 1 accounts, which is everything that the search finds.").waitFor();
    await expectSound(page, "an export");

    // Of 12,000, of which the second page comes too fast at first.
    const asked: { cursor?: string; sort?: string; query?: string }[] = [];
    let answering: "well" | "never" | "badly" = "well";
    await page.route("**/admin/user-search", async (route) => {
      const body = route.request().postDataJSON();
      asked.push(body);
      if (asked.length === 2) return route.fulfill(refusal(429, "too_many_requests"));
      if (answering === "badly" && body.cursor === "5000")
        return route.fulfill(refusal(500, "internal_error"));
      if (answering === "never" && body.cursor === "5000") return;
      const response = await route.fetch({ postData: { query: body.query } });
      const { data } = await response.json();
      const from = Number(body.cursor ?? 0);
      const users = Array.from({ length: Math.min(5_000, 12_000 - from) }, () => data.users[0]);
      const nextCursor = from < 10_000 ? String(from + 5_000) : null;
      const total = from === 0 ? { total: 12_000, totalIs: "about" } : {};
      await route.fulfill({ response, json: { data: { users, nextCursor, ...total } } });
    });
    expect(await exported("CSV")).toHaveLength(10_001);
    await dialog.getByText("Incomplete: saved 10,000 of about 12,000 accounts. Files so far: 1.").waitFor();
    expect(await exported("Next part")).toHaveLength(2_001);
    await dialog.getByText("Saved: 12,000 accounts, which is everything").waitFor();
    expect(asked.map(({ cursor }) => cursor)).toEqual([undefined, "5000", "5000", "10000"]);
    expect(asked.every(({ query, sort }) => query === email && sort === undefined)).toBe(true);

    const downloads: unknown[] = [];
    page.on("download", (download) => downloads.push(download));
    answering = "badly";
    await press("CSV");
    await dialog.getByRole("alert").waitFor();
    answering = "never";
    await press("CSV");
    await dialog.getByText("Reading … 5,000 of about 12,000 accounts").waitFor();
    await press("Stop");
    await dialog.getByText("Stopped. Nothing of this part was saved.").waitFor();
    expect(await dialog.getByText("Saved:").count()).toBe(0);
    expect(downloads).toEqual([]);
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await press("Close");
  });

  test("a role is changed by the keyboard alone, and what the person had open ends", async () => {
    await page.goto(`${origin}/console/users/${grace.user.id}`);
    const action = page.getByRole("button", { name: "Change the role" });
    await action.focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Change the role" });
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Change the role");
    await page.keyboard.press("Enter");
    await dialog.waitFor();
    await page.keyboard.type("AUD");
    await page.keyboard.press("Tab");
    await page.keyboard.type("Ticket 4724");
    await page.keyboard.press("Enter");
    // The dialog, which says it too, is open until the person has been read again.
    await page.getByText("The role is AUDITOR now.", { exact: true }).waitFor();
    expect((await api.get("/auth/me", { token: grace.accessToken })).status).toBe(401);
    const changes = async () => {
      const { body } = await api.get(`/admin/audit?action=user.role_changed&resource=${grace.user.id}`, {
        token,
      });
      return (body.data.entries as { reason?: string }[]).map(({ reason }) => reason);
    };
    await expect.poll(changes).toEqual(["USER to AUDITOR: Ticket 4724"]);
  });

  test("what a colleague has done meanwhile does not turn an act round before it is sent", async () => {
    const own = await browser.newContext({ locale: "en-GB" });
    const open = await own.newPage();
    const { user } = await api.newUser();
    await open.goto(`${origin}/console/users/${user.id}`);
    await open.getByLabel("E-mail address").fill(ADMIN.email);
    await open.getByLabel("Password", { exact: true }).fill(ADMIN.password);
    await open.getByRole("button", { name: "Log in", exact: true }).click();
    let now = Date.now();
    for (const [name, opposite, change] of [
      ["Disable the account", "Enable the account", { status: "disabled" }],
      ["Require a new password", "Do not require a new password", { mustChangePassword: true }],
    ] as const) {
      await open.getByRole("button", { name }).click();
      const dialog = open.getByRole("dialog");
      await dialog.getByLabel("Reason").fill("Ticket 4728");
      const body = { ...change, reason: "Ticket 4729" };
      expect((await api.call("PATCH", `/admin/users/${user.id}`, { token, body })).status).toBe(200);
      // Whoever comes back to the tab after some time sees what is by now.
      now += 60_000;
      await open.clock.setFixedTime(now);
      await open.evaluate(`for (const hidden of [true, false]) {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }`);
      const turned = open.getByRole("button", { name: opposite, includeHidden: true });
      await turned.first().waitFor({ state: "attached" });
      expect(await dialog.count()).toBe(0);
    }
    await own.close();
    // The tests that follow expect that no account is disabled.
    const body = { status: "active", reason: "Ticket 4730" };
    expect((await api.call("PATCH", `/admin/users/${user.id}`, { token, body })).status).toBe(200);
  });

  test("what can be undone asks for a reason alone", async () => {
    const acts = page.getByRole("region", { name: "Actions" });
    const dialog = page.getByRole("dialog");
    // Nothing about clients if the person has none.
    await page.goto(`${origin}/console/users/${(await api.newUser()).user.id}`);
    await acts.getByRole("button", { name: "Disable the account" }).click();
    await expect.poll(() => page.evaluate("document.activeElement.name")).toBe("reason");
    await page.goto(`${origin}/console/users/${grace.user.id}`);
    for (const name of ["Disable the account", "Enable the account"]) {
      await acts.getByRole("button", { name }).click();
      expect(await dialog.getByLabel(/^Type .* to confirm$/).count()).toBe(0);
      await dialog.getByLabel("Reason").fill("Ticket 4725");
      await dialog.getByRole("button", { name }).click();
      await dialog.waitFor({ state: "detached" });
    }
    await acts.getByRole("button", { name: "Delete the account" }).click();
    await dialog.getByLabel("Reason").fill("Ticket 4726");
    await dialog.getByRole("button", { name: "Delete the account" }).click();
    await dialog.getByText("Fill in this field.").waitFor();
    await page.keyboard.press("Escape");
  });

  test("dates of a person's page stay on one line at 1280 px", async () => {
    await page.setViewportSize({ width: 1280, height: 900 });
    const times = page.locator("td time");
    await times.first().waitFor();
    const heights = await times.evaluateAll((all) => all.map((time) => time.getClientRects().length));
    expect(heights.length).toBeGreaterThan(1);
    expect(new Set(heights)).toEqual(new Set([1]));
    const widths = await page.locator("main").evaluate((main) => main.scrollWidth - main.clientWidth);
    expect(widths).toBe(0);
  });

  test("a new address counts once the link that it got is used, for which nobody types a password", async () => {
    const person = await api.newUser();
    await proveAddress(system, api, person);
    const email = `new.${person.email}`;
    await page.goto(`${origin}/console/users/${person.user.id}`);
    await page.getByRole("button", { name: "Change the address" }).click();
    const dialog = page.getByRole("dialog", { name: "Change the address" });
    await dialog.getByLabel("New e-mail address").fill(ADMIN.email);
    await dialog.getByLabel("Reason").fill("Ticket 4727");
    await dialog.getByRole("button", { name: "Send the mail" }).click();
    await dialog.getByText("This e-mail address has an account already.").first().waitFor();
    expect(await seriousProblems(page)).toEqual([]);
    await dialog.getByLabel("New e-mail address").fill(email);
    await dialog.getByRole("button", { name: "Send the mail" }).click();
    await page.getByText(`${email} has to be confirmed.`, { exact: false }).waitFor();
    await mailAbout(system, person.email, "Your account may get another e-mail address");
    const theirs = await browser.newContext({ locale: "en-GB" });
    const open = await theirs.newPage();
    await open.goto(String(linkIn(await mailAbout(system, email, "Confirm your new e-mail address"))));
    await open.getByText(email, { exact: true }).waitFor();
    expect(await open.locator("input[type=password]").count()).toBe(0);
    await expectSound(open, "a vouched address");
    expect((await api.get("/auth/me", { token: person.accessToken })).status).toBe(200);
    await open.getByRole("button", { name: "Use this address" }).click();
    await heading(open, "Your e-mail address was changed").waitFor();
    expect((await api.get("/auth/me", { token: person.accessToken })).status).toBe(401);
    await theirs.close();
    await mailAbout(system, person.email, "Your e-mail address was changed");
    const { user } = await api.logIn({ email, password: person.password });
    expect(user.id).toBe(person.user.id);
  });

  test("nobody acts on their own account, and the page says so", async () => {
    const { user } = (await api.get("/auth/me", { token })).body.data;
    await page.goto(`${origin}/console/users/${user.id}`);
    const actions = page.getByRole("region", { name: "Actions" });
    await actions.getByText("This is your own account.").waitFor();
    expect(await actions.getByRole("button").count()).toBe(0);
  });

  test("what each role may do is said in sentences, with warnings, and in the client's permissions too", async () => {
    await page.getByRole("link", { name: "Roles" }).click();
    const support = page.getByRole("region", { name: "SUPPORT" });
    await support.getByText("Take people’s second factors away.").waitFor();
    await support.getByText("opens the account").first().waitFor();
    const roleTexts = await support.locator("dd").allInnerTexts();
    expect(roleTexts).toEqual([expect.stringMatching(/^USER, SUPPORT/)]);
    const customer = page.getByRole("region", { name: "USER", exact: true });
    expect(await customer.locator("code").allInnerTexts()).toEqual(["payments:read", "payments:write"]);
    await customer.getByText("It cannot manage any account.").waitFor();
    const own = page.getByRole("region", { name: "ADMIN" });
    await own.getByText("Your role").waitFor();
    await own.getByText("can take over every account").waitFor();
    await page.goto(`${origin}/console/clients/new`);
    await page.goto(`${origin}/console/clients/new`);
    const check = page.getByLabel("clients:write");
    expect(await check.evaluate((input) => input.ariaDescribedByElements?.[0]?.textContent)).toContain(
      "need no person and no second factor",
    );
  });

  test("a service that answers is ready; a page that is offline says so, and tries again", async () => {
    await page.getByRole("link", { name: "System" }).click();
    await expect.poll(() => page.getByText("Ready", { exact: true }).count()).toBe(4);
    await page.getByText("Signs", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Users" }).click();
    await heading(page, "Users").waitFor();
    await context.setOffline(true);
    await page.getByLabel("State").selectOption("disabled");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByText("The server cannot be reached.").waitFor();
    await context.setOffline(false);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("Nobody was found.").waitFor();
  });

  test("no page has a serious problem for assistive technology, or is wider than a small phone", async () => {
    await page.setViewportSize({ width: 360, height: 740 });
    for (const [scheme, language] of [
      ["light", "en"],
      ["dark", "de"],
    ] as const) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.getByRole("combobox", { name: /Language|Sprache/ }).selectOption(language);
      for (const name of [...ROOMS, ...accounts]) {
        await page.goto(`${origin}/console/${name}`, { waitUntil: "networkidle" });
        await heading(page).waitFor();
        expect(await page.evaluate("document.documentElement.lang")).toBe(language);
        expect(await seriousProblems(page), `${scheme} ${name}`).toEqual([]);
        expect(await page.evaluate("document.documentElement.scrollWidth"), name).toBeLessThanOrEqual(360);
        expect(await shownAtTop(page, ADMIN.email), name).toBe(true);
      }
    }
    expect(watched.problems).toEqual([]);
  });
});

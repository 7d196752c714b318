import { generateSync } from "otplib";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  expectSound,
  expectTurned,
  heading,
  openVisit,
  portalOrigin,
  tokenOfBrowser,
  type Visit,
} from "../../support/browser/portal.ts";
import { addAuthenticator } from "../../support/browser/virtual-authenticator.ts";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { totpApp } from "../../support/people/totp-app.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

type Person = Awaited<ReturnType<ApiClient["newUser"]>>;

let system: System;
let api: ApiClient;
let origin: string;
let browser: Browser;
let administrator: Visit;
let nextCode: () => Promise<string>;

describe.skipIf(CHROMIUM === undefined)("a console that demands a fresh second factor", () => {
  beforeAll(async () => {
    system = oneSystem();
    api = apiClient(system.url);
    origin = portalOrigin(system);
    browser = await launchChromium();
    administrator = await openVisit(browser, system);
  });
  afterAll(() => browser?.close());

  test("an administrator's act waits for a code of the app, which may be cancelled, and is then done once", async () => {
    const { page, watched } = administrator;
    await logIn(page, ADMIN);
    await heading(page, "Set up a second factor").waitFor();
    await page.getByRole("button", { name: "Use an authenticator app" }).click();
    nextCode = totpApp((await page.locator(".key").innerText()).replaceAll(" ", ""));
    await page.getByLabel("Code from the app").fill(await nextCode());
    await page.getByRole("button", { name: "Turn on" }).click();
    await page.getByRole("button", { name: "I have kept them" }).click();
    await heading(page, "Users").waitFor();

    const customer = await api.newUser();
    await page.goto(`${origin}/console/users/${customer.user.id}`);
    const dialog = page.getByRole("dialog", { name: "Unlock" });
    await page.getByRole("button", { name: "Unlock" }).click();
    await dialog.getByLabel("Reason").fill("Ticket 4801");
    await provenLongAgo(page, (await me(page)).id);
    await dialog.getByRole("button", { name: "Unlock" }).click();
    const proof = page.getByRole("dialog", { name: "Confirm it’s you" });
    await proof.waitFor();
    await expectSound(page, "a proof before an act");
    await page.keyboard.press("Escape");
    await dialog.getByText("Cancelled. Nothing was changed.").waitFor();
    await dialog.getByRole("button", { name: "Unlock" }).click();
    await proof.getByLabel("Code", { exact: true }).fill("000000");
    await proof.getByRole("button", { name: "Continue" }).click();
    await proof.getByText("The code is not right").waitFor();
    // As another tab or an extension does it: for people the dialog is before the choice.
    const choice = page.locator("header select").first();
    await choice.selectOption("de", { force: true });
    const german = page.getByRole("dialog", { name: "Bitte bestätigen Sie, dass Sie es sind" });
    await german.getByText("Der Code stimmt nicht").waitFor();
    await german.getByRole("button", { name: "Weiter" }).waitFor();
    await choice.selectOption("en", { force: true });
    await proof.getByLabel("Code", { exact: true }).fill(await nextCode());
    await proof.getByRole("button", { name: "Continue" }).click();
    await page.getByText("The failed logins are forgotten.").waitFor();
    await expect.poll(() => reasons(page, customer, "user.unlocked")).toEqual(["Ticket 4801"]);
    expect(watched.problems).toEqual([]);
  });

  test("SUPPORT, as it ships, resets a lost second factor by a passkey, and is offered nothing on an administrator", async () => {
    const customer = await api.newUser();
    await giveApp(customer);
    const agent = await api.newUser();
    const token = await tokenOfBrowser(administrator.page);
    const change = { token, body: { role: "SUPPORT", reason: "Ticket 4802" } };
    expect((await api.call("PATCH", `/admin/users/${agent.user.id}`, change)).status).toBe(200);

    const visit = await openVisit(browser, system);
    const { page } = visit;
    await addAuthenticator(page);
    await logIn(page, agent);
    await heading(page, "Set up a second factor").waitFor();
    await page.getByRole("button", { name: "Use a passkey of this device" }).click();
    await page.getByRole("button", { name: "I have kept them" }).click();
    await heading(page, "Users").waitFor();

    await page.goto(`${origin}/console/users/${customer.user.id}`);
    await page.getByRole("region", { name: "Last failed logins" }).waitFor();
    await page.getByRole("region", { name: "Sessions" }).waitFor();
    await page.getByRole("button", { name: "Reset the second factor" }).click();
    const dialog = page.getByRole("dialog", { name: "Reset the second factor" });
    await dialog.getByLabel("Reason").fill("Ticket 4803");
    await dialog.getByLabel(`Type ${customer.email} to confirm`).fill(customer.email);
    await provenLongAgo(page, agent.user.id);
    await dialog.getByRole("button", { name: "Reset the second factor" }).click();
    const proof = page.getByRole("dialog", { name: "Confirm it’s you" });
    await proof.getByRole("button", { name: "Use your passkey" }).click();
    await page.getByText("The second factor is gone.").waitFor();
    await expect.poll(() => reasons(administrator.page, customer, "user.mfa_reset")).toEqual(["Ticket 4803"]);
    // The password alone opens the account.
    expect((await api.logIn(customer)).accessToken).not.toBe("");

    await page.goto(`${origin}/console/users/${(await me(administrator.page)).id}`);
    await page.getByText("The role ADMIN may administer more than yours").waitFor();
    expect(await page.getByRole("button", { name: "Reset the second factor" }).count()).toBe(0);
    const reset = `/admin/users/${(await me(administrator.page)).id}/mfa/reset`;
    const refused = await api.post(reset, { reason: "Ticket 4804" }, { token: await tokenOfBrowser(page) });
    expect([refused.status, refused.body.error.code]).toEqual([403, "forbidden"]);
    expect(visit.watched.problems).toEqual([]);
  });

  test("every room runs from right to left in such a language", { tags: "exhaustive" }, async () => {
    const page = await administrator.context.newPage();
    const token = await tokenOfBrowser(administrator.page);
    const { id } = await me(administrator.page);
    const client = { name: "Shop", ownerId: id, permissions: ["payments:read"] };
    const made = await api.post("/admin/clients", client, { token });
    const clientPath = `clients/${made.body.data.client.id}`;
    await api.post(`/admin/${clientPath}/credentials`, { kind: "secret", name: "of May" }, { token });
    const listed = await api.get("/admin/audit?limit=1", { token });
    await page.goto(`${origin}/console/overview`);
    await page.locator("header select").first().selectOption("ar");
    for (const path of [
      "overview",
      "audit",
      `audit/${listed.body.data.entries[0].id}`,
      "users",
      `users/${id}`,
      `users/${(await api.newUser()).user.id}`,
      "clients",
      "clients/new",
      clientPath,
      "roles",
      "system",
      "no-such-page",
    ]) {
      await page.goto(`${origin}/console/${path}`, { waitUntil: "networkidle" });
      await heading(page).waitFor();
      await page.evaluate("for (const closed of document.querySelectorAll('details')) closed.open = true");
      await expectTurned(page, path);
      // Marks of direction are in our own dates, and none of them is shown.
      expect(await page.getByText("\u27e8U+").count(), path).toBe(0);
    }
    await page.goto(`${origin}/console/${clientPath}`);
    await page.locator(".acts button").first().click();
    await page.getByRole("dialog").waitFor();
    await expectTurned(page, "a dialog");
    await page.evaluate("localStorage.removeItem('gatehouse.language')");
    await page.close();
    expect(administrator.watched.problems).toEqual([]);
  });

  test("what repeats itself asks nobody for a proof: it stops, also after a cancelled one, and goes on with a press", {
    tags: "exhaustive",
  }, async () => {
    const { page, watched } = administrator;
    const { id } = await me(page);
    const offer = page.getByRole("button", { name: "Confirm it is you to go on" });
    const proof = page.getByRole("dialog", { name: "Confirm it’s you" });
    let asked = 0;
    const refused = new Set<string>();
    page.on("response", (response) => {
      const { pathname } = new URL(response.url());
      if (!pathname.startsWith("/admin/")) return;
      asked += 1;
      if (response.status() === 401) refused.add(pathname);
    });
    /** Somebody is there, and begins nothing. */
    const pass = async (ms: number) => {
      await page.keyboard.press("Shift");
      await page.clock.runFor(ms);
    };
    await page.clock.install();
    for (const [place, ...polls] of [
      ["/overview", "/admin/audit/summary", "/admin/audit/checkpoint"],
      ["/system", "/admin/health"],
      ["/audit", "/admin/audit/checkpoint"],
      ["/audit?live=true", "/admin/audit/tail", "/admin/audit/checkpoint"],
    ] as const) {
      await provenBefore(id, "0 seconds");
      await page.goto(`${origin}/console${place}`);
      await page.locator(".tiles, .table, .log-line, .pulse:not(.off)").first().waitFor();
      expect(await offer.count()).toBe(0);

      await provenBefore(id, "1 hour");
      refused.clear();
      // Until the page's access token expires, it is as good as it was.
      await expect
        .poll(async () => {
          await pass(60_000);
          return [...polls.filter((path) => !refused.has(path)), await proof.count()];
        })
        .toEqual([0]);
      await offer.click();
      await proof.waitFor();
      await page.keyboard.press("Escape");
      await proof.waitFor({ state: "detached" });
      await offer.waitFor();
      await expect
        .poll(async () => {
          const before = asked;
          for (let minutes = 0; minutes < 6; minutes += 1) await pass(60_000);
          return asked - before;
        })
        .toBe(0);
      expect(await proof.count(), place).toBe(0);
    }
    await page.getByText("Stopped until you confirm that it is you.").waitFor();
    await expectSound(page, "a page that has stopped");
    await offer.click();
    await proof.getByLabel("Code", { exact: true }).fill(await nextCode());
    await proof.getByRole("button", { name: "Continue" }).click();
    await page.getByText("Live: new entries").waitFor();
    await offer.waitFor({ state: "detached" });
    expect(watched.problems).toEqual([]);
  });
});

async function logIn(page: Page, { email, password }: { email: string; password: string }): Promise<void> {
  await page.goto(`${origin}/console/users`);
  await page.getByLabel("E-mail address").fill(email);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Log in", exact: true }).click();
}

async function me(page: Page): Promise<{ id: string }> {
  return (await api.get("/auth/me", { token: await tokenOfBrowser(page) })).body.data.user;
}

/** A quarter of an hour passes after the last proof, in which the page's access token expires. */
async function provenLongAgo(page: Page, userId: string): Promise<void> {
  await provenBefore(userId, "1 hour");
  const error = { code: "token_expired", message: "The token has expired.", requestId: "" };
  await page.route(
    /\/admin\/users\//,
    (route) =>
      route.fulfill({
        status: 401,
        headers: { "gatehouse-answer": "gateway" },
        json: { success: false, error },
      }),
    {
      times: 1,
    },
  );
}

/** Whoever has a new access token by then. */
async function provenBefore(userId: string, age: string): Promise<void> {
  await using database = await databaseOfSystem(system, "token");
  await database.sql`update sessions set auth_time = now() - ${age}::interval where user_id = ${userId}`;
}

async function giveApp(person: Person): Promise<void> {
  await proveAddress(system, api, person);
  const token = { token: person.accessToken };
  const { secret } = (await api.post("/auth/mfa/setup", { password: person.password }, token)).body.data;
  const code = generateSync({ secret, epoch: Math.floor(Date.now() / 1_000) });
  expect((await api.post("/auth/mfa/enable", { code }, token)).status).toBe(200);
}

/** Of the events about a person, as an administrator reads them. */
async function reasons(page: Page, { user }: Person, action: string): Promise<unknown[]> {
  const search = new URLSearchParams({ resource: user.id, action });
  const { body } = await api.get(`/admin/audit?${search}`, { token: await tokenOfBrowser(page) });
  return (body.data.entries as { reason?: string }[]).map(({ reason }) => reason);
}

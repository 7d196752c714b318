import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { generateSync } from "otplib";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  heading,
  logInToPortal,
  PORTAL_PASSWORD,
  seriousProblems,
  type Watched,
  watch,
} from "../../support/browser/portal.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

/** Each character that begins something in HTML. */
const SCRIPT = `<img src=x onerror="document.title='taken'">`;
const ada = { email: "ada.console@example.com", password: PORTAL_PASSWORD };
const agent = { email: "agent.console@example.com", password: PORTAL_PASSWORD };

let system: System;
let origin: string;
let api: ApiClient;
let browser: Browser;
let context: BrowserContext;
let page: Page;
let watched: Watched;
let adaId: string;
let adminToken: string;

async function register(person: { email: string; password: string }, name: string): Promise<string> {
  const body = { ...person, firstName: name, lastName: "Lovelace" };
  expect((await api.post("/auth/register", body)).status).toBe(201);
  await proveAddress(system, api, person);
  return (await api.logIn(person)).user.id;
}

const eventsOf = async (resource: string, action: string) => {
  const search = new URLSearchParams({ resource, action });
  const { body } = await api.get(`/admin/audit?${search}`, { token: adminToken });
  return (body.data.entries as { reason?: string }[]).map(({ reason }) => reason);
};

describe.skipIf(CHROMIUM === undefined)("a support agent in the console", () => {
  beforeAll(async () => {
    system = oneSystem();
    origin = `http://localhost:${system.ports.GATEWAY_PORT}`;
    api = apiClient(system.url);
    browser = await launchChromium();
    context = await browser.newContext({ locale: "en-GB", viewport: { width: 1200, height: 900 } });
    watched = await watch(context, origin);
    page = await context.newPage();
  });
  afterAll(() => browser?.close());

  test("a role of the access file makes somebody an agent", async () => {
    const accessFile = join(system.home, "access.yaml");
    const shipped = await readFile(accessFile, "utf8");
    const permissions =
      "users:read, users:unlock, users:help, sessions:read, sessions:end, mfa:reset, audit:read:user";
    await writeFile(accessFile, shipped.replace("  AUDITOR:", `  HELPDESK: [${permissions}]\n  AUDITOR:`));
    adminToken = (await api.logIn(ADMIN)).accessToken;
    adaId = await register(ada, SCRIPT);
    const agentId = await register(agent, "Anna");
    const change = { token: adminToken, body: { role: "HELPDESK", reason: "Ticket 4700" } };
    // Both services read the file within a second.
    await expect
      .poll(async () => (await api.call("PATCH", `/admin/users/${agentId}`, change)).status)
      .toBe(200);
  });

  test("a customer who opens the console logs in, comes back to it, and finds nothing", async () => {
    const stranger = await browser.newContext({ locale: "en-GB" });
    const open = await stranger.newPage();
    await open.goto(`${origin}/console/system`);
    await heading(open, "Log in").waitFor();
    await open.getByLabel("E-mail address").fill(ada.email);
    await open.getByLabel("Password", { exact: true }).fill(PORTAL_PASSWORD);
    await open.getByRole("button", { name: "Log in", exact: true }).click();
    await heading(open, "Nothing here is for your role").waitFor();
    expect(await open.getByRole("navigation").count()).toBe(0);
    await stranger.close();
  });

  test("the agent finds a person by a part of the address, and sees why logins failed", async () => {
    const headers = { "user-agent": SCRIPT };
    const wrong = { email: ada.email, password: "not the password" };
    expect((await api.post("/auth/login", wrong, { headers })).status).toBe(401);
    await page.goto(`${origin}/console`);
    await page.getByLabel("E-mail address").fill(agent.email);
    await page.getByLabel("Password", { exact: true }).fill(PORTAL_PASSWORD);
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await heading(page, "Users").waitFor();
    await page.getByText("Two characters or more, or one of a script such as Chinese.").waitFor();
    await page.getByLabel("Address or name").fill("a");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByText("Enter two characters or more.").waitFor();
    // As the service: two letters, and one of a script whose signs are words.
    for (const short of ["öz", "李"]) {
      await page.getByLabel("Address or name").fill(short);
      await page.keyboard.press("Enter");
      await page.getByText("Nobody was found.").waitFor();
      expect(await page.getByText(/are shown|Enter two characters/).count()).toBe(0);
    }
    await page.getByLabel("Address or name").fill("ADA.cons");
    await page.keyboard.press("Enter");
    await expect.poll(() => page.getByRole("row").count()).toBe(2);
    expect(page.url()).toBe(`${origin}/console/users`);
    await page.getByRole("link", { name: ada.email }).click();
    // A script in a name or of a browser is a text.
    await heading(page, `${SCRIPT} Lovelace`).waitFor();
    const failures = page.getByRole("region", { name: "Last failed logins" });
    await failures.getByText("Wrong password").first().waitFor();
    await failures.getByText(SCRIPT).first().waitFor();
    expect(await page.title()).toBe(`${SCRIPT} Lovelace – Gatehouse`);
    await page.goBack();
    await expect.poll(() => page.getByLabel("Address or name").inputValue()).toBe("ADA.cons");
    await page.goForward();
    await heading(page, `${SCRIPT} Lovelace`).waitFor();
  });

  test("no act of an administrator is offered, and none on an administrator", async () => {
    const actions = page.getByRole("region", { name: "Actions" });
    await actions.getByRole("button", { name: "End all sessions" }).waitFor();
    expect(await actions.getByRole("button").allInnerTexts()).toEqual([
      "Unlock",
      "Send a link to a new password",
      "End all sessions",
    ]);
    const rooms = await page.getByRole("navigation").getByRole("link").allInnerTexts();
    expect(rooms).not.toContain("System");
    expect(rooms.at(-1)).toBe("Your account");
    await page.getByRole("link", { name: "All users" }).click();
    await page.getByLabel("Address or name").fill(ADMIN.email);
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: ADMIN.email }).click();
    await actions.getByText("The role ADMIN may administer more than yours").waitFor();
    expect(await actions.getByRole("button").count()).toBe(0);
  });

  test("the agent ends a person's sessions: the page that the person has open is at the login", async () => {
    const theirs = await browser.newContext({ locale: "en-GB" });
    const open = await theirs.newPage();
    await logInToPortal(open, origin, ada.email);
    await heading(open, "Your account").waitFor();
    await page.goto(`${origin}/console/users/${adaId}`);
    const sessions = page.getByRole("region", { name: "Sessions" });
    await sessions.getByText("Chrome, Linux").first().waitFor();
    await page.getByRole("button", { name: "End all sessions" }).click();
    const dialog = page.getByRole("dialog");
    // What would be refused is said while it is typed, and is not sent.
    const sent = watched.addresses.length;
    const reason = dialog.getByLabel("Reason");
    const problem = dialog.locator(".wrong");
    await reason.pressSequentially("ada@example.com");
    await problem.getByText("Leave out e-mail addresses").waitFor();
    expect(await page.evaluate("document.activeElement.name")).toBe("reason");
    await reason.fill("");
    await dialog.getByRole("button", { name: "End all sessions" }).click();
    await dialog.getByText("Fill in this field.").waitFor();
    for (const [typed, said] of [
      ["mail to ada@example.com", "Leave out e-mail addresses"],
      ["long ".repeat(30), "Write at most 120 characters."],
      ["", "Fill in this field."],
      ["call 0170 1234567", "Leave out e-mail addresses"],
    ] as const) {
      await reason.fill(typed);
      await problem.getByText(said).waitFor();
    }
    await dialog.getByRole("button", { name: "End all sessions" }).click();
    await problem.getByText("Leave out e-mail addresses").waitFor();
    expect(watched.addresses.slice(sent).filter((address) => address.includes("revoke"))).toEqual([]);
    expect(await eventsOf(adaId, "user.sessions_ended")).toEqual([]);
    await dialog.getByLabel("Reason").fill("Ticket 4711");
    await dialog.getByRole("button", { name: "End all sessions" }).click();
    await page.getByText("All sessions have ended.").waitFor();
    await sessions.getByText("No session is live.").waitFor();
    await open.getByRole("link", { name: "Sessions" }).click();
    await heading(open, "Log in").waitFor();
    await theirs.close();
    await expect.poll(() => eventsOf(adaId, "user.sessions_ended")).toEqual(["Ticket 4711"]);
  });

  test("the agent ends one session, and the other goes on", async () => {
    const headers = {
      "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    };
    const lost = (await api.post("/auth/login", ada, { headers })).body.data;
    const kept = await api.logIn(ada);
    await page.reload();
    const sessions = page.getByRole("region", { name: "Sessions" });
    await sessions.getByRole("button", { name: /^End the session: Firefox, Linux, / }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill("Ticket 4716");
    expect(await seriousProblems(page)).toEqual([]);
    await dialog.getByRole("button", { name: "End", exact: true }).click();
    await page.getByText("The session has ended.").waitFor();
    await expect.poll(() => sessions.getByRole("button").count()).toBe(1);
    expect((await api.get("/auth/me", { token: lost.accessToken })).status).toBe(401);
    expect((await api.get("/auth/me", { token: kept.accessToken })).status).toBe(200);
    await expect
      .poll(() => eventsOf(adaId, "user.session_ended"))
      .toEqual([expect.stringMatching(/^[0-9a-f-]{36}: Ticket 4716$/)]);
  });

  test("a lost second factor is reset after the address was typed, for a reason that is in the log", async () => {
    const { accessToken: token } = await api.logIn(ada);
    const { body } = await api.post("/auth/mfa/setup", { password: PORTAL_PASSWORD }, { token });
    const code = generateSync({ secret: body.data.secret });
    expect((await api.post("/auth/mfa/enable", { code }, { token })).status).toBe(200);
    await page.reload();
    await page.getByRole("button", { name: "Reset the second factor" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill("Ticket 4712");
    const typed = dialog.getByLabel(`Type ${ada.email} to confirm`);
    await typed.fill("eve.console@example.com");
    await dialog.getByRole("button", { name: "Reset the second factor" }).click();
    await dialog.getByText("Type it exactly as it stands above.").waitFor();
    expect(await seriousProblems(page)).toEqual([]);
    await typed.fill(ada.email);
    await dialog.getByRole("button", { name: "Reset the second factor" }).click();
    await page.getByText("The second factor is gone.").waitFor();
    // The account is read again.
    await expect.poll(() => page.getByRole("button", { name: "Reset the second factor" }).count()).toBe(0);
    await expect.poll(() => eventsOf(adaId, "user.mfa_reset")).toEqual(["Ticket 4712"]);
    expect((await api.logIn(ada)).accessToken).not.toBe("");
  });

  test("who is invited sets the password by the link in the mail, and is sent another link", async () => {
    const bob = { email: "bob.console@example.com", password: "a password of Bob's own" };
    await page.goto(`${origin}/console/users`);
    await page.getByRole("button", { name: "Invite a person" }).click();
    const dialog = page.getByRole("dialog");
    // Who has an account is said to the agent.
    await dialog.getByLabel("E-mail address").fill(ada.email);
    await dialog.getByLabel("First name").fill("Bob");
    await dialog.getByLabel("Reason").fill("Ticket 4714");
    expect(await dialog.getByLabel("Role").count()).toBe(0);
    await dialog.getByRole("button", { name: "Send the invitation" }).click();
    await dialog.getByText("This e-mail address has an account already.").first().waitFor();
    expect(await seriousProblems(page)).toEqual([]);
    await dialog.getByLabel("E-mail address").fill(bob.email);
    await dialog.getByRole("button", { name: "Send the invitation" }).click();
    await page.getByText(`${bob.email} was invited.`).waitFor();
    const link = linkIn(await mailAbout(system, bob.email, "Set up your account"));
    expect(await page.locator("body").innerText()).not.toContain(link.searchParams.get("token"));
    const theirs = await browser.newContext({ locale: "en-GB" });
    const open = await theirs.newPage();
    await open.goto(String(link));
    await open.getByLabel("New password").fill(bob.password);
    await open.getByRole("button", { name: "Set the password" }).click();
    await heading(open, "Your password was set").waitFor();
    await theirs.close();
    const { user } = await api.logIn(bob);
    await page.goto(`${origin}/console/users/${user.id}`);
    await page.getByRole("button", { name: "Send a link to a new password" }).click();
    await dialog.getByLabel("Reason").fill("Ticket 4715");
    await dialog.getByRole("button", { name: "Send the mail" }).click();
    await page.getByText("The mail is on its way.").waitFor();
    expect(linkIn(await mailAbout(system, bob.email, "Set a new password")).pathname).toContain(
      "reset-password",
    );
    await expect.poll(() => eventsOf(user.id, "user.link_mailed")).toEqual(["reset: Ticket 4715"]);
  });

  test("an address that is no id is no page, and calls nothing", async () => {
    await page.goto(`${origin}/console/users/not-an-id`);
    await heading(page, "There is no such page").waitFor();
    expect(watched.addresses.filter((address) => address.includes("/admin/users/not"))).toEqual([]);
  });

  test("a session that has ended elsewhere leads to the login, and back to the page", async () => {
    await page.goto(`${origin}/console/users/${adaId}`);
    await heading(page, `${SCRIPT} Lovelace`).waitFor();
    const { user } = await api.logIn(agent);
    await api.post(`/admin/users/${user.id}/sessions/revoke`, {}, { token: adminToken });
    await page.getByRole("link", { name: "All users" }).click();
    await heading(page, "Log in").waitFor();
    await page.getByRole("status").getByText("You were logged out").waitFor();
    await page.getByLabel("E-mail address").fill(agent.email);
    await page.getByLabel("Password", { exact: true }).fill(PORTAL_PASSWORD);
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await heading(page, "Users").waitFor();
    // Whoever was typing goes on in the same page.
    await page.goto(`${origin}/console/users/${adaId}`);
    await page.getByRole("button", { name: "Unlock" }).click();
    const reason = page.getByLabel("Reason");
    const act = page.getByRole("dialog", { name: "Unlock" });
    await reason.fill("Ticket 4713");
    await api.post(`/admin/users/${user.id}/sessions/revoke`, {}, { token: adminToken });
    await act.getByRole("button", { name: "Unlock" }).click();
    const ended = page.getByRole("dialog", { name: "You were logged out" });
    await ended.waitFor();
    expect(await page.locator("body").innerText()).not.toMatch(new RegExp(`${agent.email}|${ada.email}`));
    expect(await seriousProblems(page)).toEqual([]);
    const opened = context.waitForEvent("page");
    await ended.getByRole("link", { name: "Log in" }).click();
    const tab = await opened;
    await logInToPortal(tab, origin, agent.email);
    await ended.waitFor({ state: "detached" });
    await tab.close();
    expect(await reason.inputValue()).toBe("Ticket 4713");
    await act.getByRole("button", { name: "Unlock" }).click();
    await act.waitFor({ state: "detached" });
    await expect.poll(() => eventsOf(adaId, "user.unlocked")).toEqual(["Ticket 4713"]);
    expect(watched.problems).toEqual([]);
  });
});

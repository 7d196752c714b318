import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import { heading, logInToPortal, portalOrigin } from "../../support/browser/portal.ts";
import { addAuthenticator } from "../../support/browser/virtual-authenticator.ts";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;
let origin: string;
let browser: Browser;
let context: BrowserContext;
let page: Page;

type Person = Awaited<ReturnType<ApiClient["newUser"]>>;

describe.skipIf(CHROMIUM === undefined)("one person at a time in a browser", () => {
  beforeAll(async () => {
    system = oneSystem();
    api = apiClient(system.url);
    origin = portalOrigin(system);
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());
  beforeEach(async () => {
    context = await browser.newContext({ locale: "en-GB" });
    page = await context.newPage();
    return () => context.close();
  });

  const enter = async (on: Page, person: { email: string; password: string }) => {
    await logInToPortal(on, origin, person.email, person.password);
    await heading(on, "Your account").waitFor();
  };
  const namesOf = async ({ accessToken: token }: Person) =>
    (await api.get("/auth/me", { token })).body.data.user;
  /** By an application of the same browser, of which no page of ours hears. */
  const logInBehind = async ({ email, password }: Person) => {
    const other = await context.newPage();
    await other.goto(`${origin}/account/register`);
    const status = await other.evaluate(async (body) => {
      const headers = { "gatehouse-client": "browser", "content-type": "application/json" };
      return (await fetch("/auth/login", { method: "POST", headers, body })).status;
    }, JSON.stringify({ email, password }));
    expect(status).toBe(200);
    await other.close();
  };
  const press = (name: string) => page.getByRole("button", { name, exact: true }).first().click();

  test("a login in another tab turns all tabs of the portal over to the new person, with nothing of the former", async () => {
    const [ada, grace] = [await api.newUser(), await api.newUser()];
    const other = await context.newPage();
    await other.goto(`${origin}/account/login`);
    await heading(other, "Log in").waitFor();
    await enter(page, ada);
    await page.getByRole("link", { name: "Sessions" }).click();
    await page.getByText("this one").waitFor();
    await other.getByLabel("E-mail address").fill(grace.email);
    await other.getByLabel("Password", { exact: true }).fill(grace.password);
    await other.getByRole("button", { name: "Log in", exact: true }).click();
    await heading(other, "Your account").waitFor();
    await page.getByRole("link", { name: "Your account" }).click();
    await page.getByText(grace.email).first().waitFor();
    expect(await page.content()).not.toContain(ada.email);
    // Her session has ended at the server, too: that of the API client is left.
    const listed = await api.get("/auth/sessions", { token: ada.accessToken });
    expect(listed.body.data.sessions).toHaveLength(1);
  });

  test("what one person has typed is not saved for the next, and the page shows the next", async () => {
    const [ada, grace] = [await api.newUser(), await api.newUser()];
    await enter(page, ada);
    await page.getByLabel("First name").fill("Augusta");
    await logInBehind(grace);
    await press("Save");
    await page.getByText(grace.email).first().waitFor();
    expect(await page.getByLabel("First name").inputValue()).toBe("Ada");
    expect([(await namesOf(ada)).firstName, (await namesOf(grace)).firstName]).toEqual(["Ada", "Ada"]);
  });

  test("a page that the browser has kept, and shows again, shows nobody who has logged out meanwhile", async () => {
    const ada = await api.newUser();
    await enter(page, ada);
    // A page that is kept hears nothing of other tabs.
    const { body } = await api.get("/auth/sessions", { token: ada.accessToken });
    for (const { id, current } of body.data.sessions as { id: string; current: boolean }[])
      if (!current) await api.call("DELETE", `/auth/sessions/${id}`, { token: ada.accessToken });
    await page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))");
    await heading(page, "Log in").waitFor();
    expect(await page.content()).not.toContain(ada.email);
  });

  test("a proof that one person has begun to give changes nothing of the next person's", async () => {
    const [ada, grace] = [await api.newUser(), await api.newUser()];
    for (const person of [ada, grace]) await proveAddress(system, api, person);
    const authenticator = await addAuthenticator(page);
    await enter(page, ada);
    await page.getByRole("link", { name: "Security" }).click();
    await page.getByText("You have no passkey.").waitFor();
    await using database = await databaseOfSystem(system, "token");
    await database.sql`update sessions set auth_time = auth_time - interval '10 minutes' where user_id = ${ada.user.id}`;
    await page.reload();
    await page.getByRole("button", { name: "Add a passkey" }).click();
    const proof = page.getByRole("dialog", { name: "Confirm it’s you" });
    await proof.getByLabel("Your password").fill(grace.password);
    await logInBehind(grace);
    await proof.getByRole("button", { name: "Continue" }).click();
    await proof.waitFor({ state: "detached" });
    await page.getByText("You have no passkey.").waitFor();
    await page.getByRole("link", { name: "Your account" }).click();
    await page.getByText(grace.email).first().waitFor();
    expect(await authenticator.count()).toBe(0);
    expect((await api.get("/auth/passkeys", { token: grace.accessToken })).body.data.passkeys).toEqual([]);
  });

  test("the console of an administrator does nothing for whoever has logged in since", async () => {
    const [ada, grace] = [await api.newUser(), await api.newUser()];
    await page.goto(`${origin}/console/users/${ada.user.id}`);
    await page.getByLabel("E-mail address").fill(ADMIN.email);
    await page.getByLabel("Password", { exact: true }).fill(ADMIN.password);
    await press("Log in");
    await heading(page, "Ada Lovelace").waitFor();
    await press("Disable the account");
    const act = page.getByRole("dialog");
    await act.getByLabel("Reason").fill("Ticket 4800");
    await logInBehind(grace);
    await act.getByRole("button", { name: "Disable the account" }).click();
    await heading(page, "Nothing here is for your role").waitFor();
    await page.getByText(grace.email).first().waitFor();
    expect(await page.content()).not.toContain(ADMIN.email);
    expect((await api.get("/auth/me", { token: ada.accessToken })).status).toBe(200);
  });

  test("recovery codes are shown although nothing can be loaded after them", async () => {
    const person = await api.newUser();
    await proveAddress(system, api, person);
    await addAuthenticator(page);
    await enter(page, person);
    await page.getByRole("link", { name: "Security" }).click();
    await page.getByText("You have no passkey.").waitFor();
    await page.route("**/auth/me", (route) => route.abort("connectionreset"));
    await page.getByRole("button", { name: "Add a passkey" }).click();
    const codes = page.getByRole("dialog", { name: "Your recovery codes" });
    await expect.poll(() => codes.getByRole("listitem").count()).toBe(10);
  });
});

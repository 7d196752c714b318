import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import { expectDialog, expectReachable, focused } from "../../support/browser/keyboard.ts";
import { closeVisit, heading, logInToPortal, openVisit, portalOrigin } from "../../support/browser/portal.ts";
import { addAuthenticator } from "../../support/browser/virtual-authenticator.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { newMachineClient } from "../../support/people/machine-client.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

/** The page, and the buttons of it that open a dialog. */
type Stop = readonly [path: string, ...buttons: (string | RegExp)[]];

const OPEN: readonly Stop[] = [
  ["login"],
  ["register"],
  ["forgot-password"],
  ["reset-password#token=x"],
  ["verify-email#token=x"],
  ["no-such-page"],
];
const OWN: readonly Stop[] = [
  ["", "Change the address", "Delete the account"],
  ["security", /^Rename /, /^Remove /, "Set up an app"],
  ["approvals"],
  ["sessions"],
  ["providers", "Link Demo"],
];

/** Of the accounts that are chosen in the list of users. */
const BULK_ACTS = ["End all sessions", "Require a new password", "Disable the account"];

let browser: Browser;
let system: System;
let api: ApiClient;
let origin: string;

describe.skipIf(CHROMIUM === undefined)("the keyboard alone, on every page", { tags: "exhaustive" }, () => {
  beforeAll(async () => {
    system = oneSystem();
    api = apiClient(system.url);
    origin = portalOrigin(system);
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  const walk = async (page: Page, area: "account" | "console", stops: readonly Stop[]) => {
    for (const [path, ...buttons] of stops) {
      await page.goto("about:blank");
      await page.goto(`${origin}/${area}/${path}`, { waitUntil: "networkidle" });
      await heading(page).waitFor();
      await expectReachable(page, `${area}/${path}`);
      for (const name of buttons)
        await expectDialog(page, page.getByRole("button", { name, exact: true }).first());
    }
  };

  /** With another session and a proven address, there is more to press. */
  const newPerson = async () => {
    const person = await api.newUser();
    await proveAddress(system, api, person);
    await api.logIn(person);
    return person;
  };

  const enterWithPasskey = async (page: Page, { email, password }: { email: string; password: string }) => {
    await logInToPortal(page, origin, email, password);
    await heading(page, "Your account").waitFor();
    await addAuthenticator(page);
    await page.goto(`${origin}/account/security`);
    await page.getByRole("button", { name: "Add a passkey" }).click();
    await page.getByRole("button", { name: "I have kept them" }).click();
  };

  test("of the portal, with its dialogs", async () => {
    const person = await newPerson();
    const visit = await openVisit(browser, system);
    const { page } = visit;
    await walk(page, "account", OPEN);
    await enterWithPasskey(page, person);
    await walk(page, "account", OWN);
    await closeVisit(visit);
  });

  test("of the console, with its dialogs, its chart and its way past the navigation", async () => {
    const person = await api.newUser();
    const holder = await newPerson();
    const theirs = await openVisit(browser, system);
    await enterWithPasskey(theirs.page, holder);
    await closeVisit(theirs);
    const client = await newMachineClient(api);
    await client.add({ kind: "secret", name: "rotation of May" });
    const visit = await openVisit(browser, system, { viewport: { width: 1200, height: 900 } });
    const { page } = visit;
    const { keyboard } = page;
    await page.goto(`${origin}/console/overview`);
    await page.getByLabel("E-mail address").fill(ADMIN.email);
    await page.getByLabel("Password", { exact: true }).fill(ADMIN.password);
    await keyboard.press("Enter");
    await heading(page, "Overview").waitFor();
    const { accessToken: token } = await api.logIn(ADMIN);
    const wanted = { name: "Tickets", url: "https://tickets.example/hook", types: ["gatehouse.webhook.*"] };
    const webhook = await api.post("/admin/webhooks", wanted, { token });
    const listed = await api.get("/admin/audit?action=auth.register&outcome=success", { token });
    await walk(page, "console", [
      ["overview", "Compare the key"],
      ["audit", "Export", "Set up the check of the log (2 minutes)"],
      [`audit/${listed.body.data.entries[0].id}`, "Compare the key"],
      ["users", "Invite a person"],
      [
        `users/${person.user.id}`,
        "Unlock",
        "Send a link to a new password",
        "Send the confirmation again",
        "End all sessions",
        "Require a new password",
        "Change the name",
        "Change the role",
        "Disable the account",
        "Delete the account",
      ],
      [`users/${holder.user.id}`, /^End the session: /, /^Remove the passkey /],
      ["clients"],
      ["clients/new"],
      [
        `clients/${client.id}`,
        "Add a credential",
        "Revoke rotation of May",
        "Rename",
        "Change the permissions",
        "Change the owner",
        "Disable the client",
        "Delete the client",
      ],
      ["webhooks"],
      ["webhooks/new"],
      [
        `webhooks/${webhook.body.data.webhook.id}`,
        "Change",
        "Change the owner",
        "New secret",
        "Send past events again",
        "Pause",
        "Delete the webhook",
      ],
      ["roles"],
      ["system"],
    ]);

    await page.goto(`${origin}/console/users`, { waitUntil: "networkidle" });
    await page.getByLabel(`Choose ${person.email}`).focus();
    await keyboard.press("Space");
    await expectReachable(page, "console/users, one is chosen");
    for (const name of BULK_ACTS) await expectDialog(page, page.getByRole("button", { name, exact: true }));

    await page.goto(`${origin}/console/overview`, { waitUntil: "networkidle" });
    await page.getByRole("radio", { name: "24 hours" }).focus();
    await keyboard.press("ArrowRight");
    await expect.poll(() => page.getByRole("radio", { name: "7 days" }).isChecked()).toBe(true);
    await page.getByText("As a table").focus();
    await keyboard.press("Enter");
    await page.getByRole("columnheader", { name: "Refused steps of logins" }).waitFor();
    await page.getByRole("link", { name: "Skip to the content" }).focus();
    await keyboard.press("Enter");
    await keyboard.press("Tab");
    const isInMain = "document.querySelector('main').contains(document.activeElement)";
    expect(await page.evaluate(isInMain), await focused(page)).toBe(true);
    await closeVisit(visit);
  });
});

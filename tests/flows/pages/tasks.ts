import { randomUUID } from "node:crypto";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import { closeVisit, heading, logInToPortal, openVisit, portalOrigin } from "../../support/browser/portal.ts";
import { addAuthenticator } from "../../support/browser/virtual-authenticator.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { newMachineClient } from "../../support/people/machine-client.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { totpApp } from "../../support/people/totp-app.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

const NEW = "an entirely new password";
const REASON = "Ticket 4800";
const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const WIDE = { viewport: { width: 1200, height: 900 } };

let system: System;
let origin: string;
let api: ApiClient;
let browser: Browser;

interface Credentials {
  email: string;
  password: string;
}

/** Somebody at a page. Each act is one step: a click, a field, a choice, an address. */
function personAt(page: Page) {
  const within = () => page.locator("[role=dialog]:visible, body:not(:has([role=dialog]:visible))").last();
  let steps = 0;
  return {
    page,
    steps: () => steps,
    open(address: string) {
      steps += 1;
      return page.goto(address);
    },
    press(name: string | RegExp) {
      steps += 1;
      return within().getByRole("button", { name, exact: true }).click();
    },
    follow(name: string | RegExp) {
      steps += 1;
      return page.getByRole("link", { name }).first().click();
    },
    fill(label: string, text: string) {
      steps += 1;
      return within().getByLabel(label, { exact: true }).fill(text);
    },
    check(label: string) {
      steps += 1;
      return within().getByLabel(label, { exact: true }).check();
    },
    sees: (text: string | RegExp) => page.getByText(text).first().waitFor(),
  };
}
type PersonAtPage = ReturnType<typeof personAt>;

/** Does a task in a browser of its own, where somebody may be logged in, and counts it from there. */
async function inBrowser(who: Credentials | undefined, task: (at: PersonAtPage) => Promise<void>) {
  const visit = await openVisit(browser, system, WIDE);
  const { page } = visit;
  if (who !== undefined) {
    await logInToPortal(page, origin, who.email, who.password);
    await heading(page, "Your account").waitFor();
  }
  const at = personAt(page);
  await task(at);
  await closeVisit(visit);
  return at.steps();
}

/** As `inBrowser`, from the first page of the console. */
const inConsole = (who: Credentials, task: (at: PersonAtPage) => Promise<void>) =>
  inBrowser(who, async (at) => {
    await at.page.goto(`${origin}/console`);
    await at.page.getByRole("navigation").getByRole("link", { name: "Users" }).waitFor();
    await task(at);
  });

async function provenUser() {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  return { ...user, ...(await api.logIn(user)) };
}

/** Of a new session, since an administrator has three at most. */
const adminToken = async () => (await api.logIn(ADMIN)).accessToken;

const change = async (userId: string, body: object) => {
  const answer = await api.call("PATCH", `/admin/users/${userId}`, {
    token: await adminToken(),
    body: { ...body, reason: REASON },
  });
  expect(answer.status).toBe(200);
};

async function supporter() {
  const user = await provenUser();
  await change(user.user.id, { role: "SUPPORT" });
  return user;
}

/** From the first page of the console to the page of a person. */
async function findPerson(at: PersonAtPage, email: string): Promise<void> {
  if (!at.page.url().endsWith("/console/users")) await at.follow(/^Users$/);
  await at.fill("Address or name", email);
  await at.press("Search");
  await at.follow(email);
  await at.page.getByRole("region", { name: "Actions" }).getByRole("button").first().waitFor();
}

const statusOf = async (token: string) => (await api.get("/auth/me", { token })).status;

// So that no change makes a task longer unseen.
describe.skipIf(CHROMIUM === undefined)("tasks, and their steps", { tags: "exhaustive" }, () => {
  beforeAll(async () => {
    system = oneSystem();
    origin = portalOrigin(system);
    api = apiClient(system.url);
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test("register, and confirm the address", async () => {
    const ada = { email: `${randomUUID()}@example.com`, password: NEW };
    const steps = await inBrowser(undefined, async (at) => {
      await at.open(`${origin}/account/register`);
      await at.fill("First name", "Ada");
      await at.fill("E-mail address", ada.email);
      await at.fill("Password", ada.password);
      await at.press("Create the account");
      await at.open(String(linkIn(await mailAbout(system, ada.email, "Confirm your e-mail address"))));
      await at.fill("Your password", ada.password);
      await at.press("Confirm the address");
      await heading(at.page, "Your e-mail address is confirmed").waitFor();
    });
    const { accessToken: token } = await api.logIn(ada);
    expect((await api.get("/auth/me", { token })).body.data.user.emailVerified).toBe(true);
    expect(steps).toBeLessThanOrEqual(8);
  });

  test("whoever is logged in with the address confirms it without a password", async () => {
    const ada = await api.newUser();
    await inBrowser(ada, async (at) => {
      await at.open(String(linkIn(await mailAbout(system, ada.email, "Confirm your e-mail address"))));
      await at.page.getByRole("button", { name: "Confirm the address" }).waitFor();
      expect(await at.page.locator("input[type=password]").count()).toBe(0);
      await at.press("Confirm the address");
      await heading(at.page, "Your e-mail address is confirmed").waitFor();
    });
    const { accessToken: token } = await api.logIn(ada);
    expect((await api.get("/auth/me", { token })).body.data.user.emailVerified).toBe(true);
  });

  test("set up an authenticator app", async () => {
    const ada = await provenUser();
    const steps = await inBrowser(ada, async (at) => {
      await at.follow("Security");
      await at.press("Set up an app");
      await at.fill("Your password", ada.password);
      await at.press("Continue");
      const key = await at.page.getByRole("dialog").locator(".key").innerText();
      await at.fill("Code from the app", await totpApp(key.replaceAll(" ", ""))());
      await at.press("Turn on");
      await at.page.getByRole("dialog", { name: "Your recovery codes" }).waitFor();
      await at.press("I have kept them");
    });
    expect(
      (await api.post("/auth/login", { email: ada.email, password: ada.password })).body.data,
    ).toMatchObject({ requireMfa: true });
    expect(steps).toBeLessThanOrEqual(7);
  });

  test("add a passkey", async () => {
    const ada = await provenUser();
    const steps = await inBrowser(ada, async (at) => {
      const authenticator = await addAuthenticator(at.page);
      await at.follow("Security");
      await at.press("Add a passkey");
      await at.page.getByRole("dialog", { name: "Your recovery codes" }).waitFor();
      await at.press("I have kept them");
      await at.sees("The passkey was added.");
      expect(await authenticator.count()).toBe(1);
    });
    expect(steps).toBeLessThanOrEqual(3);
  });

  test("log out an old device", async () => {
    const ada = await provenUser();
    const headers = { "user-agent": FIREFOX };
    const old = (await api.post("/auth/login", { email: ada.email, password: ada.password }, { headers }))
      .body;
    const steps = await inBrowser(ada, async (at) => {
      await at.follow("Sessions");
      await at.press(/^Log out: Firefox/);
      await at.sees("The session has ended.");
    });
    expect(await statusOf(old.data.accessToken)).toBe(401);
    expect(await statusOf(ada.accessToken)).toBe(200);
    expect(steps).toBeLessThanOrEqual(2);
  });

  test("set a new password after a forgotten one", async () => {
    const ada = await provenUser();
    const steps = await inBrowser(undefined, async (at) => {
      await at.open(`${origin}/account/login`);
      await at.follow("Forgot your password?");
      // The login has such a field, too.
      await heading(at.page, "Forgot your password?").waitFor();
      await at.fill("E-mail address", ada.email);
      await at.press("Send the link");
      await at.open(String(linkIn(await mailAbout(system, ada.email, "Set a new password"))));
      await at.fill("New password", NEW);
      await at.press("Set the password");
      await heading(at.page, "Your password was set").waitFor();
    });
    expect((await api.logIn({ ...ada, password: NEW })).user.id).toBe(ada.user.id);
    expect(steps).toBeLessThanOrEqual(7);
  });

  test("support finds out why somebody cannot log in, and helps: too many wrong passwords", async () => {
    const ada = await provenUser();
    for (let wrong = 0; wrong < 5; wrong += 1)
      await api.post("/auth/login", { email: ada.email, password: "not the password" });
    const { email, password } = ada;
    expect((await api.post("/auth/login", { email, password })).status).toBe(401);
    const steps = await inConsole(await supporter(), async (at) => {
      await findPerson(at, email);
      await at.sees("Locked after failures, whatever the password");
      await at.press("Unlock");
      await at.fill("Reason", REASON);
      await at.press("Unlock");
      await at.sees("The failed logins are forgotten.");
    });
    expect((await api.logIn(ada)).user.id).toBe(ada.user.id);
    expect(steps).toBeLessThanOrEqual(6);
  });

  test("an administrator finds out why somebody cannot log in, and helps: a disabled account", async () => {
    const ada = await provenUser();
    await change(ada.user.id, { status: "disabled" });
    const steps = await inConsole(ADMIN, async (at) => {
      await findPerson(at, ada.email);
      await at.sees("Disabled");
      await at.press("Enable the account");
      await at.fill("Reason", REASON);
      await at.press("Enable the account");
      await at.sees("The account is enabled.");
    });
    expect((await api.logIn(ada)).user.id).toBe(ada.user.id);
    expect(steps).toBeLessThanOrEqual(7);
  });

  test("support invites a person", async () => {
    const bob = `${randomUUID()}@example.com`;
    const steps = await inConsole(await supporter(), async (at) => {
      await at.press("Invite a person");
      await at.fill("E-mail address", bob);
      await at.fill("First name", "Bob");
      await at.fill("Reason", REASON);
      await at.press("Send the invitation");
      await at.sees(`${bob} was invited.`);
    });
    expect(linkIn(await mailAbout(system, bob, "Set up your account")).searchParams.get("token")).not.toBe(
      "",
    );
    expect(steps).toBeLessThanOrEqual(5);
  });

  test("support ends one session of a person", async () => {
    const ada = await provenUser();
    const headers = { "user-agent": FIREFOX };
    const lost = (await api.post("/auth/login", { email: ada.email, password: ada.password }, { headers }))
      .body;
    const steps = await inConsole(await supporter(), async (at) => {
      await findPerson(at, ada.email);
      await at.press(/^End the session: Firefox, Linux, /);
      await at.fill("Reason", REASON);
      await at.press("End");
      await at.sees("The session has ended.");
    });
    expect(await statusOf(lost.data.accessToken)).toBe(401);
    expect(await statusOf(ada.accessToken)).toBe(200);
    expect(steps).toBeLessThanOrEqual(6);
  });

  test("give a shop's client one more permission", async () => {
    const shop = await newMachineClient(api, ["payments:read"]);
    const found = async () =>
      (await api.get(`/admin/clients/${shop.id}`, { token: await adminToken() })).body.data.client;
    const { name } = await found();
    const steps = await inConsole(ADMIN, async (at) => {
      await at.follow(/^Clients$/);
      await at.follow(name);
      await at.press("Change the permissions");
      await at.check("payments:write");
      await at.fill("Reason", REASON);
      await at.press("Change the permissions");
      await at.sees("The client was changed.");
    });
    expect((await found()).permissions).toEqual(["payments:read", "payments:write"]);
    expect(steps).toBeLessThanOrEqual(6);
  });

  test("find who changed a person's role, by the address, and prove the entry", async () => {
    const ada = await provenUser();
    await change(ada.user.id, { role: "AUDITOR" });
    const token = await adminToken();
    const logged = `/admin/audit?action=user.role_changed&resource=${ada.user.id}`;
    await expect.poll(async () => (await api.get(logged, { token })).body.data.entries.length).toBe(1);
    const steps = { find: 0, prove: 0 };
    await inConsole(ADMIN, async (at) => {
      await at.follow(/^Audit log$/);
      await at.fill("About", ada.email);
      await at.press("Search");
      const row = at.page.getByRole("row").filter({ hasText: "user.role_changed" });
      // Those of the list before are gone.
      await expect.poll(() => row.getByText(ADMIN.email).count()).toBe(1);
      steps.find = at.steps();
      await at.follow(/^user\.role_changed$/);
      await at.page.getByRole("region", { name: "Proof" }).getByText("It is in the tree of").waitFor();
      steps.prove = at.steps() - steps.find;
    });
    expect(steps.find).toBeLessThanOrEqual(3);
    expect(steps.prove).toBeLessThanOrEqual(1);
  });

  test("end the sessions of ten users at once", async () => {
    const people = await Promise.all(Array.from({ length: 10 }, () => api.newUser()));
    const steps = await inConsole(ADMIN, async (at) => {
      await at.follow(/^Users$/);
      for (const { email } of people) await at.check(`Choose ${email}`);
      await at.press("End all sessions");
      await at.fill("Reason", REASON);
      await at.press("Do it for 10");
      await at.sees("Done for 10 of 10 accounts.");
      await at.press("Close");
    });
    expect(await Promise.all(people.map(({ accessToken }) => statusOf(accessToken)))).toEqual(
      Array(10).fill(401),
    );
    expect(steps).toBeLessThanOrEqual(15);
  });
});

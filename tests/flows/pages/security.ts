import { generateSync } from "otplib";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  closeVisit,
  expectSound,
  heading,
  logInToPortal,
  logOut,
  openMailLink,
  openVisit,
  portalOrigin,
} from "../../support/browser/portal.ts";
import { addAuthenticator } from "../../support/browser/virtual-authenticator.ts";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { totpApp } from "../../support/people/totp-app.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

const NEW = "an entirely new password";
const NEWER = "and one more of them";

const CONFIRM = "Confirm your e-mail address";
const EN = {
  email: "E-mail address",
  password: "Password",
  logIn: "Log in",
  unproven: "not yet confirmed with the password",
  again: "Send the link",
  over: "This link no longer works",
  sendAgain: "Send me a new link",
  sentAgain: (to: string) => `If ${to} has an account and is not confirmed yet, a new link is on its way.`,
  providers: "Other logins",
  security: "Security",
  addPasskey: "Add a passkey",
  setUpApp: "Set up an app",
  sent: (to: string) => `A mail is on its way to ${to}.`,
  confirm: "Confirm the address",
  required: "Fill in this field.",
  yourPassword: "Your password",
  confirmed: "Your e-mail address is confirmed",
  next: "Continue",
  code: "Code from the app",
  turnOn: "Turn on",
  codes: "Your recovery codes",
};
const DE: typeof EN = {
  email: "E-Mail-Adresse",
  password: "Passwort",
  logIn: "Anmelden",
  unproven: "noch nicht mit dem Passwort bestätigt",
  again: "Link schicken",
  over: "Dieser Link gilt nicht mehr",
  sendAgain: "Neuen Link schicken",
  sentAgain: (to) =>
    `Wenn es zu ${to} ein Konto gibt und die Adresse noch nicht bestätigt ist, ist ein neuer Link unterwegs.`,
  providers: "Verknüpfte Konten",
  security: "Sicherheit",
  addPasskey: "Passkey hinzufügen",
  setUpApp: "App einrichten",
  sent: (to) => `Eine Mail an ${to} ist unterwegs.`,
  confirm: "Adresse bestätigen",
  required: "Bitte ausfüllen.",
  yourPassword: "Ihr Passwort",
  confirmed: "Ihre E-Mail-Adresse ist bestätigt",
  next: "Weiter",
  code: "Code der App",
  turnOn: "Einschalten",
  codes: "Ihre Wiederherstellungscodes",
};

let browser: Browser;
let system: System;
let api: ApiClient;
let origin: string;

/** A user whose credentials are proven. */
async function newPerson() {
  const person = await api.newUser();
  await proveAddress(system, api, person);
  return person;
}
type Person = Awaited<ReturnType<typeof newPerson>>;

const enter = async (page: Page, { email, password }: { email: string; password: string }) => {
  await logInToPortal(page, origin, email, password);
  await heading(page, "Your account").waitFor();
};
const room = (page: Page, name: string) => page.getByRole("link", { name, exact: true }).click();
const press = (page: Page, name: string | RegExp) => page.getByRole("button", { name, exact: true }).click();

describe.skipIf(CHROMIUM === undefined)("what opens an account", () => {
  beforeAll(async () => {
    system = oneSystem();
    api = apiClient(system.url);
    origin = portalOrigin(system);
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test("a password is changed, forgotten, set anew by the mail, and demanded by an administrator", async () => {
    const person = await newPerson();
    const visit = await openVisit(browser, system);
    const { page } = visit;
    await enter(page, person);
    await room(page, "Security");
    const change = async (current: string, next: string) => {
      await page.getByLabel("Current password").fill(current);
      await page.getByLabel("New password").fill(next);
      await press(page, "Change the password");
    };
    await press(page, "Change the password");
    await expect.poll(() => page.getByText("Fill in this field.").count()).toBe(2);
    await expectSound(page, "empty fields");
    // What the page knows itself, it says before anything is sent.
    await change("not the password", "short");
    await page.getByText("Choose a longer password.").waitFor();
    expect(await page.getByText("The password is not right.").count()).toBe(0);
    await change("not the password", NEW);
    await page.getByText("The password is not right.").waitFor();
    await expectSound(page, "a wrong password");
    await change(person.password, "password");
    await page.getByText("This password is too easy to guess.").waitFor();
    await change(person.password, NEW);
    await page.getByText("The password was changed.").waitFor();
    await expectSound(page, "a new password");
    expect((await api.get("/auth/me", { token: person.accessToken })).status).toBe(401);
    await logOut(page);

    await logInToPortal(page, origin, person.email, person.password);
    await page.getByText("That is not right.").waitFor();
    await expectSound(page, "a failed login");
    await page.getByRole("alert").getByRole("link", { name: "Set a new password" }).click();
    await heading(page, "Forgot your password?").waitFor();
    // It knows already which address was meant.
    await expect.poll(() => page.getByLabel("E-mail address").inputValue()).toBe(person.email);
    await expectSound(page, "forgotten");
    await press(page, "Send the link");
    await heading(page, "Check your inbox").waitFor();
    await expectSound(page, "a link to reset is sent");
    await openMailLink(page, system, { to: person.email, subject: "Set a new password" });
    await page.getByLabel("New password").fill("short");
    await press(page, "Set the password");
    await page.getByText("Choose a longer password.").waitFor();
    await expectSound(page, "a password that is too short");
    await page.getByLabel("New password").fill(NEWER);
    await press(page, "Set the password");
    await heading(page, "Your password was set").waitFor();
    await expectSound(page, "a password was set");
    await openMailLink(page, system, { to: person.email, subject: "Set a new password" });
    await heading(page, "This link no longer works").waitFor();
    await expectSound(page, "a link that was used");
    await page.getByRole("link", { name: "Send me a new link" }).click();
    await heading(page, "Forgot your password?").waitFor();

    const admin = await api.logIn(ADMIN);
    const demanded = await api.call("PATCH", `/admin/users/${person.user.id}`, {
      token: admin.accessToken,
      body: { mustChangePassword: true },
    });
    expect(demanded.status).toBe(200);
    await logInToPortal(page, origin, person.email, NEWER);
    await heading(page, "Choose a new password").waitFor();
    await expectSound(page, "a new password at login");
    await page.getByLabel("New password").fill(NEWER);
    await press(page, "Set the password");
    await page.getByText("Choose a password that you did not have before.").waitFor();
    await page.getByLabel("New password").fill(NEW);
    await press(page, "Set the password");
    await heading(page, "Your account").waitFor();
    await closeVisit(visit);
  });

  test.each([
    ["en-GB", "passkey"],
    ["de-DE", "app"],
  ] as const)(
    "an address confirmed without the password, in %s: each refused act has the way out beside it, then the %s",
    async (locale, way) => {
      const person = await api.newUser();
      const clicked = linkIn(await mailAbout(system, person.email, CONFIRM));
      const token = clicked.searchParams.get("token");
      expect((await api.post("/auth/verify-email", { token })).status).toBe(200);
      const say = locale === "en-GB" ? EN : DE;
      const visit = await openVisit(browser, system, { locale });
      const { page } = visit;
      await addAuthenticator(page);
      await openMailLink(page, system, { to: person.email, subject: CONFIRM });
      await heading(page, say.over).waitFor();
      await expectSound(page, "a used link to confirm");
      await page.getByLabel(say.email).fill(person.email);
      await press(page, say.sendAgain);
      await page.getByText(say.sentAgain(person.email)).waitFor();
      await page.getByRole("link", { name: say.logIn }).click();
      await page.getByLabel(say.email).fill(person.email);
      await page.getByLabel(say.password, { exact: true }).fill(person.password);
      await press(page, say.logIn);
      await page.getByText(say.unproven).waitFor();
      await expectSound(page, "confirmed without password");
      const again = page.getByRole("button", { name: say.again });
      await room(page, say.providers);
      await again.waitFor();
      expect(await page.getByRole("button", { name: "Demo" }).count()).toBe(0);
      await expectSound(page, "providers, unproven");
      await room(page, say.security);
      await expect.poll(() => again.count()).toBe(2);
      for (const act of [say.addPasskey, say.setUpApp])
        expect(await page.getByRole("button", { name: act }).count()).toBe(0);
      await expectSound(page, "security, unproven");
      await again.nth(way === "passkey" ? 0 : 1).click();
      await page.getByText(say.sent(person.email)).waitFor();

      // On another device, where nobody is logged in.
      const elsewhere = await openVisit(browser, system, { locale });
      const { page: phone } = elsewhere;
      await openMailLink(phone, system, { to: person.email, subject: CONFIRM, count: 3 });
      await phone.getByText(person.email, { exact: true }).waitFor();
      await press(phone, say.confirm);
      await phone.getByText(say.required).waitFor();
      await expectSound(phone, "a link without its password");
      await phone.getByLabel(say.yourPassword).fill(person.password);
      await press(phone, say.confirm);
      await heading(phone, say.confirmed).waitFor();
      await closeVisit(elsewhere);

      await page.evaluate("window.dispatchEvent(new Event('focus'))");
      await press(page, way === "passkey" ? say.addPasskey : say.setUpApp);
      if (way === "app") {
        const setUp = page.getByRole("dialog");
        await setUp.getByLabel(say.yourPassword).fill(person.password);
        await setUp.getByRole("button", { name: say.next }).click();
        const code = totpApp((await setUp.locator(".key").innerText()).replaceAll(" ", ""));
        await setUp.getByLabel(say.code).fill(await code());
        await setUp.getByRole("button", { name: say.turnOn }).click();
      }
      await page.getByRole("dialog", { name: say.codes }).waitFor();
      await closeVisit(visit);
    },
  );

  test("a role that needs a second factor sets one up at login: by an app, or by a passkey", async () => {
    const admin = await api.logIn(ADMIN);
    for (const by of ["app", "passkey"] as const) {
      const person = await newPerson();
      await api.call("PATCH", `/admin/users/${person.user.id}`, {
        token: admin.accessToken,
        body: { role: "AUDITOR" },
      });
      const visit = await openVisit(browser, system);
      const { page } = visit;
      if (by === "passkey") await addAuthenticator(page);
      await logInToPortal(page, origin, person.email, person.password);
      await heading(page, "Set up a second factor").waitFor();
      await expectSound(page, "enrolment");
      if (by === "app") {
        await press(page, "Use an authenticator app");
        const key = page.locator(".key");
        const code = totpApp((await key.innerText()).replaceAll(" ", ""));
        await page.getByLabel("Code from the app").fill("000000");
        await press(page, "Turn on");
        await page.getByText("The code is not right").waitFor();
        await expectSound(page, "a wrong code at enrolment");
        await page.getByLabel("Code from the app").fill(await code());
        await press(page, "Turn on");
      } else {
        await press(page, "Use a passkey of this device");
      }
      await heading(page, "Your recovery codes").waitFor();
      await expectSound(page, "codes at enrolment");
      await page.route("**/auth/me", (route) => route.abort("connectionreset"), { times: 1 });
      await press(page, "I have kept them");
      await page.getByRole("alert").getByText("The server cannot be reached.").waitFor();
      await press(page, "I have kept them");
      await heading(page, "Your account").waitFor();
      await room(page, "Security");
      if (by === "app") {
        await press(page, "Turn the app off");
        const dialog = page.getByRole("dialog");
        await dialog.getByLabel("Your password").fill(person.password);
        await dialog.getByLabel("Code", { exact: true }).fill("AAAA-AAAA-AAAA-AAAA");
        await dialog.getByRole("button", { name: "Turn the app off" }).click();
        await dialog.getByText("Your role needs a second factor").waitFor();
        await expectSound(page, "the last factor stays");
      }
      await closeVisit(visit);
    }
  });

  test("whoever takes the passkey that the browser offers is told why it does not log in", async () => {
    const person = await newPerson();
    const visit = await openVisit(browser, system);
    const { page } = visit;
    await addAuthenticator(page);
    await enter(page, person);
    await room(page, "Security");
    await press(page, "Add a passkey");
    await press(page, "I have kept them");
    await page.route("**/auth/passkeys/login", (route) =>
      route.fulfill({ status: 503, json: { success: false, error: { code: "service_unavailable" } } }),
    );
    await press(page, "Log out");
    await page.getByRole("alert").getByText("The service is not available right now.").waitFor();
    await closeVisit(visit);
  });

  test("a step-up asks for the password, or for the second factor, and goes on with what was begun", async () => {
    const person = await newPerson();
    const visit = await openVisit(browser, system);
    const { page } = visit;
    const authenticator = await addAuthenticator(page);
    await enter(page, person);
    await provenLongAgo(person);
    await page.goto(`${origin}/account/security`);
    await press(page, "Add a passkey");
    const proof = page.getByRole("dialog", { name: "Confirm it’s you" });
    await proof.getByLabel("Your password").waitFor();
    await expectSound(page, "step-up by password");
    await page.keyboard.press("Escape");
    await page.getByText("Cancelled. Nothing was changed.").waitFor();
    expect(await authenticator.count()).toBe(0);
    await press(page, "Add a passkey");
    await proof.getByLabel("Your password").fill("not the password");
    await proof.getByRole("button", { name: "Continue" }).click();
    await proof.getByText("The password is not right.").waitFor();
    await expectSound(page, "a wrong password at step-up");
    await proof.getByLabel("Your password").fill(person.password);
    await proof.getByRole("button", { name: "Continue" }).click();
    const codes = page.getByRole("dialog", { name: "Your recovery codes" });
    await codes.waitFor();
    const [first = "", second = ""] = await codes.getByRole("listitem").allInnerTexts();
    await codes.getByRole("button", { name: "I have kept them" }).click();
    await page.getByText("You have 10 recovery codes left.").waitFor();
    // No app is set up, so none can be turned off.
    expect(await page.getByRole("button", { name: "Turn the app off" }).count()).toBe(0);

    await press(page, /^Rename /);
    await page.getByRole("dialog").getByLabel("Name").fill("My phone");
    await expectSound(page, "another name");
    await press(page, "Save");
    await page.getByText("My phone", { exact: true }).waitFor();

    await provenLongAgo(person);
    await page.reload();
    await press(page, "Remove My phone");
    await expectSound(page, "removal of a passkey");
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await proof.getByLabel("Code", { exact: true }).waitFor();
    await expectSound(page, "step-up by code");
    await proof.getByLabel("Code", { exact: true }).fill("AAAA-AAAA-AAAA-AAAA");
    await proof.getByRole("button", { name: "Continue" }).click();
    await proof.getByText("The code is not right").waitFor();
    await proof.getByRole("button", { name: "Use your passkey" }).click();
    await page.getByText("You have no passkey.").waitFor();
    expect([first, second].every((code) => code.length > 10)).toBe(true);
    await closeVisit(visit);
  });

  test("with a second factor, password, address and deletion ask for a code, and keep what was typed", async () => {
    const person = await newPerson();
    const recoveryCodes = await giveApp(person);
    const visit = await openVisit(browser, system);
    const { page } = visit;
    await logInToPortal(page, origin, person.email, person.password);
    await heading(page, "One more step").waitFor();
    const prove = async (at: Pick<Page, "getByLabel" | "getByRole">) => {
      await at.getByLabel("Code", { exact: true }).fill(recoveryCodes.pop() ?? "");
      await at.getByRole("button", { name: "Continue" }).click();
    };
    await prove(page);
    await heading(page, "Your account").waitFor();
    const proof = page.getByRole("dialog", { name: "Confirm it’s you" });

    await provenLongAgo(person);
    await page.goto(`${origin}/account/security`);
    await page.getByLabel("Current password").fill(person.password);
    await page.getByLabel("New password").fill(NEW);
    await press(page, "Change the password");
    await prove(proof);
    await page.getByText("The password was changed.").waitFor();

    await provenLongAgo(person);
    await page.goto(`${origin}/account`);
    await press(page, "Change the address");
    const change = page.getByRole("dialog", { name: "Change the address" });
    await change.getByLabel("New e-mail address").fill(`new-${person.email}`);
    await change.getByLabel("Your password").fill(NEW);
    await change.getByRole("button", { name: "Send the link" }).click();
    await proof.waitFor();
    await expectSound(page, "step-up over a dialog");
    await prove(proof);
    await page.getByText(`A mail is on its way to new-${person.email}.`).waitFor();

    await provenLongAgo(person);
    await page.reload();
    await press(page, "Delete the account");
    const deletion = page.getByRole("dialog", { name: "Delete your account?" });
    await deletion.getByLabel("Your password").fill(NEW);
    await deletion.getByRole("button", { name: "Delete for good" }).click();
    await prove(proof);
    await heading(page, "Log in").waitFor();
    await page.getByRole("status").getByText("Your account is deleted.").waitFor();
    await page.getByRole("combobox").first().selectOption("de");
    await page.getByRole("status").getByText("Ihr Konto ist gelöscht.").waitFor();
    await closeVisit(visit);
  });

  test("a device is trusted and forgotten, recovery codes are renewed, the app is turned off, the owner says it was another", async () => {
    const person = await newPerson();
    const [first = "", second = "", third = "", fourth = ""] = await giveApp(person);
    const visit = await openVisit(browser, system);
    const { page } = visit;
    await logInToPortal(page, origin, person.email, person.password);
    await heading(page, "One more step").waitFor();
    await page.getByLabel("Don’t ask for a code on this device for 30 days").check();
    await page.getByLabel("Code", { exact: true }).fill(first);
    await press(page, "Continue");
    await heading(page, "Your account").waitFor();
    await logOut(page);
    // No code is asked for.
    await enter(page, person);
    await room(page, "Sessions");
    await page.getByText(/^Until /).waitFor();
    await expectSound(page, "a trusted device");
    const speak = (language: string) => page.getByRole("combobox").first().selectOption(language);
    await speak("de");
    await heading(page, "Sitzungen").waitFor();
    await page.getByRole("heading", { level: 2, name: "Vertrauenswürdige Geräte" }).waitFor();
    await page.getByRole("button", { name: /^Chrome unter Linux entfernen$/ }).waitFor();
    await press(page, /^Abmelden: /);
    await page.getByText("Die Sitzung ist beendet.").waitFor();
    // It was the person's own.
    expect(await page.getByText("kennt vielleicht jemand Ihr Passwort").count()).toBe(0);
    expect((await api.get("/auth/me", { token: person.accessToken })).status).toBe(401);
    await speak("en");
    await press(page, /^Remove Chrome/);
    // The trusted device alone is no second factor.
    const proof = page.getByRole("dialog", { name: "Confirm it’s you" });
    await proof.getByLabel("Code", { exact: true }).fill(fourth);
    await proof.getByRole("button", { name: "Continue" }).click();
    await page.getByText("Trusted devices").waitFor({ state: "detached" });

    await room(page, "Security");
    await press(page, "New recovery codes");
    const renewal = page.getByRole("dialog", { name: "New recovery codes" });
    await renewal.getByLabel("Code", { exact: true }).fill(second);
    await renewal.getByRole("button", { name: "New recovery codes" }).click();
    const codes = page.getByRole("dialog", { name: "Your recovery codes" });
    await codes.waitFor();
    const [renewed = ""] = await codes.getByRole("listitem").allInnerTexts();
    await codes.getByRole("button", { name: "I have kept them" }).click();

    const off = page.getByRole("dialog", { name: "Turn the app off" });
    await press(page, "Turn the app off");
    await expectSound(page, "the app off");
    await off.getByLabel("Your password").fill(person.password);
    await off.getByLabel("Code", { exact: true }).fill(third);
    await off.getByRole("button", { name: "Turn the app off" }).click();
    await off.getByText("The code is not right").waitFor();
    await expectSound(page, "a code that is no longer good");
    await off.getByLabel("Code", { exact: true }).fill(renewed);
    await off.getByRole("button", { name: "Turn the app off" }).click();
    await off.waitFor({ state: "detached" });
    await expect.poll(() => page.getByText("recovery codes left").count()).toBe(0);

    await openMailLink(page, system, { to: person.email, subject: "Your second factor was turned off" });
    await heading(page, "This was not me").waitFor();
    await expectSound(page, "undo of a change of access");
    await press(page, "It was not me");
    await heading(page, "All sessions of your account have ended").waitFor();
    await page.getByRole("link", { name: "Log in" }).click();
    await heading(page, "Log in").waitFor();
    await closeVisit(visit);
  });

  test("a person sees logins, refused ones too, what ended sessions, and that support did, but not who", async () => {
    const person = await newPerson();
    const { id } = person.user;
    for (const firstName of Array.from({ length: 9 }, (_, at) => `Ada ${at}`))
      await api.call("PATCH", "/auth/me", { token: person.accessToken, body: { firstName } });
    await api.post("/auth/login", { email: person.email, password: "not the password" });
    const { body: listed } = await api.get("/auth/sessions", { token: person.accessToken });
    const { accessToken: other } = await api.logIn(person);
    const own = listed.data.sessions.find(({ current }: { current: boolean }) => current).id;
    expect((await api.call("DELETE", `/auth/sessions/${own}`, { token: other })).status).toBe(200);
    const stolen = (await api.logIn(person)).refreshToken;
    let refreshToken = stolen;
    for (const status of [200, 200, 401]) {
      const answer = await api.post("/auth/refresh", {
        refreshToken: status === 401 ? stolen : refreshToken,
      });
      expect(answer.status).toBe(status);
      refreshToken = answer.body.data?.refreshToken;
    }
    const admin = await api.logIn(ADMIN);
    const reason = { reason: "Ticket 4711: lost phone" };
    const ended = await api.post(`/admin/users/${id}/sessions/revoke`, reason, { token: admin.accessToken });
    expect(ended.status).toBe(200);
    const { accessToken: token } = await api.logIn(person);
    const shown = async () => (await api.get("/auth/me/activity?limit=50", { token })).body.data.activity;
    const told = [
      "login",
      "sessions_ended",
      "refresh_reused",
      "session_ended",
      "login_failed",
      "profile_updated",
    ];
    await expect
      .poll(async () => (await shown()).map(({ action }: { action: string }) => action))
      .toEqual(expect.arrayContaining(told));
    expect(JSON.stringify(await shown())).not.toMatch(new RegExp(`${admin.user.id}|4711|ADMIN`));
    // As the console asks for it.
    const asked = `/admin/audit?actor=${id}&hide=routine&limit=50`;
    const { body: supports } = await api.get(asked, { token: admin.accessToken });
    expect(supports.data.entries.map(({ action }: { action: string }) => action)).toEqual(
      expect.arrayContaining(["session.refresh_reused", "auth.session_end"]),
    );

    const visit = await openVisit(browser, system);
    const { page } = visit;
    await enter(page, person);
    await room(page, "Security");
    const activity = page.locator("section", {
      has: page.getByRole("heading", { level: 2, name: "Recent activity" }),
    });
    await activity.getByText("by support", { exact: true }).waitFor();
    for (const text of ["Login refused", "A session was ended: its refresh token was used twice"])
      await activity.getByText(text, { exact: true }).waitFor();
    expect(await activity.getByRole("listitem").count()).toBe(10);
    await activity.getByRole("button", { name: "Show more" }).click();
    await expect.poll(() => activity.getByRole("listitem").count()).toBeGreaterThan(12);
    await expectSound(page, "recent activity");
    await activity.getByRole("link", { name: "Logged in now" }).click();
    await heading(page, "Sessions").waitFor();
    await closeVisit(visit);
  });

  test("an address is taken back, an account is disowned, and another is deleted by its owner", async () => {
    const visit = await openVisit(browser, system);
    const { page } = visit;
    const moved = await newPerson();
    const newEmail = `new-${moved.email}`;
    await api.post(
      "/auth/change-email",
      { newEmail, password: moved.password },
      { token: moved.accessToken },
    );
    await openMailLink(page, system, { to: newEmail, subject: "Confirm your new e-mail address" });
    await page.getByLabel("Your password").fill("not the password");
    await press(page, "Use this address");
    await page.getByText("The password is not right.").waitFor();
    await expectSound(page, "a wrong password at a link");
    await page.getByLabel("Your password").fill(moved.password);
    await press(page, "Use this address");
    await heading(page, "Your e-mail address was changed").waitFor();
    await openMailLink(page, system, { to: moved.email, subject: "Your e-mail address was changed" });
    await heading(page, "Take your e-mail address back").waitFor();
    await expectSound(page, "undo of a new address");
    await press(page, "Take the address back");
    await heading(page, "Your e-mail address is back").waitFor();
    await expectSound(page, "an address is back");

    const claimed = await api.newUser();
    await openMailLink(page, system, { to: claimed.email, subject: "Confirm your e-mail address" });
    await expectSound(page, "confirm an address");
    await press(page, "I did not make this account");
    await heading(page, "The account can no longer be used").waitFor();
    expect((await api.get("/auth/me", { token: claimed.accessToken })).status).toBe(401);

    const leaving = await newPerson();
    await enter(page, leaving);
    await press(page, "Delete the account");
    const dialog = page.getByRole("dialog", { name: "Delete your account?" });
    await expectSound(page, "deletion");
    await dialog.getByLabel("Your password").fill("not the password");
    await dialog.getByRole("button", { name: "Delete for good" }).click();
    await dialog.getByText("The password is not right.").waitFor();
    await expectSound(page, "deletion with a wrong password");
    await dialog.getByLabel("Your password").fill(leaving.password);
    await dialog.getByRole("button", { name: "Delete for good" }).click();
    await heading(page, "Log in").waitFor();
    expect((await api.get("/auth/me", { token: leaving.accessToken })).status).toBe(401);
    await closeVisit(visit);
  });
});

/** The person's last proof is of ten minutes ago, at the next refresh. */
async function provenLongAgo({ user }: Person): Promise<void> {
  await using database = await databaseOfSystem(system, "token");
  await database.sql`update sessions set auth_time = auth_time - interval '10 minutes' where user_id = ${user.id}`;
}

/** Sets an app up. @returns recovery codes. */
async function giveApp(person: Person): Promise<string[]> {
  const token = { token: person.accessToken };
  const setUp = await api.post("/auth/mfa/setup", { password: person.password }, token);
  const code = generateSync({ secret: setUp.body.data.secret, epoch: Math.floor(Date.now() / 1_000) });
  const enabled = await api.post("/auth/mfa/enable", { code }, token);
  return enabled.body.data.recoveryCodes;
}

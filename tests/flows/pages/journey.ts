import { readFile } from "node:fs/promises";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  closeVisit,
  expectSound,
  heading,
  logInToPortal,
  openMailLink,
  openVisit,
  PORTAL_PASSWORD,
  portalOrigin,
  registerInPortal,
  tokenOfBrowser,
} from "../../support/browser/portal.ts";
import { addAuthenticator } from "../../support/browser/virtual-authenticator.ts";
import { apiClient } from "../../support/people/api-client.ts";
import { totpApp } from "../../support/people/totp-app.ts";
import { oneSystem } from "../../support/system/one-system.ts";

const PHONE =
  "Mozilla/5.0 (Linux; Android 16; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36";
let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("an account from its first day", () => {
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test("register, passkey, app, back by autofill, pay, lose the phone, recovery code, new address, end a session", async () => {
    const system = oneSystem();
    const origin = portalOrigin(system);
    const api = apiClient(system.url);
    const email = `ada.journey.${Date.now()}@example.com`;
    const phone = await openVisit(browser, system, { userAgent: PHONE });
    const { page } = phone;
    await noteWhatAsksForPasskeys(page);
    const authenticator = await addAuthenticator(page);

    await registerInPortal(page, system, origin, { email, firstName: "Ada", lastName: "Lovelace" });
    await logInToPortal(page, origin, email);
    await heading(page, "Your account").waitFor();
    await expectSound(page, "profile");

    await page.getByRole("link", { name: "Security" }).click();
    await page.getByText("You have no passkey.").waitFor();
    await expectSound(page, "security, empty");
    await page.getByRole("button", { name: "Add a passkey" }).click();
    const codes = page.getByRole("dialog", { name: "Your recovery codes" });
    await expect.poll(() => codes.getByRole("listitem").count()).toBe(10);
    await expectSound(page, "recovery codes");
    const recoveryCodes = await codes.getByRole("listitem").allInnerTexts();
    await page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject(new Error('refused')))");
    await codes.getByRole("button", { name: "Copy" }).click();
    await page.evaluate("delete navigator.clipboard.writeText");
    await codes.getByRole("button", { name: "Not copied" }).click();
    await codes.getByRole("button", { name: "Copied" }).waitFor();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(`${recoveryCodes.join("\n")}\n`);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      codes.getByRole("button", { name: "Download" }).click(),
    ]);
    expect(await readFile(await download.path(), "utf8")).toBe(`${recoveryCodes.join("\n")}\n`);
    await codes.getByRole("button", { name: "I have kept them" }).click();
    expect(await authenticator.count()).toBe(1);

    await page.getByRole("button", { name: "Set up an app" }).click();
    const setUp = page.getByRole("dialog", { name: "Set up an app" });
    await setUp.getByLabel("Your password").fill(PORTAL_PASSWORD);
    await setUp.getByRole("button", { name: "Continue" }).click();
    // A second factor beside the passkey is set up by who has the passkey.
    const proof = page.getByRole("dialog", { name: "Confirm it’s you" });
    await proof.getByRole("button", { name: "Use your passkey" }).click();
    await setUp.getByRole("img", { name: "QR code for an authenticator app" }).waitFor();
    await expectSound(page, "secret of an app");
    const nextCode = totpApp((await setUp.locator(".key").innerText()).replaceAll(" ", ""));
    await setUp.getByLabel("Code from the app").fill(await nextCode());
    await setUp.getByRole("button", { name: "Turn on" }).click();
    await setUp.waitFor({ state: "detached" });
    await page.getByRole("status").getByText("The app is on.").waitFor();
    await page.getByText(/^on since /).waitFor();
    await page.getByRole("status").getByText("The passkey was added.").waitFor();
    await expectSound(page, "a passkey and an app");
    // The first ones stay.
    const [recoveryCode = ""] = recoveryCodes;
    await page.getByText("You have 10 recovery codes left.").waitFor();

    // Nobody touches a button: the browser offers the passkey in the field, and the person takes it.
    await authenticator.present(false);
    await page.getByRole("button", { name: "Log out" }).click();
    await expect.poll(async () => (await asked(page)).at(-1)).toBe("conditional");
    await heading(page, "Log in").waitFor();
    await expectSound(page, "login with an offer of a passkey");
    await authenticator.present(true);
    await page.reload();
    await heading(page, "Your account").waitFor();
    expect(await asked(page)).toEqual(["conditional"]);

    // A shop in the same browser asks for a payment, which the phone signs.
    const token = await tokenOfBrowser(page);
    const order = { amount: 25_000, currency: "EUR", payee: "ACME Ltd", reference: "invoice 8" };
    expect((await api.post("/payees", { name: order.payee }, { token })).status).toBe(201);
    const refused = await api.post("/payments", order, { token });
    expect(refused.body.error.code).toBe("approval_required");
    const { id, token: approval } = refused.body.error.details.approval;
    await page.goto(`${origin}/account/approvals/${id}`);
    await heading(page, "Do you approve this?").waitFor();
    await expectSound(page, "an approval");
    await page.getByRole("button", { name: "Approve with your passkey" }).click();
    await page.getByText("Approved.").waitFor();
    const paid = await api.post("/payments", order, { token, headers: { "gatehouse-approval": approval } });
    expect(paid.status).toBe(201);

    // The phone is gone. Another device has the password and a recovery code.
    await authenticator.lose();
    const laptop = await openVisit(browser, system, { locale: "de-DE" });
    const { page: other } = laptop;
    await other.goto(`${origin}/account/login`);
    await other.getByLabel("E-Mail-Adresse").fill(email);
    await other.getByLabel("Passwort", { exact: true }).fill(PORTAL_PASSWORD);
    await other.getByRole("button", { name: "Anmelden", exact: true }).click();
    await heading(other, "Noch ein Schritt").waitFor();
    await expectSound(other, "second factor");
    await other.getByLabel("Code", { exact: true }).fill(recoveryCode);
    await other.getByRole("button", { name: "Weiter" }).click();
    await heading(other, "Ihr Konto").waitFor();

    const newEmail = `new.${email}`;
    await other.getByRole("button", { name: "Adresse ändern" }).click();
    const change = other.getByRole("dialog", { name: "Adresse ändern" });
    await expectSound(other, "change of the address");
    await change.getByLabel("Neue E-Mail-Adresse").fill(newEmail);
    await change.getByLabel("Ihr Passwort").fill(PORTAL_PASSWORD);
    await change.getByRole("button", { name: "Link schicken" }).click();
    await other.getByText(`Eine Mail an ${newEmail} ist unterwegs.`).waitFor();
    await openMailLink(other, system, { to: newEmail, subject: "Confirm your new e-mail address" });
    await heading(other, "Diese E-Mail-Adresse benutzen").waitFor();
    await expectSound(other, "link of a new address");
    await other.getByRole("button", { name: "Diese Adresse benutzen" }).click();
    await heading(other, "Ihre E-Mail-Adresse wurde geändert").waitFor();
    await other.getByRole("link", { name: "Ihr Konto" }).click();
    await other.getByText(newEmail).first().waitFor();

    await other.getByRole("link", { name: "Sitzungen" }).click();
    await other.getByText("Chrome unter Android").waitFor();
    await expectSound(other, "sessions");
    await other.getByRole("button", { name: /^Das bin ich nicht: .*Android/ }).click();
    await other.getByText("Die Sitzung ist beendet.").waitFor();
    await other.getByText("kennt vielleicht jemand Ihr Passwort").waitFor();
    await expectSound(other, "an ended session");
    await page.reload();
    await heading(page, "Log in").waitFor();
    await closeVisit(laptop);
    await closeVisit(phone);
  });
});

/** The mediation of each request for a passkey, in the order in which the page made them. */
async function noteWhatAsksForPasskeys(page: Page): Promise<void> {
  await page.addInitScript(`
    window.asked = [];
    const get = CredentialsContainer.prototype.get;
    CredentialsContainer.prototype.get = function (options) {
      window.asked.push(options.mediation ?? "modal");
      return get.call(this, options);
    };
  `);
}
const asked = (page: Page): Promise<string[]> => page.evaluate("window.asked");

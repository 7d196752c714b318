import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  closeVisit,
  expectTurned,
  heading,
  openVisit,
  PORTAL_PASSWORD,
  portalOrigin,
} from "../../support/browser/portal.ts";
import { apiClient } from "../../support/people/api-client.ts";
import { mailAbout } from "../../support/people/mailbox.ts";
import { oneSystem } from "../../support/system/one-system.ts";

let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("languages", () => {
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test("an operator's language is guessed, runs from right to left, and mails come in the chosen one", async () => {
    const system = oneSystem();
    const origin = portalOrigin(system);
    const visit = await openVisit(browser, system, { locale: "ar-EG", timezoneId: "America/Lima" });
    const { page } = visit;
    await page.goto(`${origin}/account/login`);
    await heading(page).waitFor();
    await expectTurned(page, "login");

    const email = `languages.${Date.now()}@example.com`;
    const register = async (address: string) => {
      await page.goto(`${origin}/account/register`);
      await page.locator("[name=firstName]").fill("Ada");
      await page.locator("[name=email]").fill(address);
      await page.locator("input[autocomplete$=password]").fill(PORTAL_PASSWORD);
      await expectTurned(page, "register");
      await page.locator("button[type=submit]").click();
      await page.locator("[name=firstName]").waitFor({ state: "hidden" });
    };
    await register(email);
    const api = apiClient(system.url);
    const zoneOf = async (address: string) => {
      const { accessToken: token } = await api.logIn({ email: address, password: PORTAL_PASSWORD });
      return (await api.get("/auth/me", { token })).body.data.user.timeZone;
    };
    expect(await zoneOf(email)).toBe("America/Lima");
    // A browser may know a zone that the service does not.
    const sent: string[] = [];
    await page.route("**/auth/register", (route) => {
      const written = route.request().postData() ?? "";
      sent.push(written);
      return route.continue({ postData: written.replace("America/Lima", "Mars/Olympus") });
    });
    await register(`of.mars.${email}`);
    expect(sent.map((body) => "timeZone" in JSON.parse(body))).toEqual([true, false]);
    expect(await zoneOf(`of.mars.${email}`)).toBe("");

    await page.goto(`${origin}/account/login`);
    await page.locator("[name=email]").fill(email);
    await page.locator("input[autocomplete$=password]").fill(PORTAL_PASSWORD);
    await page.locator("button[type=submit]").click();
    await page.locator("[name=language]").waitFor();
    // Arabic serves `ar-EG`, which the account has from the registration: there is no entry of its own.
    expect(await page.locator("[name=language] option").allInnerTexts()).toEqual(
      await page.locator("header select").first().locator("option").allInnerTexts(),
    );
    expect(await page.locator("[name=language]").inputValue()).toBe("ar-EG");
    await expectTurned(page, "account");
    await page.goto(`${origin}/account/security`);
    await page.locator("section").nth(2).waitFor();
    await expectTurned(page, "security");

    await page.goto(`${origin}/account`);
    await page.locator("[name=language]").selectOption({ label: "Français" });
    await page
      .locator("form", { has: page.locator("[name=language]") })
      .locator("button[type=submit]")
      .click();
    await page.locator("[role=status]").filter({ hasText: /./ }).first().waitFor();
    await page.locator("header select").first().selectOption("fr");
    await heading(page, "Votre compte").waitFor();
    await page.goto(`${origin}/account/forgot-password`);
    await page.getByLabel("Adresse e-mail").fill(email);
    await page.getByRole("button", { name: "Envoyer le lien" }).click();
    await mailAbout(system, email, "Définissez un nouveau mot de passe");
    await closeVisit(visit);
  });

  test("single texts of a built-in language are replaced, and stay text", async () => {
    const visit = await openVisit(browser, oneSystem());
    await visit.page.goto(`${portalOrigin(oneSystem())}/account/login`);
    await visit.page.getByText("Lost your <i>password</i>?").waitFor();
    await heading(visit.page, "Log in").waitFor();
    await closeVisit(visit);
  });
});

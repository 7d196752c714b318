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
    await page.goto(`${origin}/account/register`);
    await page.locator("[name=firstName]").fill("Ada");
    await page.locator("[name=email]").fill(email);
    await page.locator("input[autocomplete$=password]").fill(PORTAL_PASSWORD);
    await expectTurned(page, "register");
    await page.locator("button[type=submit]").click();
    await page.locator("[name=firstName]").waitFor({ state: "hidden" });
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
    await page.goto(`${origin}/account/sessions`);
    await page.getByRole("navigation").waitFor();
    const api = apiClient(system.url);
    const { accessToken: token } = await api.logIn({ email, password: PORTAL_PASSWORD });
    const kept = async () => (await api.get("/auth/me", { token })).body.data.user.language;
    // In the header, for mails too. The page does not wait for the service, which may be away.
    let saved = 0;
    page.on("request", (request) => {
      if (request.method() === "PATCH") saved += 1;
    });
    const choose = async (language: string) => {
      await page.locator("header select").first().selectOption(language);
      await page.locator(`html[lang=${language}]`).waitFor({ state: "attached" });
    };
    await page.route("**/auth/me", (route) => route.abort(), { times: 1 });
    await choose("es");
    await expect.poll(() => saved).toBe(1);
    expect(await kept()).toBe("fr");
    await choose("de");
    await expect.poll(kept).toBe("de");
    await choose("fr");
    await expect.poll(kept).toBe("fr");
    // What the account has already is not sent.
    await api.call("PATCH", "/auth/me", { token, body: { language: "es" } });
    await page.goto(`${origin}/account/sessions`);
    await page.getByRole("navigation").waitFor();
    await choose("es");
    await choose("fr");
    await expect.poll(kept).toBe("fr");
    expect(saved).toBe(4);
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

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  closeVisit,
  expectSound,
  heading,
  openVisit,
  PORTAL_PASSWORD,
  portalOrigin,
} from "../../support/browser/portal.ts";
import { mailAbout } from "../../support/people/mailbox.ts";
import { oneSystem } from "../../support/system/one-system.ts";

/** The colours of the page and of its button, and the radius of the button. */
const SHOWN = `(() => {
  const { backgroundColor, borderRadius } = getComputedStyle(document.querySelector("button[type=submit]"));
  return [getComputedStyle(document.body).backgroundColor, backgroundColor, borderRadius];
})()`;
/** Of the logo, as the browser has drawn it. */
const LOGO = `(() => {
  const image = document.querySelector("img");
  return [image.complete && image.naturalWidth / image.naturalHeight, image.alt];
})()`;
let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("the operator's own name", () => {
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test("a customer sees the operator's name and addresses at / and on every page, and after a registration the mailbox", async () => {
    const system = oneSystem();
    const origin = portalOrigin(system);
    const visit = await openVisit(browser, system);
    const { page } = visit;
    const mailbox = `http://localhost:${system.ports.MAILBOX_PORT}/`;
    await page.goto(origin);
    await heading(page, "Müller & Söhne").waitFor();
    expect(await page.evaluate(LOGO)).toEqual([2, ""]);
    expect(await page.locator("footer a").allInnerTexts()).toEqual(["Support", "Privacy", "Terms"]);
    for (const path of ["/account/login", "/account/register", "/console/login"]) {
      await page.goto(`${origin}${path}`);
      await heading(page).waitFor();
      expect(await page.title()).toMatch(/ – Müller & Söhne$/);
      expect(await page.locator(".brand").innerText()).toBe("Müller & Söhne");
      expect(
        await page.locator("footer a").evaluateAll((links) => links.map((link) => link.getAttribute("href"))),
      ).toEqual(["mailto:help@shop.example", "https://shop.example/privacy", "https://shop.example/terms"]);
      await page.locator(".brand img").evaluate("image => image.decode()");
      expect(await page.evaluate(LOGO)).toEqual([2, ""]);
      expect(await page.evaluate(SHOWN)).toEqual(["rgb(255, 253, 240)", "rgb(122, 31, 92)", "2px"]);
      const themes = await page
        .locator('meta[name="theme-color"]')
        .evaluateAll((all) => all.map((meta) => meta.getAttribute("content")));
      expect(themes).toEqual(["#fffdf0", "#101010"]);
      await expectSound(page, path);
    }
    await page.goto(`${origin}/docs`);
    expect(await page.evaluate(LOGO)).toEqual([2, ""]);
    await expectSound(page, "/docs");
    const email = `brand.${Date.now()}@example.com`;
    await page.goto(`${origin}/account/register`);
    await page.getByLabel("First name").fill("Ada");
    await page.getByLabel("E-mail address").fill(email);
    await page.getByLabel("Password", { exact: true }).fill(PORTAL_PASSWORD);
    await page.locator("button[type=submit]").click();
    const link = page.getByRole("link", { name: "Open the mailbox" });
    expect(await link.getAttribute("href")).toBe(mailbox);
    await expectSound(page, "after a registration");
    await page.getByRole("combobox").first().selectOption("de");
    expect(await page.getByRole("link", { name: "Postfach öffnen" }).getAttribute("href")).toBe(mailbox);
    const mail = await mailAbout(system, email, "Confirm your e-mail address");
    expect(mail.text).toContain("Do you need help? mailto:help@shop.example");
    expect(mail.html).toContain(".button a { background: #7a1f5c; color: #ffffff; }");
    await closeVisit(visit);
  });
});

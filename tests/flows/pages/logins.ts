import type { Browser, Page, Route } from "playwright-core";
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
} from "../../support/browser/portal.ts";
import { oneSystem } from "../../support/system/one-system.ts";

const GRACE = "grace@demo.example";
const unavailable = (route: Route) =>
  route.fulfill({ status: 503, json: { success: false, error: { code: "service_unavailable" } } });
let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("logins at a provider", () => {
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test("declined, then an account of its own, which gets a password, loses the provider and links it again", async () => {
    const system = oneSystem();
    const origin = portalOrigin(system);
    const provider = `http://127.0.0.1:${system.ports.DEMO_PROVIDER_PORT}`;
    const visit = await openVisit(browser, system, {}, provider);
    const { page } = visit;
    const press = (name: string) => page.getByRole("button", { name, exact: true }).click();
    const at = (who: RegExp) => page.getByRole("button", { name: who }).click();

    // Whoever has no password needs the button, also after a moment in which nobody knew the providers.
    await page.route(`${origin}/auth/providers`, unavailable, { times: 2 });
    await page.goto(`${origin}/account/login?next=/providers`);
    await press("Continue with Demo");
    await at(/^Nobody/);
    await heading(page, "That login did not work").waitFor();
    await page.getByText("The provider said no, or you cancelled.").waitFor();
    await expectSound(page, "declined");
    await page.getByRole("link", { name: "Back to the login" }).click();
    await press("Continue with Demo");
    await at(/^Grace/);
    // The way on has outlived the refusal.
    await heading(page, "Other logins").waitFor();
    expect(page.url()).toBe(`${origin}/account/providers`);
    await page.getByText(`${GRACE}, linked on`).waitFor();
    await expectSound(page, "a linked provider");
    await press("Remove Demo");
    const dialog = page.getByRole("dialog", { name: "Demo" });
    await expectSound(page, "removal of a provider");
    await dialog.getByRole("button", { name: "Remove" }).click();
    await dialog.getByText("This is the only way into your account.").waitFor();
    await expectSound(page, "the only way in");
    await dialog.getByRole("button", { name: "Cancel" }).click();

    await page.getByRole("link", { name: "Security" }).click();
    await page.getByText("Your account has none.").waitFor();
    await expectSound(page, "no password");
    await press("Set a password");
    await page.getByText(`A mail is on its way to ${GRACE}.`).waitFor();
    await openMailLink(page, system, { to: GRACE, subject: "Set a new password" });
    await page.getByLabel("New password").fill(PORTAL_PASSWORD);
    await press("Set the password");
    await heading(page, "Your password was set").waitFor();
    await logInToPortal(page, origin, GRACE, PORTAL_PASSWORD);
    await heading(page, "Your account").waitFor();

    await page.getByRole("link", { name: "Other logins" }).click();
    if ((await isLinked(page)) === true) {
      await press("Remove Demo");
      await dialog.getByLabel("Your password").fill(PORTAL_PASSWORD);
      await dialog.getByRole("button", { name: "Remove" }).click();
    }
    await press("Link Demo");
    await dialog.getByLabel("Your password").fill("not the password");
    await dialog.getByRole("button", { name: "Link" }).click();
    await dialog.getByText("The password is not right.").waitFor();
    await dialog.getByLabel("Your password").fill(PORTAL_PASSWORD);
    await dialog.getByRole("button", { name: "Link" }).click();
    await at(/^Grace/);
    await page.getByText(`${GRACE}, linked on`).waitFor();

    // After a logout the provider has to ask.
    await press("Log out");
    const departure = page.waitForRequest((request) => request.url().startsWith(`${provider}/auth?`));
    await press("Continue with Demo");
    expect(new URL((await departure).url()).searchParams.get("prompt")).toBe("login");
    await at(/^Grace/);
    await heading(page, "Your account").waitFor();
    await closeVisit(visit);
  });
});

/** A new password by a mail takes lately linked providers away. */
async function isLinked(page: Page): Promise<boolean> {
  await page.getByRole("button", { name: /^(?:Remove|Link) Demo$/ }).waitFor();
  return (await page.getByRole("button", { name: "Remove Demo" }).count()) > 0;
}

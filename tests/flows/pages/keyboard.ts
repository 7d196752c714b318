import { generateSync } from "otplib";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import { expectTrapped, focused, tabTo } from "../../support/browser/keyboard.ts";
import {
  closeVisit,
  heading,
  openMailLink,
  openVisit,
  PORTAL_PASSWORD,
  portalOrigin,
} from "../../support/browser/portal.ts";
import { apiClient } from "../../support/people/api-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";

let browser: Browser;

describe.skipIf(CHROMIUM === undefined)("the keyboard alone", () => {
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test("registers, logs in, sets up an app, uses and leaves dialogs, ends a session and logs out", async () => {
    const system = oneSystem();
    const origin = portalOrigin(system);
    const api = apiClient(system.url);
    const email = `keys-${Date.now()}@example.com`;
    const visit = await openVisit(browser, system);
    const { page } = visit;
    const { keyboard } = page;

    await page.goto(`${origin}/account/login`);
    await heading(page, "Log in").waitFor();
    await expect.poll(() => focused(page)).toBe("E-mail address");
    await tabTo(page, "Register");
    await keyboard.press("Enter");
    await heading(page, "Create an account").waitFor();
    await expect.poll(() => focused(page)).toBe("First name");
    await keyboard.type("Kay");
    // The first empty field that is asked for gets the focus, and its problem is said with it.
    await keyboard.press("Enter");
    await expect.poll(() => focused(page)).toBe("E-mail address");
    expect(await page.evaluate("document.activeElement.getAttribute('aria-invalid')")).toBe("true");
    expect(await describedBy(page)).toContain("Fill in this field.");
    await keyboard.type(email);
    await tabTo(page, "Password");
    await keyboard.type(PORTAL_PASSWORD);
    await keyboard.press("Tab");
    await expect.poll(() => focused(page)).toBe("Show the password");
    await keyboard.press("Space");
    expect(await page.getByLabel("Password", { exact: true }).getAttribute("type")).toBe("text");
    await tabTo(page, "Create the account");
    await keyboard.press("Enter");
    await heading(page, "Check your inbox").waitFor();
    // A screen reader announces where it is now.
    await expect.poll(() => focused(page)).toBe("Check your inbox");

    await openMailLink(page, system, { to: email, subject: "Confirm your e-mail address" });
    await expect.poll(() => focused(page)).toBe("Your password");
    await keyboard.type(PORTAL_PASSWORD);
    await keyboard.press("Enter");
    await heading(page, "Your e-mail address is confirmed").waitFor();
    await tabTo(page, "Log in");
    await keyboard.press("Enter");
    await expect.poll(() => focused(page)).toBe("E-mail address");
    await keyboard.type(email);
    await tabTo(page, "Password");
    await keyboard.type(PORTAL_PASSWORD);
    await keyboard.press("Enter");
    await heading(page, "Your account").waitFor();

    await page.goto(`${origin}/account/security`);
    await page.getByRole("button", { name: "Set up an app" }).waitFor();
    await tabTo(page, "Skip to the content", "Shift+Tab");
    await keyboard.press("Enter");
    await keyboard.press("Tab");
    await expect.poll(() => focused(page)).toBe("Current password");
    await tabTo(page, "Set up an app");
    await keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Set up an app" });
    await dialog.waitFor();
    await expect.poll(() => focused(page)).toBe("Your password");
    await expectTrapped(page);
    await keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe("Set up an app");
    await keyboard.press("Enter");
    await dialog.waitFor();
    await expect.poll(() => focused(page)).toBe("Your password");
    await keyboard.type(PORTAL_PASSWORD);
    await keyboard.press("Enter");
    await expect.poll(() => focused(page)).toBe("Code from the app");
    const secret = (await dialog.locator(".key").innerText()).replaceAll(" ", "");
    await keyboard.type(generateSync({ secret, epoch: Math.floor(Date.now() / 1_000) }));
    await keyboard.press("Enter");
    const codes = page.getByRole("dialog", { name: "Your recovery codes" });
    await codes.waitFor();
    const [code = ""] = await codes.getByRole("listitem").allInnerTexts();
    await expectTrapped(page);
    // They are shown only now: nothing but the button closes them.
    await keyboard.press("Escape");
    await page.mouse.click(2, 2);
    await tabTo(page, "I have kept them");
    await keyboard.press("Enter");
    await codes.waitFor({ state: "detached" });
    await expect.poll(() => page.evaluate("document.activeElement !== document.body")).toBe(true);

    const begun = await api.post("/auth/login", { email, password: PORTAL_PASSWORD });
    const { tempToken } = begun.body.data;
    const other = await api.post("/auth/mfa/verify", { tempToken, code });
    await tabTo(page, "Sessions", "Shift+Tab");
    await keyboard.press("Enter");
    await page.getByText("Unknown program").or(page.getByText("node")).first().waitFor();
    await tabTo(page, /^Log out: /);
    await keyboard.press("Enter");
    await page.getByText("The session has ended.").waitFor();
    expect((await api.get("/auth/me", { token: other.body.data.accessToken })).status).toBe(401);
    await tabTo(page, "Log out", "Shift+Tab");
    await keyboard.press("Enter");
    await heading(page, "Log in").waitFor();
    await closeVisit(visit);
  });
});

function describedBy(page: Page): Promise<string> {
  return page.evaluate(`document.activeElement.getAttribute("aria-describedby").split(" ")
    .map((id) => document.getElementById(id).textContent).join(" ")`);
}

import { generateSync } from "otplib";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiClient } from "../../support/api-client.ts";
import { CHROMIUM } from "../../support/chromium.ts";
import { oneSystem } from "../../support/one-system.ts";
import {
  heading,
  logInToPortal,
  registerInPortal,
  seriousProblems,
  type Watched,
  watch,
} from "../../support/portal.ts";
import type { System } from "../../support/system.ts";

const PAGES = ["", "security", "sessions", "providers"];
const OPEN_PAGES = [
  "login",
  "register",
  "forgot-password",
  "reset-password",
  "verify-email",
  "returned",
  "no-such-page",
];
/** The first page of the portal, with everything that it loads. */
const MAX_FIRST_PAGE_BYTES = 120_000;
/** Each character that begins something in HTML, in a name that is stored. */
const SCRIPT = `<img src=x onerror="document.title='taken'">`;

let system: System;
let origin: string;
let browser: Browser;
let context: BrowserContext;
let page: Page;
let watched: Watched;
let secret = "";
let usedStep = 0;
const ada = { email: "ada.portal@example.com", firstName: SCRIPT.slice(0, 60), lastName: "Lovelace" };

/** Each code works once, so this waits for the next one if needed. */
async function nextCode(): Promise<string> {
  const step = () => Math.floor(Date.now() / 30_000);
  // The step before the present one is accepted as well.
  await expect.poll(() => step() > usedStep, { timeout: 90_000, interval: 500 }).toBe(true);
  usedStep = Math.max(usedStep + 1, step() - 1);
  return generateSync({ secret, epoch: usedStep * 30 });
}

describe.skipIf(CHROMIUM === undefined)("the account portal in Chromium", () => {
  beforeAll(async () => {
    system = oneSystem();
    // WebAuthn takes no addresses.
    origin = `http://localhost:${system.ports.GATEWAY_PORT}`;
    browser = await chromium.launch({ executablePath: CHROMIUM as string, args: ["--no-sandbox"] });
    context = await browser.newContext({ locale: "en-GB", viewport: { width: 360, height: 740 } });
    watched = watch(context, origin);
    page = await context.newPage();
  });
  afterAll(() => browser?.close());

  test("the first page is small, comes from the gateway alone, and is kept", async () => {
    const devtools = await context.newCDPSession(page);
    await devtools.send("Network.enable");
    let bytes = 0;
    let fromNetwork = 0;
    devtools.on("Network.loadingFinished", ({ encodedDataLength }) => {
      bytes += encodedDataLength;
      if (encodedDataLength > 0) fromNetwork += 1;
    });
    await page.goto(`${origin}/account`, { waitUntil: "networkidle" });
    await heading(page, "Log in").waitFor();
    expect(bytes).toBeGreaterThan(50_000);
    expect(bytes, `${fromNetwork} requests`).toBeLessThan(MAX_FIRST_PAGE_BYTES);
    bytes = 0;
    await page.goto(`${origin}/account/login`, { waitUntil: "networkidle" });
    await heading(page, "Log in").waitFor();
    // The page itself, and calls of the API.
    expect(bytes).toBeLessThan(10_000);
    await devtools.detach();
  });

  test("a person registers and confirms the address by the mail", async () => {
    await registerInPortal(page, system, origin, ada);
    // The token was in the fragment, and is gone from the address and from the history.
    expect(page.url()).toBe(`${origin}/account/verify-email`);
  });

  test("a wrong password is said at once, and the right one opens the account", async () => {
    await logInToPortal(page, origin, ada.email);
    await heading(page, "Your account").waitFor();
    // A script in a name is a text.
    await expect.poll(() => page.getByLabel("First name").inputValue()).toBe(ada.firstName);
    expect(await page.title()).toBe("Your account – Gatehouse");
    await page.reload();
    await heading(page, "Your account").waitFor();
  });

  test("an authenticator app is set up, and the next login asks for its code", async () => {
    await page.goto(`${origin}/account/security`);
    await page.getByRole("button", { name: "Set up an app" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Your password").fill("Correct-Horse-42");
    await dialog.getByRole("button", { name: "Continue" }).click();
    await dialog.getByRole("img", { name: "QR code for an authenticator app" }).waitFor();
    expect(await seriousProblems(page)).toEqual([]);
    secret = (await dialog.locator(".key").innerText()).replaceAll(" ", "");
    await dialog.getByLabel("Code of the app").fill(await nextCode());
    await dialog.getByRole("button", { name: "Turn it on" }).click();
    await dialog.getByRole("heading", { name: "Your recovery codes" }).waitFor();
    expect(await dialog.getByRole("listitem").count()).toBe(10);
    await dialog.getByRole("button", { name: "I have kept them" }).click();
    await page.getByText("You have 10 recovery codes left.").waitFor();

    await page.getByRole("button", { name: "Log out" }).click();
    await heading(page, "Log in").waitFor();
    await logInToPortal(page, origin, ada.email);
    await heading(page, "One more step").waitFor();
    expect(await seriousProblems(page)).toEqual([]);
    await page.getByLabel("Code", { exact: true }).fill("000000");
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByText("The code is not right").waitFor();
    await page.getByLabel("Code", { exact: true }).fill(await nextCode());
    await page.getByRole("button", { name: "Continue" }).click();
    await heading(page, "Your account").waitFor();
  });

  test("a passkey is added and renamed, and logs in", async () => {
    const devtools = await context.newCDPSession(page);
    await devtools.send("WebAuthn.enable");
    await devtools.send("WebAuthn.addVirtualAuthenticator", {
      options: {
        protocol: "ctap2",
        transport: "internal",
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    });
    await page.goto(`${origin}/account/security`);
    await page.getByRole("button", { name: "Add a passkey" }).click();
    await page.getByRole("button", { name: /^Rename / }).waitFor();
    await page.getByRole("button", { name: /^Rename / }).click();
    await page.getByRole("dialog").getByLabel("Name").fill(SCRIPT);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText(SCRIPT, { exact: true }).waitFor();
    expect(await page.title()).toBe("Security – Gatehouse");

    await page.getByRole("button", { name: "Log out" }).click();
    // The offer in the field, which the authenticator answers without a click, or the button.
    const button = page.getByRole("button", { name: "Log in with a passkey" });
    await Promise.race([
      heading(page, "Your account").waitFor(),
      button.click({ timeout: 30_000 }).then(() => heading(page, "Your account").waitFor()),
    ]).catch(() => heading(page, "Your account").waitFor());
    await devtools.detach();
  });

  test("another session is seen and ended", async () => {
    const api = apiClient(system.url);
    const grace = { email: "grace.portal@example.com", firstName: "Grace", lastName: "Hopper" };
    await page.getByRole("button", { name: "Log out" }).click();
    await heading(page, "Log in").waitFor();
    await context.clearCookies();
    await registerInPortal(page, system, origin, grace);
    const other = await api.post("/auth/login", { email: grace.email, password: "Correct-Horse-42" });
    await logInToPortal(page, origin, grace.email);
    await heading(page, "Your account").waitFor();
    await page.getByRole("link", { name: "Sessions" }).click();
    await page.getByRole("button", { name: /This is not me/ }).click();
    await page.getByText("The session has ended.").waitFor();
    const after = await api.get("/auth/me", { token: other.body.data.accessToken });
    expect(after.status).toBe(401);
  });

  test("no page has a serious problem for assistive technology, in both themes and both languages", async () => {
    for (const scheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme: scheme });
      for (const name of PAGES) {
        await page.goto(`${origin}/account/${name}`, { waitUntil: "networkidle" });
        await page.getByRole("button", { name: "Log out" }).waitFor();
        expect(await seriousProblems(page), `${scheme} ${name}`).toEqual([]);
        // Nothing is wider than a small phone.
        expect(await page.evaluate("document.documentElement.scrollWidth"), name).toBeLessThanOrEqual(360);
      }
    }
    const stranger = await browser.newContext({ locale: "de-DE", viewport: { width: 360, height: 740 } });
    const open = await stranger.newPage();
    for (const scheme of ["light", "dark"] as const) {
      await open.emulateMedia({ colorScheme: scheme });
      for (const name of OPEN_PAGES) {
        await open.goto(`${origin}/account/${name}`, { waitUntil: "networkidle" });
        await open.getByRole("heading", { level: 1 }).waitFor();
        expect(await open.evaluate("document.documentElement.lang")).toBe("de");
        expect(await seriousProblems(open), `${scheme} ${name}`).toEqual([]);
        expect(await open.evaluate("document.documentElement.scrollWidth"), name).toBeLessThanOrEqual(360);
      }
    }
    await stranger.close();
  });

  test("the keyboard alone logs out and in", async () => {
    await page.goto(`${origin}/account/sessions`, { waitUntil: "networkidle" });
    const focused = () =>
      page.evaluate("document.activeElement.textContent || document.activeElement.name") as Promise<string>;
    const tabTo = async (text: string) => {
      for (let presses = 0; presses < 30 && (await focused()) !== text; presses += 1)
        await page.keyboard.press("Tab");
      expect(await focused()).toBe(text);
    };
    await tabTo("Log out");
    await page.keyboard.press("Enter");
    await heading(page, "Log in").waitFor();
    await tabTo("email");
    await page.keyboard.type("grace.portal@example.com");
    await tabTo("password");
    await page.keyboard.type("Correct-Horse-42");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Log out" }).waitFor();
  });

  test("all of it asked no other origin, broke no policy, and left no token in an address or in storage", async () => {
    expect(watched.problems).toEqual([]);
    const isSecret = /eyJ[\w-]{10,}|[?&](?:token|code|accessToken|refreshToken|tempToken)=(?!undefined)/;
    // A mail's link itself: its page forgets it at once.
    const own = watched.addresses.filter(
      (address) => !address.startsWith(`${origin}/auth/verify-email?token=`),
    );
    expect(own.length).toBeGreaterThan(50);
    expect(own.filter((address) => isSecret.test(address))).toEqual([]);
    const stored = await page.evaluate(
      "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])",
    );
    expect(String(stored)).not.toMatch(/eyJ|refresh/);
  });
});

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { Browser, BrowserContext, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  expectSound,
  heading,
  logInToPortal,
  logOut,
  PORTAL_PASSWORD,
  tokenOfBrowser,
} from "../../support/browser/portal.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { totpApp } from "../../support/people/totp-app.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import type { System } from "../../support/system/system.ts";

const PAYMENT = { amount: 25_000, currency: "EUR", payee: "ACME <b>Ltd</b>", reference: "invoice 8" };
/** It turns the direction of what follows. */
const DISGUISED = { ...PAYMENT, payee: "ACME \u202eLtd" };

let system: System;
let api: ApiClient;
let origin: string;
/** Listed in `PORTAL_RETURN_TO`. */
let shopUrl: string;
let shop: Server;
let browser: Browser;
let context: BrowserContext;
let page: Page;
let user: { email: string; password: string; accessToken: string };
let codes: string[];

describe.skipIf(CHROMIUM === undefined)("approvals and ways back in Chromium", () => {
  beforeAll(async () => {
    system = oneSystem();
    api = apiClient(system.url);
    origin = system.url;
    shopUrl = (system.environment.PORTAL_RETURN_TO ?? "").split("=")[1] ?? "";
    shop = createServer((_request, response) =>
      response
        .setHeader("content-type", "text/html")
        .end("<!doctype html><title>Shop</title><h1>The shop</h1>"),
    ).listen(Number(new URL(shopUrl).port), "127.0.0.1");
    await once(shop, "listening");
    browser = await launchChromium();
  });
  beforeEach(async () => {
    context = await browser.newContext({ locale: "en-GB", viewport: { width: 360, height: 740 } });
    page = await context.newPage();
    return () => context.close();
  });
  afterAll(async () => {
    await browser?.close();
    shop?.close();
  });

  /** With a second factor. */
  const becomePayer = async () => {
    const { accessToken: token, ...made } = await api.newUser();
    const change = { currentPassword: made.password, newPassword: PORTAL_PASSWORD };
    expect((await api.post("/auth/change-password", change, { token })).status).toBe(200);
    user = { ...made, password: PORTAL_PASSWORD, accessToken: token };
    await proveAddress(system, api, user);
    const { secret } = (await api.post("/auth/mfa/setup", { password: PORTAL_PASSWORD }, { token })).body
      .data;
    const code = await totpApp(secret)();
    codes = (await api.post("/auth/mfa/enable", { code }, { token })).body.data.recoveryCodes;
  };
  const oneMoreStep = async () => {
    await heading(page, "One more step").waitFor();
    await page.getByLabel("Code", { exact: true }).fill(codes.pop() ?? "");
    await page.getByRole("button", { name: "Continue" }).click();
  };
  const logIn = async () => {
    await becomePayer();
    await logInToPortal(page, origin, user.email);
    await oneMoreStep();
    await heading(page, "Your account").waitFor();
  };
  const payWith = (token: string, approval?: string, payment = PAYMENT) =>
    api.post("/payments", payment, {
      token,
      ...(approval && { headers: { "gatehouse-approval": approval } }),
    });
  const ask = async (token: string, payment = PAYMENT) => {
    await api.post("/payees", { name: payment.payee }, { token });
    const answer = await payWith(token, undefined, payment);
    expect(answer.body.error?.code).toBe("approval_required");
    return answer.body.error.details.approval as { id: string; token: string };
  };
  const open = (id: string, to: string) =>
    page.goto(`${origin}/account/approvals/${id}?return_to=${encodeURIComponent(to)}`);

  test("a person sees exactly what is asked, approves it, comes back, and the payment goes through once", async () => {
    await logIn();
    const token = await tokenOfBrowser(page);
    const { id, token: approval } = await ask(token);
    await open(id, `${shopUrl}done?order=7`);
    await heading(page, "Do you approve this?").waitFor();
    const facts = page.locator("dl.facts");
    await expect.poll(() => facts.innerText()).toContain("POST /payments");
    const shown = await facts.innerText();
    const expected = ["€250.00", "sent as 25000", "EUR", "ACME <b>Ltd</b>", "in this browser"];
    for (const text of expected) expect(shown).toContain(text);
    await expectSound(page, "an approval");
    await page.getByLabel("Code", { exact: true }).fill("AAAA-AAAA-AAAA-AAAA");
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByText("The code is not right").waitFor();
    expect((await payWith(token, approval)).body.error.code).toBe("approval_required");

    await page.getByLabel("Code", { exact: true }).fill(codes.pop() ?? "");
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page.waitForURL(`${shopUrl}done?order=7`);
    expect((await payWith(token, approval)).status).toBe(201);
    await open(id, shopUrl);
    await page.getByText("It was approved and carried out.").waitFor();
    expect(await page.getByRole("button", { name: "Approve", exact: true }).count()).toBe(0);
    await page.getByRole("link", { name: "Back to Shop" }).click();
    await heading(page, "The shop").waitFor();
  });

  test("what another session asks for is refused here, not approved; of another person it shows nothing", async () => {
    await logIn();
    const begun = await api.post("/auth/login", { email: user.email, password: PORTAL_PASSWORD });
    const proof = { tempToken: begun.body.data.tempToken, code: codes.pop() };
    const stranger = (await api.post("/auth/mfa/verify", proof)).body.data.accessToken as string;
    const { id, token: approval } = await ask(stranger, DISGUISED);
    const list = new URL("/auth/sessions", origin).href;
    await page.route(list, (route) => route.abort("connectionreset"));
    await open(id, "https://evil.example/");
    await page.getByText("Another of your sessions has asked for this.").waitFor();
    // Which one is not known: that it has ended would be a false comfort.
    expect(await page.locator("dl.facts").innerText()).not.toContain("has ended");
    await page.unroute(list);
    expect(await page.locator("dl.facts").innerText()).toContain("ACME \u27e8U+202E\u27e9Ltd");
    expect(await page.getByRole("button", { name: "Approve", exact: true }).count()).toBe(0);
    expect(await page.getByLabel("Code", { exact: true }).count()).toBe(0);
    // Not listed, so there is no way there.
    expect(await page.getByRole("link", { name: /^Back to/ }).count()).toBe(0);
    await page.getByRole("button", { name: "Refuse" }).click();
    await page.getByText("Refused. It will not be carried out.").waitFor();
    expect((await payWith(stranger, approval, DISGUISED)).body.error.code).toBe("approval_expired");

    const other = await api.newUser();
    const mail = await api.post("/auth/login", { email: other.email, password: other.password });
    expect((await api.get(`/auth/me/approvals/${id}`, { token: mail.body.data.accessToken })).status).toBe(
      404,
    );
    await page.goto(`${origin}/account/approvals/0199a000-0000-7000-8000-000000000001`);
    await page.getByText("It is not there any more.").waitFor();
  });

  test("everything that waits for a person is in one list, also what another session asks, and leaves it when it is decided", async () => {
    await logIn();
    await page.getByRole("link", { name: "Approvals" }).click();
    await page.getByText("Nothing waits for your approval.").waitFor();
    await page.getByText("You have approved nothing yet.").waitFor();
    await expectSound(page, "no approvals");
    const begun = await api.post("/auth/login", { email: user.email, password: PORTAL_PASSWORD });
    const proof = { tempToken: begun.body.data.tempToken, code: codes.pop() };
    const stranger = (await api.post("/auth/mfa/verify", proof)).body.data.accessToken as string;
    await ask(stranger, DISGUISED);
    await ask(await tokenOfBrowser(page));
    await page.reload();
    const [waiting, past] = [0, 1].map((nth) => page.locator(".section").nth(nth).locator(".rows > li")) as [
      Locator,
      Locator,
    ];
    await expect.poll(() => waiting.count()).toBe(2);
    expect(await waiting.first().innerText()).toContain("€250.00 · ACME <b>Ltd</b>");
    expect(await waiting.first().innerText()).toContain("in this browser");
    expect(await waiting.last().innerText()).toContain("€250.00 · ACME ⟨U+202E⟩Ltd");
    expect(await waiting.last().innerText()).toContain("another session");
    await expectSound(page, "approvals that wait");

    await page.getByRole("link", { name: "Decide: €250.00 · ACME <b>Ltd</b>" }).click();
    await heading(page, "Do you approve this?").waitFor();
    await page.getByLabel("Code", { exact: true }).fill(codes.pop() ?? "");
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByText("Approved.").waitFor();
    await page.getByRole("link", { name: "Approvals" }).click();
    await expect.poll(() => waiting.count()).toBe(1);
    await page.getByRole("link", { name: /^Look: .*U\+202E/ }).click();
    await page.getByRole("button", { name: "Refuse" }).click();
    await page.getByText("Refused. It will not be carried out.").waitFor();
    await page.getByRole("link", { name: "Approvals" }).click();
    await page.getByText("Nothing waits for your approval.").waitFor();
    await expect
      .poll(() => past.allInnerTexts())
      .toEqual([expect.stringMatching(/<b>Ltd<.*approved/s), expect.stringMatching(/U\+202E.*refused/s)]);
    await expectSound(page, "approvals of the past");
    const speak = (language: string) => page.getByRole("combobox").first().selectOption(language);
    await speak("de");
    await page.getByRole("heading", { level: 2, name: "Bisher" }).waitFor();
    expect(await past.allInnerTexts()).toEqual([
      expect.stringMatching(/freigegeben/),
      expect.stringMatching(/abgelehnt/),
    ]);
    await page.getByRole("link", { name: /^Ansehen: .*U\+202E/ }).click();
    await page.getByText("Abgelehnt. Es wird nicht ausgeführt.").waitFor();
    await speak("en");
    await page.getByText("Refused. It will not be carried out.").waitFor();
  });

  test("a list that nobody looks at asks no more, says so, and goes on with the first key", async () => {
    await logIn();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    const polls = () => asked.filter((url) => url.endsWith("/auth/me/approvals?which=pending")).length;
    await page.clock.install();
    await page.goto(`${origin}/account/approvals`);
    await page.getByText("Nothing waits for your approval.").waitFor();
    const first = polls();
    await page.clock.runFor(60_000);
    await expect.poll(polls).toBeGreaterThan(first);
    await page.clock.fastForward(300_000);
    await page.getByText("nobody has used this page for some time").waitFor();
    await expectSound(page, "an empty chair");
    const last = polls();
    await page.clock.runFor(120_000);
    await page.title();
    expect(polls()).toBe(last);
    await page.keyboard.press("Shift");
    await expect.poll(polls).toBe(last + 1);
    await page.getByText("nobody has used this page").waitFor({ state: "detached" });
  });

  test("whoever is not logged in logs in first, and comes to the approval", async () => {
    await logIn();
    const { id } = await ask(await tokenOfBrowser(page));
    await logOut(page);
    await open(id, shopUrl);
    await page.getByLabel("E-mail address").fill(user.email);
    await page.getByLabel("Password", { exact: true }).fill(PORTAL_PASSWORD);
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await oneMoreStep();
    await heading(page, "Do you approve this?").waitFor();
    // Its session has ended with the logout, and the new one cannot give it.
    await page.getByText("Another of your sessions has asked for this.").waitFor();
    await page.getByRole("link", { name: "Back to Shop" }).waitFor();
  });

  test("a login leads back to a listed application, also by a provider, and to no other address", async () => {
    const login = (to: string) => page.goto(`${origin}/account/login?return_to=${encodeURIComponent(to)}`);
    await login(shopUrl);
    await page.getByRole("link", { name: "Register" }).click();
    await heading(page, "Create an account").waitFor();
    await page.getByRole("link", { name: "Log in" }).click();
    await page.getByRole("button", { name: "Continue with Demo" }).click();
    await page.getByRole("button", { name: "Grace Hopper" }).click();
    await page.waitForURL(shopUrl);
    // Who is logged in goes on at once.
    await login(`${shopUrl}cart`);
    await page.waitForURL(`${shopUrl}cart`);
    const { host } = new URL(shopUrl);
    for (const to of [
      "https://evil.example/",
      "//evil.example",
      "\\\\evil.example",
      "javascript:alert(1)",
      `http://${host}@evil.example/`,
      `http://${host}.evil.example/`,
      `http://${host}/%2e%2e/other`,
    ]) {
      await login(to);
      await heading(page, "Your account").waitFor();
      expect(new URL(page.url()).origin, to).toBe(origin);
    }
  });
});

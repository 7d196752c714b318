import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  ALARM,
  closeVisit,
  expectSound,
  heading,
  logInToPortal,
  openVisit,
  PAYLOADS,
  PORTAL_PASSWORD,
  portalOrigin,
} from "../../support/browser/portal.ts";
import { addAuthenticator } from "../../support/browser/virtual-authenticator.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";

/** Turns the text after it around: the API takes it in no name. */
const REVERSED = "\u202Egnp.exe";
const MAX_USER_AGENT_SHOWN = 60;

let browser: Browser;
let api: ApiClient;

describe.skipIf(CHROMIUM === undefined)("texts of strangers", () => {
  beforeAll(async () => {
    api = apiClient(oneSystem().url);
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test("no name, program, passkey or address bar runs a script, and each is shown as it is", async () => {
    const system = oneSystem();
    const origin = portalOrigin(system);
    const visit = await openVisit(browser, system);
    const { page } = visit;
    await addAuthenticator(page);
    const person = await newPerson();
    await proveAddress(system, api, person);
    for (const payload of PAYLOADS)
      await api.post("/auth/login", person, { headers: { "user-agent": payload } });

    await logInToPortal(page, origin, person.email, person.password);
    await heading(page, "Your account").waitFor();
    for (const payload of PAYLOADS) {
      await page.getByLabel("First name").fill(payload);
      await page.getByLabel("Last name").fill(payload);
      await Promise.all([
        page.waitForResponse((response) => response.request().method() === "PATCH" && response.ok()),
        page.getByRole("button", { name: "Save" }).first().click(),
      ]);
      await page.getByText("Saved.").waitFor();
    }
    await expectSound(page, "hostile names");

    await page.getByRole("link", { name: "Sessions" }).click();
    for (const payload of PAYLOADS)
      await page.getByText(payload.slice(0, MAX_USER_AGENT_SHOWN), { exact: true }).waitFor();
    await expectSound(page, "hostile programs");

    await page.getByRole("link", { name: "Security" }).click();
    await page.getByRole("button", { name: "Add a passkey" }).click();
    await page.getByRole("button", { name: "I have kept them" }).click();
    for (const payload of PAYLOADS) {
      await page.getByRole("button", { name: /^Rename / }).click();
      await page.getByRole("dialog").getByLabel("Name").fill(payload);
      await page.getByRole("button", { name: "Save" }).first().click();
      await page.getByRole("dialog").waitFor({ state: "detached" });
      const name = page.locator(".rows bdi");
      await expect.poll(() => name.first().textContent()).toBe(payload);
    }
    await page.getByRole("button", { name: /^Rename / }).click();
    await page.getByRole("dialog").getByLabel("Name").fill(REVERSED);
    await page.getByRole("button", { name: "Save" }).first().click();
    await page.getByText("This is not valid.").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: /^Remove / }).click();
    await page.getByRole("dialog").waitFor();
    await expectSound(page, "a hostile passkey");

    for (const path of [
      `login?next=javascript:${ALARM}(7)`,
      `login?next=//evil.example`,
      `returned?code=${encodeURIComponent(PAYLOADS[0] ?? "")}#error=${encodeURIComponent(PAYLOADS[2] ?? "")}`,
      `reset-password#token=${encodeURIComponent(PAYLOADS[0] ?? "")}`,
      `${encodeURIComponent(PAYLOADS[0] ?? "")}`,
    ]) {
      await page.goto("about:blank");
      await page.goto(`${origin}/account/${path}`);
      await heading(page).waitFor();
      expect(new URL(page.url()).origin).toBe(origin);
    }
    await closeVisit(visit);
  });
});

/** With the most that an address may have. A quoted text is no address here. */
async function newPerson() {
  const password = PORTAL_PASSWORD;
  const names = { firstName: "Eve", lastName: "Mallory" };
  const quoted = { email: `"<img src=x>"@example.com`, password, ...names };
  expect((await api.post("/auth/register", quoted)).status).toBe(400);
  const email = `eve'+${Date.now()}@example.com`;
  expect((await api.post("/auth/register", { email, password, ...names })).status).toBe(201);
  return { email, password };
}

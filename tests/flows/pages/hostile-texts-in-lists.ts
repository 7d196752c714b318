import { generateSync } from "otplib";
import type { Browser, Page } from "playwright-core";
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
  tokenOfBrowser,
} from "../../support/browser/portal.ts";
import { addAuthenticator } from "../../support/browser/virtual-authenticator.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { evilProvider, sendBack } from "../../support/people/hostile-provider.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

const [IMAGE = "", VECTOR = "", SCRIPT = "", ADDRESS = "", BRACES = "", DOLLAR = ""] = PAYLOADS;
/** As the operator has named it in the providers file. */
const PROVIDER = `Evil <img src=x onerror=${ALARM}(8)>`;
/** As much of a markup as an address can have. */
const EMAIL = "eve{{x}}'`|$&=/?^@evil.example";

let system: System;
let api: ApiClient;
let origin: string;
let browser: Browser;
const eve = { email: `eve.lists.${Date.now()}@example.com`, password: PORTAL_PASSWORD };
let eveId: string;

const press = (page: Page, name: string | RegExp) => page.getByRole("button", { name, exact: true }).click();
const shows = (page: Page, text: string) => page.getByText(text, { exact: true }).first().waitFor();

describe.skipIf(CHROMIUM === undefined)("texts of strangers in lists", { tags: "exhaustive" }, () => {
  beforeAll(async () => {
    system = oneSystem();
    api = apiClient(system.url);
    origin = portalOrigin(system);
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test("providers, their accounts, trusted devices and approvals of the portal", async () => {
    const [code = ""] = await registerWithApp();
    const provider = evilProvider();
    provider.lie({ claims: { sub: "evil", email: EMAIL, given_name: SCRIPT, family_name: IMAGE } });
    const visit = await openVisit(browser, system, { userAgent: IMAGE }, provider.issuer);
    const { page } = visit;
    await sendBack(visit.context, origin);
    await addAuthenticator(page);
    await logInToPortal(page, origin, eve.email);
    await page.getByLabel("Don’t ask for a code on this device for 30 days").check();
    await page.getByLabel("Code", { exact: true }).fill(code);
    await press(page, "Continue");
    await heading(page, "Your account").waitFor();

    await page.getByRole("link", { name: "Sessions" }).click();
    // The session of the page, and the device.
    await expect.poll(() => page.getByText(IMAGE, { exact: true }).count()).toBe(2);
    await expectSound(page, "a hostile device");

    await page.getByRole("link", { name: "Security" }).click();
    await press(page, "Add a passkey");
    await press(page, /^Rename /);
    await page.getByRole("dialog").getByLabel("Name").fill(BRACES);
    await press(page, "Save");
    await shows(page, BRACES);

    await page.getByRole("link", { name: "Other logins" }).click();
    await shows(page, PROVIDER);
    await press(page, `Link ${PROVIDER}`);
    await page.getByRole("dialog", { name: PROVIDER }).waitFor();
    await expectSound(page, "a hostile provider");
    await page.getByLabel("Your password").fill(eve.password);
    await press(page, "Link");
    await page.getByText(`${EMAIL}, linked on`).waitFor();
    await expectSound(page, "a hostile account at a provider");

    const token = await tokenOfBrowser(page);
    for (const payee of PAYLOADS) {
      await api.post("/payees", { name: payee }, { token });
      const order = { amount: 25_000, currency: "EUR", payee, reference: IMAGE };
      expect((await api.post("/payments", order, { token })).body.error.code).toBe("approval_required");
    }
    await page.getByRole("link", { name: "Approvals" }).click();
    for (const payee of PAYLOADS) await shows(page, `€250.00 · ${payee}`);
    await expectSound(page, "hostile approvals");
    await page.getByRole("link", { name: `Decide: €250.00 · ${SCRIPT}` }).click();
    await shows(page, SCRIPT);
    await expectSound(page, "a hostile approval");
    await press(page, "Log out");
    await page.getByRole("button", { name: `Continue with ${PROVIDER}` }).waitFor();
    await expectSound(page, "a hostile provider at the login");
    await closeVisit(visit);
  });

  test("people, clients, credentials, reasons and user agents of the console", async () => {
    const clientId = await makeTraces();
    const visit = await openVisit(browser, system, { viewport: { width: 1200, height: 900 } });
    const { page } = visit;
    await page.goto(`${origin}/console/users`);
    await page.getByLabel("E-mail address").fill(ADMIN.email);
    await page.getByLabel("Password", { exact: true }).fill(ADMIN.password);
    await press(page, "Log in");
    await heading(page, "Users").waitFor();
    await page.getByLabel("Address or name").fill(eve.email);
    await press(page, "Search");
    await page.getByText(`${SCRIPT} ${VECTOR}`).waitFor();
    await expectSound(page, "hostile names in a list");
    await page.getByRole("link", { name: eve.email }).click();
    await heading(page, `${SCRIPT} ${VECTOR}`).waitFor();
    for (const text of [ADDRESS, BRACES]) await page.getByText(text).first().waitFor();
    await page.getByRole("link", { name: IMAGE }).waitFor();
    await expectSound(page, "a hostile person");

    await page.goto(`${origin}/console/clients`);
    await page.getByRole("link", { name: IMAGE }).waitFor();
    await expectSound(page, "hostile clients");
    await page.getByRole("link", { name: IMAGE }).click();
    await heading(page, IMAGE).waitFor();
    await shows(page, DOLLAR);
    await press(page, `Revoke ${DOLLAR}`);
    await page.getByRole("dialog").waitFor();
    await expectSound(page, "a hostile client");
    await page.keyboard.press("Escape");
    await press(page, "Delete the client");
    await page.getByLabel(`Type ${IMAGE} to confirm`).fill(IMAGE);
    await page.getByLabel("Reason").fill(VECTOR);
    await page.getByRole("dialog").getByRole("button", { name: "Delete the client" }).click();
    await page.getByText("The client is gone.").waitFor();

    for (const [resource, reason] of [
      [eveId, DOLLAR],
      [clientId, VECTOR],
    ] as const) {
      await page.goto(`${origin}/console/audit?resource=${resource}`);
      const row = page.getByRole("row").filter({ hasText: reason });
      await expect
        .poll(async () => {
          await press(page, "Refresh");
          return row.count();
        })
        .toBeGreaterThan(0);
      await expectSound(page, "hostile reasons in a list");
      await row.first().getByRole("link").click();
      await page.getByRole("region", { name: "Proof" }).waitFor();
      await shows(page, reason);
      await expectSound(page, "a hostile reason");
    }
    await page.getByRole("link", { name: "Overview" }).click();
    await heading(page, "Overview").waitFor();
    await closeVisit(visit);
  });
});

/** @returns recovery codes. */
async function registerWithApp(): Promise<string[]> {
  const names = { firstName: "Eve", lastName: "Mallory" };
  expect((await api.post("/auth/register", { ...eve, ...names })).status).toBe(201);
  await proveAddress(system, api, eve);
  const { accessToken: token, user } = await api.logIn(eve);
  eveId = user.id;
  const setUp = await api.post("/auth/mfa/setup", { password: eve.password }, { token });
  const code = generateSync({ secret: setUp.body.data.secret, epoch: Math.floor(Date.now() / 1_000) });
  const enabled = await api.post("/auth/mfa/enable", { code }, { token });
  const renamed = await api.call("PATCH", "/auth/me", {
    token,
    body: { firstName: SCRIPT, lastName: VECTOR },
  });
  expect(renamed.status).toBe(200);
  return enabled.body.data.recoveryCodes;
}

/** What a hostile person and a hostile colleague leave behind. @returns the id of a client. */
async function makeTraces(): Promise<string> {
  const wrong = { email: eve.email, password: "not the password" };
  await api.post("/auth/login", wrong, { headers: { "user-agent": ADDRESS } });
  const { accessToken: token } = await api.logIn(ADMIN);
  const unlocked = await api.post(`/admin/users/${eveId}/unlock`, { reason: DOLLAR }, { token });
  expect(unlocked.status).toBe(200);
  const body = { name: IMAGE, ownerId: eveId, permissions: ["payments:read"], reason: VECTOR };
  const { id } = (await api.post("/admin/clients", body, { token })).body.data.client;
  const credential = { kind: "secret", name: DOLLAR, reason: BRACES };
  expect((await api.post(`/admin/clients/${id}/credentials`, credential, { token })).status).toBe(201);
  // Events reach the log later than their cause is answered, and the page reads it once.
  const failures = `/admin/audit?action=user.login_failed&resource=${eveId}`;
  await expect
    .poll(async () => (await api.get(failures, { token })).body.data.entries.length)
    .toBeGreaterThan(0);
  return id;
}

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { generateSync } from "otplib";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  heading,
  logInToPortal,
  PORTAL_PASSWORD,
  registerInPortal,
  tokenOfBrowser,
} from "../../support/browser/portal.ts";
import { apiClient } from "../../support/people/api-client.ts";
import { newMachineClient } from "../../support/people/machine-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN } from "../../support/system/system.ts";

// `npm run trial -- screenshots`: every page in both themes and languages, wide and narrow, into a folder outside of the repository.

const FOLDER = process.env.SCREENSHOTS;
const OPEN = [
  "login",
  "register",
  "forgot-password",
  "reset-password#token=x",
  "verify-email#token=x",
  "no-such-page",
];
const OWN = ["", "security", "approvals", "sessions", "providers"];
const SIZES = { wide: { width: 1200, height: 800 }, narrow: { width: 360, height: 740 } };

test.skipIf(CHROMIUM === undefined || FOLDER === undefined)("screenshots", async () => {
  const folder = FOLDER as string;
  await mkdir(folder, { recursive: true });
  const system = oneSystem();
  const origin = `http://localhost:${system.ports.GATEWAY_PORT}`;
  const browser = await launchChromium();
  try {
    const context = await browser.newContext({ locale: "en-GB" });
    const page = await context.newPage();
    const email = "screenshots@example.com";
    await registerInPortal(page, system, origin, { email, firstName: "Ada", lastName: "Lovelace" });
    let count = 0;
    const shoot = async (name: string) => {
      for (const [size, viewport] of Object.entries(SIZES)) {
        await page.setViewportSize(viewport);
        for (const colorScheme of ["light", "dark"] as const) {
          await page.emulateMedia({ colorScheme });
          for (const language of ["en", "de"]) {
            await page.getByRole("combobox").first().selectOption(language);
            await page.locator(`html[lang=${language}]`).waitFor({ state: "attached" });
            const file = `${name}-${size}-${colorScheme}-${language}.png`;
            await page.screenshot({ path: join(folder, file), fullPage: true });
            count += 1;
          }
        }
      }
      await page.getByRole("combobox").first().selectOption("en");
    };
    for (const path of OPEN) {
      await show(page, `${origin}/account/${path}`);
      await shoot(path.split("#", 1)[0] ?? path);
    }
    const person = { email, password: PORTAL_PASSWORD };
    const [recoveryCode = ""] = await setUpApp(system.url, person);
    await logInToPortal(page, origin, email);
    await page.getByLabel("Code", { exact: true }).waitFor();
    await shoot("second-factor");
    await page.getByLabel("Code", { exact: true }).fill(recoveryCode);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByRole("button", { name: "Log out" }).waitFor();
    const approval = await askForApproval(system.url, page);
    for (const path of [...OWN, `approvals/${approval}`]) {
      await show(page, `${origin}/account/${path}`);
      await shoot(path === "" ? "account" : path.replace(approval, "one").replace("/", "-"));
    }
    const rooms = await consoleRooms(system.url);
    await context.clearCookies();
    await page.goto(`${origin}/console/users`);
    await page.getByLabel("E-mail address").fill(ADMIN.email);
    await page.getByLabel("Password", { exact: true }).fill(ADMIN.password);
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await page.getByRole("heading", { name: "Users" }).waitFor();
    for (const [name, path] of Object.entries(rooms)) {
      await show(page, `${origin}/console/${path}`);
      await shoot(`console-${name}`);
    }
    await show(page, `${origin}/console/${rooms.user}`);
    await page.getByRole("button", { name: "Disable the account" }).click();
    await page.getByRole("dialog").waitFor();
    await page.setViewportSize(SIZES.narrow);
    await page.screenshot({ path: join(folder, "console-act-narrow.png") });
    // One changed letter on the way.
    await page.route("**/admin/audit/checkpoint", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()).replace("time 2", "time 3") });
    });
    await show(page, `${origin}/console/${rooms.entry}`);
    await page.getByRole("alert").first().waitFor();
    await shoot("console-alarm");
    // Beside the lists: the second factor, an approval, and the alarm.
    expect(count).toBe((OPEN.length + OWN.length + Object.keys(rooms).length + 3) * 8);
  } finally {
    await browser.close();
  }
});

/** @returns recovery codes. */
async function setUpApp(url: string, person: { email: string; password: string }): Promise<string[]> {
  const api = apiClient(url);
  const { accessToken: token } = await api.logIn(person);
  const setUp = await api.post("/auth/mfa/setup", { password: person.password }, { token });
  const code = generateSync({ secret: setUp.body.data.secret, epoch: Math.floor(Date.now() / 1_000) });
  return (await api.post("/auth/mfa/enable", { code }, { token })).body.data.recoveryCodes;
}

/** As an application in the same browser does. @returns the id. */
async function askForApproval(url: string, page: Page): Promise<string> {
  const token = await tokenOfBrowser(page);
  const api = apiClient(url);
  const order = { amount: 25_000, currency: "EUR", payee: "ACME Ltd", reference: "invoice 8" };
  await api.post("/payees", { name: order.payee }, { token });
  return (await api.post("/payments", order, { token })).body.error.details.approval.id;
}

/** Makes what they show. */
async function consoleRooms(url: string) {
  const api = apiClient(url);
  const user = await api.newUser();
  for (let failures = 0; failures < 3; failures += 1)
    await api.post("/auth/login", { email: user.email, password: "not the password" });
  const client = await newMachineClient(api, ["payments:read", "payments:write"]);
  await client.add({ kind: "secret", name: "rotation of May" });
  await client.add({ kind: "api_key" });
  const { accessToken: token } = await api.logIn(ADMIN);
  const wanted = { name: "Tickets", url: "https://tickets.example/hook", types: ["gatehouse.user.*"] };
  const webhook = await api.post("/admin/webhooks", wanted, { token });
  const found = await api.get("/admin/audit?action=auth.register&outcome=success", { token });
  return {
    overview: "overview",
    audit: "audit",
    entry: `audit/${found.body.data.entries[0].id}`,
    users: "users",
    user: `users/${user.user.id}`,
    clients: "clients",
    "new-client": "clients/new",
    client: `clients/${client.id}`,
    webhooks: "webhooks",
    "new-webhook": "webhooks/new",
    webhook: `webhooks/${webhook.body.data.webhook.id}`,
    roles: "roles",
    system: "system",
  };
}

async function show(page: Page, url: string): Promise<void> {
  await page.goto("about:blank");
  await page.goto(url, { waitUntil: "networkidle" });
  await heading(page).waitFor();
}

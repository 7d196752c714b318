import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";
import { expect, test } from "vitest";
import { CHROMIUM } from "../../support/chromium.ts";
import { oneSystem } from "../../support/one-system.ts";
import { logInToPortal, registerInPortal } from "../../support/portal.ts";

// `npm run screenshots`: every page in both themes and languages, wide and narrow, into a folder outside of the repository.

const FOLDER = process.env.SCREENSHOTS;
const OPEN = [
  "login",
  "register",
  "forgot-password",
  "reset-password#token=x",
  "verify-email#token=x",
  "no-such-page",
];
const OWN = ["", "security", "sessions", "providers"];
const SIZES = { wide: { width: 1200, height: 800 }, narrow: { width: 360, height: 740 } };

test.skipIf(CHROMIUM === undefined || FOLDER === undefined)("screenshots", async () => {
  const folder = FOLDER as string;
  await mkdir(folder, { recursive: true });
  const system = oneSystem();
  const origin = `http://localhost:${system.ports.GATEWAY_PORT}`;
  const browser = await chromium.launch({ executablePath: CHROMIUM as string, args: ["--no-sandbox"] });
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
    await logInToPortal(page, origin, email);
    await page.getByRole("button", { name: "Log out" }).waitFor();
    for (const path of OWN) {
      await show(page, `${origin}/account/${path}`);
      await shoot(path === "" ? "account" : path);
    }
    expect(count).toBe((OPEN.length + OWN.length) * 8);
  } finally {
    await browser.close();
  }
});

async function show(page: Page, url: string): Promise<void> {
  await page.goto("about:blank");
  await page.goto(url, { waitUntil: "networkidle" });
  await page.getByRole("heading", { level: 1 }).waitFor();
}

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { BrowserContext, Page } from "playwright-core";
import { expect } from "vitest";
import { linkIn, mailAbout } from "./mailbox.ts";
import type { System } from "./system.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PORTAL_PASSWORD = "Correct-Horse-42";

interface Violation {
  id: string;
  impact: string;
  nodes: { html: string; failureSummary: string }[];
}

/** What axe calls serious or critical on the page as it stands. */
export async function seriousProblems(page: Page): Promise<string[]> {
  // By the debugger, which no policy of the page refuses.
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Runtime.evaluate", { expression: AXE });
  const { result, exceptionDetails } = await devtools.send("Runtime.evaluate", {
    expression:
      "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => JSON.stringify(violations))",
    awaitPromise: true,
  });
  await devtools.detach();
  expect(exceptionDetails).toBeUndefined();
  const violations = JSON.parse(String(result.value)) as Violation[];
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`));
}

export interface Watched {
  /** Requests to other origins, and what the page's policy refused or the console called an error. */
  problems: string[];
  /** Of every request, and of every page that was shown. */
  addresses: string[];
}

/** From now on. 401 and other refusals of the API are no problem: the browser logs each. */
export function watch(context: BrowserContext, origin: string): Watched {
  const watched: Watched = { problems: [], addresses: [] };
  context.on("request", (request) => {
    watched.addresses.push(request.url());
    const { protocol, origin: asked } = new URL(request.url());
    if (protocol.startsWith("http") && asked !== origin) watched.problems.push(`request to ${request.url()}`);
  });
  context.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      watched.problems.push(message.text());
  });
  context.on("weberror", (error) => watched.problems.push(String(error.error())));
  return watched;
}

/** Registers in the portal, and confirms the address with password by the link in the mail. */
export async function registerInPortal(
  page: Page,
  system: System,
  origin: string,
  person: { email: string; firstName: string; lastName: string },
): Promise<void> {
  await page.goto(`${origin}/account/register`);
  await page.getByLabel("First name").fill(person.firstName);
  await page.getByLabel("Last name").fill(person.lastName);
  await page.getByLabel("E-mail address").fill(person.email);
  await page.getByLabel("Password", { exact: true }).fill(PORTAL_PASSWORD);
  await page.getByRole("button", { name: "Create the account" }).click();
  await page.getByRole("heading", { name: "Look into your mail" }).waitFor();
  const link = linkIn(await mailAbout(system, person.email, "Confirm your e-mail address"));
  await page.goto(origin + link.pathname + link.search);
  await page.getByLabel("Your password").fill(PORTAL_PASSWORD);
  await page.getByRole("button", { name: "Confirm the address" }).click();
  await page.getByRole("heading", { name: "Your e-mail address is confirmed" }).waitFor();
}

export async function logInToPortal(page: Page, origin: string, email: string): Promise<void> {
  await page.goto(`${origin}/account/login`);
  await page.getByLabel("E-mail address").fill(email);
  await page.getByLabel("Password", { exact: true }).fill(PORTAL_PASSWORD);
  await page.getByRole("button", { name: "Log in", exact: true }).click();
}

export const heading = (page: Page, name: string) =>
  page.getByRole("heading", { name, level: 1, exact: true });

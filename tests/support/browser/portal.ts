import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, BrowserContext, BrowserContextOptions, Page, Request } from "playwright-core";
import { expect, onTestFailed, TestRunner } from "vitest";
import { linkIn, mailAbout } from "../people/mailbox.ts";
import { allLogs, type System } from "../system/system.ts";
import { debuggerOf } from "./chromium.ts";
import { type BrowserSecrets, noteSecrets } from "./secrets-of-browser.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const PORTAL_PASSWORD = "Correct-Stable-42";

/** What axe calls serious or critical on the page as it stands. */
export async function seriousProblems(page: Page): Promise<string[]> {
  return inPage<string[]>(page, "seriousProblems()");
}

/**
 * The page as it stands, with open dialogs and problems of fields: nothing serious or critical for assistive technology,
 * in the other language; no colours without contrast, in both themes; nothing wider than the window, in both languages.
 */
export async function expectSound(page: Page, state: string): Promise<void> {
  expect(await inPage<string[]>(page, "soundness()"), state).toEqual([]);
}

/** In Arabic: from right to left, nothing wider than a window or in the way of assistive technology. */
export async function expectTurned(page: Page, state: string): Promise<void> {
  for (const width of [1_280, 360]) {
    await page.setViewportSize({ width, height: 800 });
    const { scrollWidth, dir, lang } = await page.evaluate<Record<string, unknown>>(`(() => {
      const { scrollWidth, dir, lang } = document.documentElement;
      return { scrollWidth, dir, lang };
    })()`);
    expect([scrollWidth, dir, lang], `${state} at ${width}`).toEqual([width, "rtl", "ar"]);
    expect(await seriousProblems(page), `${state} at ${width}`).toEqual([]);
  }
}

/** Runs in the page. A dialog makes the choice of the language inert for people, not for a script. */
const IN_PAGE = `
  async function seriousProblems(options) {
    const { violations } = await axe.run(document, { resultTypes: ["violations"], ...options });
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => id + ": " + html + " " + failureSummary));
  }
  async function speak(language) {
    const choice = [...document.querySelectorAll("header select")].find(({ options }) =>
      [...options].some(({ value }) => value === language));
    if (choice === undefined || choice.value === language) return;
    const skip = document.querySelector(".skip");
    const before = skip.textContent;
    choice.value = language;
    choice.dispatchEvent(new Event("change", { bubbles: true }));
    while (skip.textContent === before) await new Promise((done) => setTimeout(done, 5));
  }
  async function soundness() {
    const problems = [];
    const first = document.documentElement.lang;
    const add = (found, where) => problems.push(...found.map((problem) => where + ": " + problem));
    const other = first === "de" ? "en" : "de";
    for (const language of [other, first]) {
      await speak(language);
      if (language === other) add(await seriousProblems({ rules: { "color-contrast": { enabled: false } } }), language);
      const width = document.documentElement.scrollWidth;
      if (width > window.innerWidth) add([width + " px wide: " + wide()], language);
    }
    // The other theme has other colours, and nothing else.
    const { dataset } = document.documentElement;
    const chosen = dataset.theme;
    for (const theme of ["light", "dark"]) {
      dataset.theme = theme;
      add(await seriousProblems({ runOnly: ["color-contrast"] }), theme);
    }
    if (chosen === undefined) delete dataset.theme;
    else dataset.theme = chosen;
    return problems;
  }
  function wide() {
    return [...document.querySelectorAll("body *")]
      .filter((element) => element.getBoundingClientRect().right > window.innerWidth + 0.5)
      .map(({ tagName, className }) => tagName + "." + className).join(" ");
  }
`;

/** By the debugger, which no policy of the page refuses. */
async function inPage<T>(page: Page, call: string): Promise<T> {
  const devtools = await debuggerOf(page);
  const loaded = await devtools.send("Runtime.evaluate", { expression: "'axe' in window" });
  if (loaded.result.value !== true) await devtools.send("Runtime.evaluate", { expression: AXE });
  const { result, exceptionDetails } = await devtools.send("Runtime.evaluate", {
    expression: `(async () => { ${IN_PAGE}; return JSON.stringify(await ${call}); })()`,
    awaitPromise: true,
  });
  expect(exceptionDetails?.exception?.description).toBeUndefined();
  return JSON.parse(String(result.value)) as T;
}

export interface Watched {
  /** Requests to other origins, what the page's policy refused, scripts of strangers that ran, errors of the console. */
  problems: string[];
  /** Of every request to the first origin, and of every page that was shown. */
  addresses: string[];
}

/** What a script calls that a stranger has written into a field. */
export const ALARM = "gatehouseAlarm";

/** What a stranger would write. Each is shown as the text that it is. */
export const PAYLOADS = [
  `<img src=x onerror=${ALARM}(1)>`,
  `"><svg/onload=${ALARM}(2)>`,
  `</title><script>${ALARM}(3)</script>`,
  `javascript:${ALARM}(4)//`,
  `{{${ALARM}(5)}}$t(x)`,
  `\${${ALARM}(6)}`,
];

/** From now on. 401 and other refusals of the API are no problem: the browser logs each. */
export async function watch(context: BrowserContext, ...origins: string[]): Promise<Watched> {
  const watched: Watched = { problems: [], addresses: [] };
  await context.exposeBinding(ALARM, (_source, what) => watched.problems.push(`a script ran: ${what}`));
  await context.addInitScript(`document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
    ${ALARM}("refused by " + violatedDirective + ": " + blockedURI))`);
  context.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (origin === origins[0]) watched.addresses.push(request.url());
    if (protocol.startsWith("http") && !origins.includes(origin))
      watched.problems.push(`request to ${request.url()}`);
  });
  context.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      watched.problems.push(message.text());
  });
  context.on("dialog", (dialog) => {
    watched.problems.push(`a dialog opened: ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on("weberror", (error) => watched.problems.push(String(error.error())));
  return watched;
}

/** A busy machine is slow, not broken. */
const PATIENCE_MS = 90_000;

/** Somebody's browser. */
export interface Visit {
  context: BrowserContext;
  page: Page;
  watched: Watched;
  system: System;
  secrets: BrowserSecrets;
}

/** A small phone. WebAuthn takes no addresses, so its host has a name. @param others origins that it may ask. */
export async function openVisit(
  browser: Browser,
  system: System,
  options: BrowserContextOptions = {},
  ...others: string[]
): Promise<Visit> {
  const context = await browser.newContext({
    locale: "en-GB",
    viewport: { width: 360, height: 740 },
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  const watched = await watch(context, portalOrigin(system), ...others);
  const secrets = noteSecrets(context, portalOrigin(system));
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  if (TestRunner.getCurrentTest() !== undefined) reportFailures(page);
  return { context, page, watched, system, secrets };
}

/** What the page showed, and which calls were not answered or with a fault of ours, in the message of the failed test. */
function reportFailures(page: Page): void {
  const faults: string[] = [];
  const report = (request: Request, what: string) =>
    faults.push(`${request.method()} ${new URL(request.url()).pathname} ${what}`);
  page.on("requestfailed", (request) => report(request, request.failure()?.errorText ?? ""));
  page.on("response", (response) => {
    if (response.status() >= 429) report(response.request(), String(response.status()));
  });
  onTestFailed(async ({ task }) => {
    const shown = await page.locator("body").innerText({ timeout: 5_000 }).catch(String);
    const [error] = task.result?.errors ?? [];
    if (error === undefined) return;
    const seen = `${new URL(page.url()).pathname}, ${JSON.stringify(shown.slice(0, 400))}, ${faults.join(", ")}`;
    error.message = `${error.message.split("\n", 1)[0]} at ${seen}\n${error.message}`;
    error.stack = `${error.message}\n${error.stack}`;
  });
}

export const portalOrigin = (system: Pick<System, "ports">): string =>
  `http://localhost:${system.ports.GATEWAY_PORT}`;

/** Asserts what must be true whatever happened in a browser, and closes it. */
export async function closeVisit({ context, page, watched, system, secrets }: Visit): Promise<void> {
  const stored = await page.evaluate<string[]>(
    "[...Object.entries({ ...localStorage, ...sessionStorage }), ['cookie', document.cookie]].map(String)",
  );
  const addresses = watched.addresses.map(withoutProtocol);
  expect(stored.filter((text) => SECRET.test(text) && !text.startsWith(PUBLIC_HASHES))).toEqual([]);
  expect(await page.evaluate("indexedDB.databases()")).toEqual([]);
  expect(addresses.filter((address) => SECRET.test(address))).toEqual([]);
  expect(watched.problems).toEqual([]);
  const known = [...(await secrets.all())];
  const logs = await allLogs(system);
  const places = { ...logs, "the storage": stored.join("\n"), "the addresses": addresses.join("\n") };
  const found = Object.entries(places).flatMap(([place, text]) =>
    known.filter((secret) => text.includes(secret)).map((secret) => `${place}: ${secret}`),
  );
  expect(found).toEqual([]);
  await context.close();
}

/**
 * Without what is in addresses by its nature: a mail's link itself, and the codes of a login at a provider, which are
 * worth nothing without the verifier of the tab.
 */
function withoutProtocol(address: string): string {
  const { pathname, search } = new URL(address);
  if (/^\/auth\/[a-z-]+$/.test(pathname) && /^\?token=[\w-]+$/.test(search)) return pathname;
  const isProvider = /^\/auth\/(?:demo|evil)(?:\/|$)/.test(pathname) || pathname === "/account/returned";
  return isProvider
    ? pathname + search.replaceAll(/\b(codeChallenge|code|state)=[\w-]+/g, "$1")
    : pathname + search;
}
/** What the console keeps of the audit log, which is full of hashes. */
const PUBLIC_HASHES = "gatehouse.audit-log,";
/** A JWT, or what the API gives for one use: 43 characters for 256 bits. */
const SECRET = /eyJ[\w-]{10,}|(?<![\w-])[\w-]{43}(?![\w-])/;

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
  await page.getByRole("heading", { name: "Check your inbox" }).waitFor();
  await openMailLink(page, system, { to: person.email, subject: "Confirm your e-mail address" });
  await page.getByLabel("Your password").fill(PORTAL_PASSWORD);
  await page.getByRole("button", { name: "Confirm the address" }).click();
  await page.getByRole("heading", { name: "Your e-mail address is confirmed" }).waitFor();
}

/** The link of the newest mail with a subject, once there are as many as expected. */
export async function openMailLink(
  page: Page,
  system: System,
  { to, subject, count = 1 }: { to: string; subject: string; count?: number },
): Promise<void> {
  const link = linkIn(await mailAbout(system, to, subject, count));
  await page.goto(portalOrigin(system) + link.pathname + link.search);
}

export async function logInToPortal(
  page: Page,
  origin: string,
  email: string,
  password = PORTAL_PASSWORD,
): Promise<void> {
  await page.goto(`${origin}/account/login`);
  await page.getByLabel("E-mail address").fill(email);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Log in", exact: true }).click();
}

/** Waits for the answer: a page that is left before it may find the session still alive. */
export async function logOut(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Log out", exact: true }).click();
  await heading(page, "Log in").waitFor();
}

/** The heading of a page, or the one with a name, as the scripts draw it. The one of the document before cannot get the focus. */
export const heading = (page: Page, name?: string) =>
  page
    .locator("body:not(:has(#app h1:not([tabindex])))")
    .getByRole("heading", { level: 1, ...(name !== undefined && { name, exact: true }) });

/** Whether the header shows all of an address. */
export function shownAtTop(page: Page, email: string): Promise<boolean> {
  const person = page.getByRole("banner").getByText(email, { exact: true });
  return person.evaluate((box) => box.clientWidth > 0 && box.scrollWidth <= box.clientWidth);
}

/** What an application of this browser has, in the same session. */
export function tokenOfBrowser(page: Page): Promise<string> {
  return page.evaluate(async () => {
    const headers = { "gatehouse-client": "browser" };
    const response = await fetch("/auth/refresh", { method: "POST", headers });
    return ((await response.json()) as { data: { accessToken: string } }).data.accessToken;
  });
}

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHROMIUM, debuggerOf, launchChromium } from "../../support/browser/chromium.ts";
import {
  closeVisit,
  expectSound,
  heading,
  logInToPortal,
  openVisit,
  portalOrigin,
  seriousProblems,
  shownAtTop,
} from "../../support/browser/portal.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { mailAbout } from "../../support/people/mailbox.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import type { System } from "../../support/system/system.ts";

/** Answers without it are not the gateway's. */
const MARK = { "gatehouse-answer": "gateway" };
/** The first page of the portal in the longest language, with everything that it loads: what has been freed stays free. */
const MAX_FIRST_PAGE_BYTES = 115_000;
const MAX_DOCS_BYTES = 60_000;
const UNREACHABLE = "The server cannot be reached. Check your connection and try again.";
/** A list of the account: its page, what it asks for, and what it says when there is nothing. */
const LISTS = [
  { room: "Security", call: "/auth/passkeys", empty: "You have no passkey." },
  { room: "Approvals", call: "/auth/me/approvals?which=pending", empty: "Nothing waits for your approval." },
  { room: "Sessions", call: "/auth/sessions", empty: "this one" },
  { room: "Other logins", call: "/auth/me/identities", empty: "Not linked" },
];

let browser: Browser;
let system: System;
let api: ApiClient;
let origin: string;

describe.skipIf(CHROMIUM === undefined)("pages and their states", () => {
  beforeAll(async () => {
    system = oneSystem();
    api = apiClient(system.url);
    origin = portalOrigin(system);
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  test.each([
    ["en-GB", "Log in"],
    ["de-DE", "Anmelden"],
    ["es-ES", "Iniciar sesión"],
    ["fr-FR", "Connexion"],
  ])("the first page is small in %s, comes from the gateway alone, and is kept", async (locale, title) => {
    const visit = await openVisit(browser, system, { locale });
    const { page } = visit;
    const devtools = await debuggerOf(page);
    await devtools.send("Network.enable");
    let bytes = 0;
    let fromNetwork = 0;
    devtools.on("Network.loadingFinished", ({ encodedDataLength }) => {
      bytes += encodedDataLength;
      if (encodedDataLength > 0) fromNetwork += 1;
    });
    await page.goto(`${origin}/account`, { waitUntil: "networkidle" });
    await heading(page, title).waitFor();
    expect(bytes).toBeGreaterThan(50_000);
    expect(bytes, `${fromNetwork} requests`).toBeLessThan(MAX_FIRST_PAGE_BYTES);
    bytes = 0;
    await page.goto(`${origin}/account/login`, { waitUntil: "networkidle" });
    await heading(page, title).waitFor();
    // The page itself, and calls of the API.
    expect(bytes).toBeLessThan(10_000);
    await closeVisit(visit);
  });

  test("a first visit asks for no session; a reload and another tab keep one; after a logout nothing is asked again", async () => {
    const visit = await openVisit(browser, system);
    const { page, context } = visit;
    const calls: string[] = [];
    context.on("response", (answer) => {
      const { pathname } = new URL(answer.url());
      if (answer.status() >= 400 || pathname === "/auth/refresh")
        calls.push(`${answer.status()} ${pathname}`);
    });
    const firstVisits = async () => {
      for (const path of [
        "/account",
        "/console",
        "/account/approvals/0199a000-0000-7000-8000-000000000001",
      ]) {
        await page.goto(origin + path, { waitUntil: "networkidle" });
        await page.locator("input[type=password]").waitFor();
      }
      expect(calls.splice(0)).toEqual([]);
    };
    await firstVisits();
    const person = await api.newUser();
    await page.goto(`${origin}/account`);
    await fillLogin(page, person);
    await heading(page, "Your account").waitFor();
    await page.reload();
    await heading(page, "Your account").waitFor();
    const tab = await context.newPage();
    await tab.goto(`${origin}/account/sessions`);
    await tab.getByText("this one").waitFor();
    // The other tab may have got the token of this one.
    expect(new Set(calls.splice(0))).toEqual(new Set(["200 /auth/refresh"]));
    await page.getByRole("button", { name: "Log out" }).click();
    for (const one of [page, tab]) await heading(one, "Log in").waitFor();
    await tab.close();
    await firstVisits();
    await closeVisit(visit);
  });

  test("/docs is small, loads nothing, opens the call that its address names, and can be read folded and unfolded in both schemes", async () => {
    const visit = await openVisit(browser, system);
    const { page } = visit;
    const devtools = await debuggerOf(page);
    await devtools.send("Network.enable");
    const loaded: number[] = [];
    devtools.on("Network.loadingFinished", ({ encodedDataLength }) => loaded.push(encodedDataLength));
    await page.goto(`${origin}/docs`, { waitUntil: "networkidle" });
    expect(loaded.filter((bytes) => bytes > 0)).toHaveLength(1);
    expect(loaded[0]).toBeLessThan(MAX_DOCS_BYTES);
    expect(await page.locator("details[open]").count()).toBe(0);
    await expectSound(page, "folded");
    const call = page.locator("#logIn");
    await page.goto(`${origin}/docs#logIn`);
    await call.getByText("curl -X POST").waitFor();
    await call.getByRole("link", { name: "invalid_credentials" }).click();
    expect(await page.locator("#error-invalid_credentials").boundingBox()).toMatchObject({ x: 16 });
    await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true");
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(360);
    // One of each chapter.
    const others = "details:not(h2 + p + details)";
    await page.evaluate(`for (const each of document.querySelectorAll('${others}')) each.remove()`);
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await seriousProblems(page), colorScheme).toEqual([]);
    }
    await closeVisit(visit);
  });

  test("a button whose call takes long is busy, and says so, until the answer is there", async () => {
    const visit = await openVisit(browser, system);
    const { page } = visit;
    const { promise: isLet, resolve: letThrough } = Promise.withResolvers<void>();
    await page.route("**/auth/forgot-password", async (route) => {
      await isLet;
      await route.continue();
    });
    await page.goto(`${origin}/account/forgot-password`);
    await page.getByLabel("E-mail address").fill("nobody@example.com");
    const button = page.getByRole("button", { name: "Send the link" });
    expect(await button.getAttribute("aria-busy")).toBe(null);
    await button.click();
    await page.getByRole("status").getByText("Still working …").waitFor();
    expect(await button.getAttribute("aria-busy")).toBe("true");
    await expectSound(page, "a call that takes long");
    letThrough();
    await heading(page, "Check your inbox").waitFor();
    expect(await page.getByText("Still working …").count()).toBe(0);
    await closeVisit(visit);
  });

  test("without scripts a page says in the language of the browser that it needs them", async () => {
    const context = await browser.newContext({
      javaScriptEnabled: false,
      locale: "de-DE",
      viewport: { width: 360, height: 740 },
    });
    const page = await context.newPage();
    for (const path of ["/account/login", "/console"]) {
      await page.goto(origin + path);
      expect(await page.locator("noscript strong").innerText()).toBe("Diese Seite braucht JavaScript");
    }
    await context.close();
  });

  test("before its scripts run, a page for everybody has its frame and its heading, where they stay", async () => {
    for (const [locale, path, title] of [
      ["en-GB", "login", "Log in"],
      ["de-DE", "register", "Konto anlegen"],
      ["pt-BR", "forgot-password", "Forgot your password?"],
      ["fr-CA", "login?next=%2Fsecurity", "Connexion"],
    ] as const) {
      const visit = await openVisit(browser, system, { locale });
      const { page } = visit;
      await page.route(/\.js$/, (route) => route.abort());
      await page.goto(`${origin}/account/${path}`);
      await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
      const places = () =>
        Promise.all([page.locator(".brand"), page.locator("h1")].map((part) => part.boundingBox()));
      const before = await places();
      expect(await page.locator("html").getAttribute("lang")).toBe(
        locale === "pt-BR" ? "en" : locale.slice(0, 2),
      );
      await page.unroute(/\.js$/);
      await page.goto(`${origin}/account/${path}`);
      await page.locator("input").first().waitFor();
      await heading(page, title).waitFor();
      expect(await places()).toEqual(before);
      await visit.context.close();
    }
  });

  test("pages for everybody: as they open, and with every field left empty or wrong", async () => {
    const visit = await openVisit(browser, system, { locale: "de-DE" });
    const { page } = visit;
    const open = async (path: string) => {
      await page.goto(`${origin}/account/${path}`);
      await heading(page).waitFor();
    };
    for (const path of [
      "login",
      "register",
      "forgot-password",
      "reset-password",
      "returned",
      "no-such-page",
    ]) {
      await open(path);
      expect(await page.evaluate("document.documentElement.lang")).toBe("de");
      await expectSound(page, path);
    }
    for (const [path, fields] of [
      ["login", 2],
      ["register", 3],
      ["forgot-password", 1],
    ] as const) {
      // Another fragment alone would load nothing.
      await page.goto("about:blank");
      await open(path);
      await page.locator("button[type=submit]").click();
      await expect.poll(() => page.getByText("Bitte ausfüllen.").count()).toBe(fields);
      await expectSound(page, `${path}, empty`);
    }
    await page.goto("about:blank");
    await open("confirm-email-change#token=x");
    await heading(page, "Dieser Link gilt nicht mehr").waitFor();
    await expectSound(page, "a link that never was");
    const person = await api.newUser();
    await open("register");
    // A person with one name.
    await page.getByLabel("Vorname").fill("Ada");
    await page.getByLabel("E-Mail-Adresse").fill("ada");
    await page.getByLabel("Passwort", { exact: true }).fill("password");
    await page.locator("button[type=submit]").click();
    await page.getByText("Bitte eine E-Mail-Adresse eingeben").waitFor();
    await page.getByLabel("E-Mail-Adresse").fill(person.email);
    await page.locator("button[type=submit]").click();
    await page.getByText("Dieses Passwort ist zu leicht zu erraten.").waitFor();
    await expectSound(page, "a password that is too easy");
    await page.getByLabel("Passwort", { exact: true }).fill("Correct-Horse-42");
    await page.locator("button[type=submit]").click();
    await page.getByText("Zu dieser E-Mail-Adresse gibt es schon ein Konto.").waitFor();
    await expectSound(page, "an address that has an account");
    const speak = (language: string) => page.getByRole("combobox").first().selectOption(language);
    await speak("en");
    await page.getByText("This e-mail address has an account already.").waitFor();
    await page.getByLabel("First name").fill("");
    await page.locator("button[type=submit]").click();
    await page.getByText("Fill in this field.").waitFor();
    await speak("de");
    await page.getByText("Bitte ausfüllen.").waitFor();
    await page.getByLabel("Vorname").fill("Ada");
    // Letters that the browser itself would refuse.
    await page.getByLabel("E-Mail-Adresse").fill(`jörg-${person.email}`);
    await page.locator("button[type=submit]").click();
    await heading(page, "Prüfen Sie Ihr Postfach").waitFor();
    await expectSound(page, "registered");
    // Back to the form, as it was left.
    await page.getByRole("button", { name: "Falsche Adresse?" }).click();
    await heading(page, "Konto anlegen").waitFor();
    expect(await page.getByLabel("Vorname").inputValue()).toBe("Ada");
    expect(await page.getByLabel("Passwort", { exact: true }).inputValue()).toBe("Correct-Horse-42");
    const right = `right-${person.email}`;
    await page.getByLabel("E-Mail-Adresse").fill(right);
    await page.locator("button[type=submit]").click();
    await page.getByText(right).waitFor();
    await page.getByRole("button", { name: "Link noch einmal schicken" }).click();
    await page.getByText(`Eine Mail an ${right} ist unterwegs.`).waitFor();
    await expectSound(page, "registered, and asked for another mail");
    await speak("en");
    await page.getByRole("button", { name: "Send the link again" }).click();
    await page.getByText(`A mail is on its way to ${right}.`).waitFor();
    // In the language that the page had at the registration.
    await mailAbout(system, right, "Bestätigen Sie Ihre E-Mail-Adresse", 3);
    await page.getByRole("button", { name: "Wrong address?" }).click();
    await heading(page, "Create an account").waitFor();
    await closeVisit(visit);
  });

  test("after many wrong passwords a known and an unknown address read the same, and a new password is one click away", async () => {
    const { email } = await api.newUser();
    const tries = {
      "en-GB": /^Too many tries for this address lately\. Wait \d+ minutes, or set a new password\.$/,
      "de-DE": /^Zuletzt gab es zu viele Versuche mit dieser Adresse\. Warten Sie \d+ Minuten oder setzen/,
    };
    for (const [locale, address] of [
      ["en-GB", email],
      ["de-DE", `nobody-${email}`],
    ] as const) {
      const visit = await openVisit(browser, system, { locale });
      const { page } = visit;
      await page.goto(`${origin}/account/login`);
      await page.getByRole("textbox").first().fill(address);
      for (let round = 0; round < 5; round += 1) {
        expect(await page.getByText(tries[locale]).count()).toBe(0);
        await page.locator("input[type=password]").fill(`wrong ${round}`);
        const answer = page.waitForResponse(`${origin}/auth/login`);
        await page.locator("button[type=submit]").click();
        await answer;
      }
      await page.getByText(tries[locale]).waitFor();
      await expectSound(page, "many wrong passwords");
      await page.getByRole("alert").getByRole("link").click();
      await page.waitForURL(`${origin}/account/forgot-password`);
      expect(await page.getByRole("textbox").inputValue()).toBe(address);
      await closeVisit(visit);
    }
  });

  test("whoever types an address finds the page: login, registration, a new password, or that there is none", async () => {
    for (const [locale, logIn, register, missing, home] of [
      ["en-GB", "Log in", "Create an account", "There is no such page", "To the start page"],
      ["de-DE", "Anmelden", "Konto anlegen", "Diese Seite gibt es nicht", "Zur Startseite"],
    ] as const) {
      const visit = await openVisit(browser, system, { locale });
      const { page } = visit;
      await page.goto(`${origin}/login`);
      await heading(page, logIn).waitFor();
      await page.goto(`${origin}/register`);
      await heading(page, register).waitFor();
      await page.goto(`${origin}/.well-known/change-password`);
      await page.waitForURL(`${origin}/account/login?next=%2Fsecurity`);
      expect((await page.goto(`${origin}/nope`))?.status()).toBe(404);
      await heading(page, missing).waitFor();
      await page.getByRole("link", { name: home }).click();
      await page.getByRole("link", { name: /^(?:Your account|Ihr Konto)/ }).click();
      await heading(page, logIn).waitFor();
      expect(new URL(page.url()).pathname).toBe("/account/login");
      await closeVisit(visit);
    }
  });

  test("without the server the next page says so on the present one, which keeps what was typed; a file of an older release loads the page again", async () => {
    const person = await api.newUser();
    for (const [locale, unreachable, firstName, room] of [
      ["en-GB", UNREACHABLE, "First name", "Sessions"],
      ["de-DE", "Der Server ist nicht erreichbar.", "Vorname", "Sitzungen"],
    ] as const) {
      const visit = await openVisit(browser, system, { locale });
      const { page, context } = visit;
      const first = page.getByLabel(firstName);
      const register = /^Regist/;
      await page.goto(`${origin}/account/login`);
      await page.getByRole("textbox").first().fill(person.email);
      await context.setOffline(true);
      await page.getByRole("link", { name: register }).click();
      await page.getByText(unreachable).waitFor();
      expect(await page.getByRole("textbox").first().inputValue()).toBe(person.email);
      await context.setOffline(false);
      await page.getByRole("link", { name: register }).click();
      await page.waitForURL(`${origin}/account/register`);
      await page.goBack();
      await fillLogin(page, person);
      await first.fill("Augusta");
      const present = page.url();
      await context.setOffline(true);
      await page.getByRole("link", { name: room }).click();
      await page.getByText(unreachable).waitFor();
      expect([await first.inputValue(), page.url()]).toEqual(["Augusta", present]);
      await context.setOffline(false);
      await expectSound(page, "the next page is out of reach");
      await page.route(/\/assets\/sessions-/, (route) => route.fulfill({ status: 404 }), { times: 1 });
      await page.getByRole("link", { name: room }).click();
      await heading(page, room).waitFor();
      expect(await page.getByText(unreachable).count()).toBe(0);
      await closeVisit(visit);
    }
  });

  test("a session that ends while somebody types goes on for the same person, and shows nobody else anything", async () => {
    const [person, other] = [await api.newUser(), await api.newUser()];
    for (const [locale, typed, texts] of [
      [
        "en-GB",
        "Augusta",
        {
          ...{
            ended: "You were logged out",
            out: "You are logged out.",
            name: "First name",
            room: "Sessions",
          },
          ...{ leave: "Do not go on", change: "Change the address", held: "before this was saved" },
        },
      ],
      [
        "de-DE",
        "Auguste",
        {
          ...{
            ended: "Sie wurden abgemeldet",
            out: "Sie sind abgemeldet.",
            name: "Vorname",
            room: "Sitzungen",
          },
          ...{ leave: "Nicht weitermachen", change: "Adresse ändern", held: "bevor das gespeichert war" },
        },
      ],
    ] as const) {
      const visit = await openVisit(browser, system, { locale });
      const { page, context } = visit;
      const first = page.getByLabel(texts.name);
      const dialog = page.getByRole("dialog", { name: texts.ended });
      const save = page.locator("button[type=submit]").first();
      const endSession = async () => {
        const { accessToken: token } = await api.logIn(person);
        expect((await api.post("/auth/logout", { scope: "all" }, { token })).status).toBe(200);
      };
      const logInBeside = async (who: typeof person) => {
        const opened = context.waitForEvent("page");
        await dialog.getByRole("link").click();
        const tab = await opened;
        await fillLogin(tab, who);
        await tab.getByText(who.email).first().waitFor();
        await tab.close();
      };
      await page.goto(`${origin}/account`);
      await fillLogin(page, person);
      await first.fill(typed);
      await endSession();
      await save.click();
      await dialog.waitFor();
      expect(await page.locator("body").innerText()).not.toContain(person.email);
      expect(await first.isVisible()).toBe(false);
      await expectSound(page, "logged out while typing");
      await page.keyboard.press("Escape");
      expect(await dialog.isVisible()).toBe(true);
      await logInBeside(person);
      await dialog.waitFor({ state: "detached" });
      expect(await first.inputValue()).toBe(typed);
      const saved = page.waitForResponse((answer) => answer.request().method() === "PATCH");
      await save.click();
      expect((await saved).status()).toBe(200);

      await page.getByRole("button", { name: texts.change }).click();
      const sheet = page.getByRole("dialog", { name: texts.change });
      // While the notice covers the page, it is no dialog for anybody.
      const password = page.locator("[role=dialog] [type=password]");
      await sheet.locator("[type=email]").fill("ada@example.com");
      await password.fill(person.password);
      await endSession();
      await sheet.locator("[type=submit]").click();
      await dialog.waitFor();
      // Not even hidden.
      expect(await password.inputValue()).toBe("");
      await logInBeside(person);
      await dialog.waitFor({ state: "detached" });
      await sheet.getByText(texts.held).waitFor();
      expect(await sheet.locator("[type=email]").inputValue()).toBe("ada@example.com");
      await page.keyboard.press("Escape");

      await first.fill("Countess");
      await endSession();
      await save.click();
      await logInBeside(other);
      await dialog.waitFor({ state: "detached" });
      await page.getByText(other.email).first().waitFor();
      expect(await first.inputValue()).toBe("Ada");
      expect(await page.content()).not.toMatch(new RegExp(`Countess|${person.email}`));
      await page.locator("header button").click();
      await page.waitForURL(`${origin}/account/login`);
      expect(await page.getByText(texts.ended).count()).toBe(0);
      await page.getByRole("status").getByText(texts.out).waitFor();

      await fillLogin(page, person);
      await first.fill("Countess");
      await endSession();
      await save.click();
      await dialog.getByRole("button", { name: texts.leave }).click();
      await page.getByRole("status").getByText(texts.ended).waitFor();
      expect(await page.content()).not.toMatch(new RegExp(`Countess|${person.email}`));
      await fillLogin(page, person);
      await page.getByRole("link", { name: texts.room }).click();
      await api.logIn(person);
      await heading(page, texts.room).waitFor();
      expect(await page.locator("h1:focus").innerText()).toBe(texts.room);
      await page.reload();
      await page.getByRole("button", { name: /^(?:End all other|Alle anderen)/ }).click();
      await page
        .getByRole("status")
        .getByText(/^(?:All other|Alle anderen) .*(?:ended|beendet)\.$/)
        .waitFor();
      await expectSound(page, "ended the other sessions");
      await endSession();
      await page.locator("nav a").nth(1).click();
      // Nothing was typed: the login, and the way back.
      await page.waitForURL(/\/account\/login\?next=%2F(?:sessions|security)$/);
      await page.getByRole("status").getByText(texts.ended).waitFor();
      await expectSound(page, "logged out");
      await closeVisit(visit);
    }
  });

  test("each list says when it loads, when it failed and when it is empty", {
    tags: "exhaustive",
  }, async () => {
    const person = await api.newUser();
    const visit = await openVisit(browser, system);
    const { page } = visit;
    await enter(page, person);
    for (const { room, call, empty } of LISTS) {
      const failing = new URL(call, origin).href;
      await page.route(failing, (route) => route.abort("connectionreset"));
      await page.getByRole("link", { name: room }).click();
      await page.getByText("This could not be loaded.").first().waitFor();
      await expectSound(page, `${room}, failed`);
      await page.unroute(failing);

      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      await page.route(failing, async (route) => {
        await released;
        await route.continue();
      });
      await page.reload();
      await page.getByText("Loading …").first().waitFor({ state: "attached" });
      await expectSound(page, `${room}, loading`);
      release();
      await page.getByText(empty).waitFor();
      await page.unroute(failing);
      await expectSound(page, `${room}, empty`);
    }
    const again = new URL("/auth/sessions", origin).href;
    await page.route(again, (route) => route.abort("connectionreset"));
    await page.reload();
    await page.getByRole("link", { name: "Sessions" }).click();
    await page.getByText("This could not be loaded.").first().waitFor();
    await page.unroute(again);
    await page.getByRole("button", { name: "Try again" }).first().click();
    await page.getByText("this one").waitFor();
    await closeVisit(visit);
  });

  test("at 360 px the present room is in sight, whole, also in another language, and every room says who is logged in", async () => {
    const visit = await openVisit(browser, system);
    const { page } = visit;
    await page.setViewportSize({ width: 360, height: 740 });
    const person = await api.newUser();
    await enter(page, person);
    await page.goto(`${origin}/account/providers`);
    const room = page.locator(".rooms [aria-current]");
    await room.waitFor();
    for (const language of ["de", "en"]) {
      await page.getByRole("combobox").first().selectOption(language);
      await page.locator(`html[lang=${language}]`).waitFor({ state: "attached" });
      const right = async () => {
        const box = await room.boundingBox();
        return box === null ? Number.POSITIVE_INFINITY : box.x + box.width;
      };
      // The last two rem of the row fade. A row is scrolled by whole pixels.
      await expect.poll(right).toBeLessThanOrEqual(360 - 32 + 1);
      expect(await shownAtTop(page, person.email)).toBe(true);
    }
    for (const { room: name } of LISTS) {
      await page.getByRole("link", { name }).click();
      await heading(page, name).waitFor();
      expect(await shownAtTop(page, person.email), name).toBe(true);
    }
    await closeVisit(visit);
  });

  test("a page whose code fails says so in the page's language", async () => {
    const visit = await openVisit(browser, system);
    const { page, watched } = visit;
    await enter(page, await api.newUser());
    await page.route(new URL("/auth/sessions", origin).href, (route) =>
      route.fulfill({ headers: MARK, json: { success: true, data: { sessions: [null] } } }),
    );
    await page.getByRole("link", { name: "Sessions" }).click();
    await page.getByText("Something went wrong on this page.").waitFor();
    // React reports what the page has thrown.
    expect(watched.problems.splice(0)).not.toEqual([]);
    await page.unrouteAll();
    await page.getByRole("button", { name: "Reload the page" }).click();
    await page.getByText("this one").waitFor();
    await closeVisit(visit);
  });

  test("a form without a connection says so and keeps what was entered; a logout in another tab ends this one", async () => {
    const person = await api.newUser();
    const visit = await openVisit(browser, system);
    const { page, context } = visit;
    await enter(page, person);
    await expectSound(page, "an address that is not confirmed");
    await page.getByRole("button", { name: "Send the link again" }).click();
    await page.getByText(`A mail is on its way to ${person.email}.`).waitFor();
    await context.setOffline(true);
    await page.getByLabel("First name").fill("Augusta");
    await page.getByRole("button", { name: "Save" }).first().click();
    await page.getByText(UNREACHABLE).waitFor();
    await page.getByRole("button", { name: "Log out" }).click();
    // Nobody may believe that they are logged out.
    await page.getByRole("alert").nth(1).waitFor();
    expect(await page.getByRole("alert").allInnerTexts()).toEqual(Array(2).fill(UNREACHABLE));
    await expectSound(page, "offline");
    await context.setOffline(false);
    await page.getByRole("button", { name: "Save" }).first().click();
    await page.getByText("Saved.").waitFor();
    await expectSound(page, "saved");

    const tab = await context.newPage();
    await tab.goto(`${origin}/account/sessions`);
    await tab.getByText("this one").waitFor();
    await page.getByRole("button", { name: "Log out" }).click();
    for (const one of [page, tab]) await heading(one, "Log in").waitFor();
    await closeVisit(visit);
  });
});

/** In any language. */
async function fillLogin(
  page: Page,
  { email, password }: { email: string; password: string },
): Promise<void> {
  await page.getByRole("textbox").first().fill(email);
  await page.locator("input[type=password]").fill(password);
  await page.locator("button[type=submit]").click();
}

async function enter(page: Page, { email, password }: { email: string; password: string }): Promise<void> {
  await logInToPortal(page, origin, email, password);
  await heading(page, "Your account").waitFor();
}

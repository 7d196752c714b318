import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import type { Browser, BrowserContext, Page, Route } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createAuditRecorder } from "#audit-client/record/audit-recorder.ts";
import type { AuditEntry } from "#clients/api/generated/gatehouse.ts";
import { certificateFiles } from "#deploy/local/certificates.ts";
import { ProcessCertificate } from "#kit/rpc/rpc-tls.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import { heading, seriousProblems, type Watched, watch } from "../../support/browser/portal.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

/** What HTML, a template and a reader's eye could take for something else than text. */
const HOSTILE = "<img src onerror=x()>\u200b{{w}}";
/** What is unseen is replaced where the log stores it. */
const SHOWN = HOSTILE.replace("\u200b", "\ufffd");
const ENTRY = /\/admin\/audit\/[0-9a-f-]{36}$/;
/** Of charts, in the page. */
const CUT_LABELS = `[...document.querySelectorAll(".chart text")]
  .filter((label) => label.getBoundingClientRect().right > label.ownerSVGElement.getBoundingClientRect().right + 0.5)
  .map((label) => label.textContent)`;
const CHECKPOINT = /\/admin\/audit\/checkpoint$/;
const CONSISTENCY = /\/admin\/audit\/consistency\?/;

let system: System;
let origin: string;
let api: ApiClient;
let admin: string;
let browser: Browser;
let context: BrowserContext;
let page: Page;
let watched: Watched;
/** Of an entry that every test may open. */
let entryId: string;

async function userOf(role: string) {
  const user = await api.newUser();
  const body = { role, reason: "for a test" };
  expect((await api.call("PATCH", `/admin/users/${user.user.id}`, { token: admin, body })).status).toBe(200);
  return user;
}

async function logIn(into: Page, user: { email: string; password: string }, path: string): Promise<void> {
  await into.goto(`${origin}/console${path}`);
  await into.getByLabel("E-mail address").fill(user.email);
  await into.getByLabel("Password", { exact: true }).fill(user.password);
  await into.getByRole("button", { name: "Log in", exact: true }).click();
}

/** As a service would send it, with hostile text in every field. */
async function recordHostile(): Promise<void> {
  const {
    certificate: certFile,
    key: keyFile,
    authority: caFile,
  } = certificateFiles(join(system.home, "tls"), "gateway");
  const recorder = createAuditRecorder({
    address: `127.0.0.1:${system.ports.AUDIT_PORT}`,
    certificate: new ProcessCertificate({ certFile, keyFile, caFile }),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("gateway"),
  });
  const event = {
    ...({ kind: "event", id: randomUUID(), occurredAt: new Date(), outcome: "failure" } as const),
    actor: { role: HOSTILE, sessionId: HOSTILE, claimedEmail: HOSTILE },
    ...{ clientIp: HOSTILE, userAgent: HOSTILE, resource: HOSTILE, action: `hostile ${HOSTILE}` },
    ...{ requestId: HOSTILE, traceId: HOSTILE, errorCode: HOSTILE, reason: HOSTILE },
  };
  await recorder.recordEvent(event, Date.now() + 30_000);
  await recorder.close(5_000);
}

const alarm = () => page.getByRole("alert").filter({ hasText: "Do not trust this log" });
const proof = () => page.getByRole("region", { name: "Proof" });
const rows = () => page.locator(".table tbody tr");
const textOf = async (route: Route) => {
  const response = await route.fetch();
  return { response, text: await response.text() };
};
const action = () => page.getByRole("combobox", { name: "Action" });
/** While the list is open, the rest of the page is hidden from assistive technology. */
async function enterAction(text: string): Promise<void> {
  await action().fill(text);
  await page.keyboard.press("Tab");
}
/** At this width the filters are folded, and the button says how many are set. */
async function unfold(): Promise<void> {
  const button = page.getByRole("button", { name: /^Filters/ });
  await expect.poll(() => page.getByLabel("Who").isVisible()).toBe(false);
  expect(await button.getAttribute("aria-expanded")).toBe("false");
  await button.focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("Who").waitFor();
  expect(await button.getAttribute("aria-expanded")).toBe("true");
}
const width = () => page.evaluate("document.documentElement.scrollWidth");

describe.skipIf(CHROMIUM === undefined)("the audit log in Chromium", () => {
  beforeAll(async () => {
    system = oneSystem();
    origin = `http://localhost:${system.ports.GATEWAY_PORT}`;
    api = apiClient(system.url);
    admin = (await api.logIn(ADMIN)).accessToken;
    const user = await api.newUser();
    await api.post("/auth/login", { email: user.email, password: "Wrong-Horse-42" });
    await recordHostile();
    const found = await api.get("/admin/audit?action=auth.register&outcome=success", { token: admin });
    entryId = found.body.data.entries[0].id;
    browser = await launchChromium();
    context = await browser.newContext({ locale: "en-GB", viewport: { width: 360, height: 740 } });
    watched = await watch(context, origin);
    page = await context.newPage();
    await logIn(page, await userOf("AUDITOR"), "");
  });
  // A test that fails leaves nothing on the way of the next one.
  afterEach(() => page.unrouteAll({ behavior: "wait" }));
  afterAll(() => browser?.close());

  test("an auditor arrives at figures, which stand in a table as well", async () => {
    await heading(page, "Overview").waitFor();
    const chart = page.getByRole("img", { name: /^Logins: [1-9]/ });
    const reason = page.getByRole("rowheader", { name: "Wrong password" });
    // Counts are some seconds behind the log. Flows before this one may have logged in, and mistyped nothing.
    await expect
      .poll(
        async () => {
          await page.getByRole("button", { name: "Refresh" }).click();
          return (await chart.count()) * (await reason.count());
        },
        { interval: 500 },
      )
      .toBe(1);
    await page.getByText("As a table").click();
    await page.getByRole("columnheader", { name: "Refused steps of logins" }).waitFor();
    await page.getByRole("radio", { name: "7 days" }).check();
    await reason.waitFor();
    await page.getByRole("link", { name: "See the refused logins" }).click();
    await heading(page, "Audit log").waitFor();
    expect(page.url()).toBe(`${origin}/console/audit?action=user.login_failed`);
  });

  test("the overview shows users and services to whoever may see them, and each part without the others", async () => {
    expect(await page.locator(".figures").count()).toBe(0);
    const place = await browser.newContext({ locale: "en-GB", viewport: { width: 360, height: 740 } });
    const open = await place.newPage();
    await logIn(open, ADMIN, "/overview");
    const figure = (name: string) => open.locator(".figures div").filter({ hasText: name }).locator("strong");
    expect(Number(await figure("New in 7 days").textContent())).toBeGreaterThan(1);
    expect(await figure("Mails failed").textContent()).toBe("0");
    expect(await figure("audit-service").textContent()).toBe("Ready");
    expect(await seriousProblems(open)).toEqual([]);
    await open.getByRole("combobox").first().selectOption("de");
    await open.getByText("Mit zweitem Faktor").waitFor();
    expect(await open.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(360);
    await open.getByRole("combobox").first().selectOption("en");
    await open.route(/\/admin\/users\/figures$/, (route) => route.abort());
    await open.reload();
    await figure("audit-service").waitFor();
    expect(await figure("New in 7 days").count()).toBe(0);
    await open.locator(".tiles").waitFor();
    // A gateway that is away has not said that all are ready.
    await open.clock.install();
    await open.reload();
    await figure("audit-service").waitFor();
    await open.route(/\/admin\/health$/, (route) => route.abort());
    const stale = open.getByText("The last question was not answered.");
    await expect
      .poll(async () => {
        await open.clock.runFor(30_000);
        await open.keyboard.press("Shift");
        return stale.count();
      })
      .toBe(1);
    await place.close();
  });

  test("the address that npm start prints compares the key; another raises the alarm, and neither replaces a key", async () => {
    const place = await browser.newContext({ locale: "en-GB" });
    const open = await place.newPage();
    const shown = open.locator(".alarm");
    const setUp = open.getByText("Set up the check of the log");
    const kept = async (): Promise<{ key?: string; comparedAt?: string }> =>
      JSON.parse(await open.evaluate("localStorage.getItem('gatehouse.audit-log') ?? '{}'"));
    const { verifierKey } = (await api.get("/admin/audit/checkpoint", { token: admin })).body.data;
    const printed = /\S+\/console#log=\S+/.exec(system.output())?.[0] ?? "";
    const wrong = "A".repeat(22);
    await logIn(open, await userOf("AUDITOR"), `#log=${wrong}`);
    await shown.getByText("names another key than the server").waitFor();
    expect(new URL(open.url()).hash).toBe("");
    expect(await kept()).not.toHaveProperty("key");
    await open.goto(printed);
    await shown.getByRole("button", { name: "Check again" }).click();
    await shown.waitFor({ state: "detached" });
    await open.getByText("The log’s key").waitFor();
    expect(await setUp.count()).toBe(0);
    const compared = await kept();
    expect(compared).toMatchObject({ key: verifierKey, comparedAt: expect.any(String) });
    await open.goto(`${origin}/console#log=${wrong}`);
    await shown.getByText("names another key than the server").waitFor();
    expect(await kept()).toMatchObject({ key: verifierKey, comparedAt: compared.comparedAt });
    await place.close();
  });

  test("the check of the log is set up in one step, which can be put off", async () => {
    const place = await browser.newContext({ locale: "en-GB", viewport: { width: 360, height: 740 } });
    const open = await place.newPage();
    await logIn(open, await userOf("AUDITOR"), "/overview");
    const begin = open.getByRole("button", { name: "Compare the key" });
    await begin.waitFor();
    expect(await seriousProblems(open)).toEqual([]);
    await open.getByRole("button", { name: "Not now" }).click();
    await open.reload();
    await open.getByRole("button", { name: "Set up the check of the log" }).waitFor();
    expect(await begin.count()).toBe(0);
    await open.evaluate("localStorage.removeItem('gatehouse.audit-log.put-off')");
    await open.reload();
    await begin.click();
    const { verifierKey } = (await api.get("/admin/audit/checkpoint", { token: admin })).body.data;
    await open.getByLabel("The key that you have").fill(`Verifier key: ${verifierKey}`);
    await open.getByRole("button", { name: "Trust this key" }).click();
    await open.getByText("Done. This browser has the right key").waitFor();
    await place.close();
  });

  test("filters are kept for the way back, and who may not read users looks up nobody by an address", async () => {
    await unfold();
    await page.getByLabel("Who").fill("ada@example.com");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByText("Your role may not look up people").waitFor();
    await page.getByLabel("Who").fill("");
    await enterAction("auth.register");
    await page.getByLabel("Result").selectOption("success");
    await page.getByRole("button", { name: "Search" }).click();
    await page.waitForURL(/action=auth\.register&outcome=success/);
    await page.getByRole("button", { name: "Filters (2)" }).waitFor();
    await expect.poll(() => rows().count()).toBeGreaterThan(0);
    expect(await rows().filter({ hasNotText: "auth.register" }).count()).toBe(0);
    await page.goBack();
    await expect.poll(() => action().inputValue()).toBe("user.login_failed");
    await rows().filter({ hasText: "wrong_password" }).first().waitFor();
    await page.goForward();
    await rows().filter({ hasText: "auth.register" }).first().waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
    // One row a call, and no reading, until somebody asks for them.
    await rows().filter({ hasText: "user.login_failed" }).first().waitFor();
    expect(
      await rows()
        .filter({ hasText: /Begun|audit\.|auth\.refresh/ })
        .count(),
    ).toBe(0);
    expect(
      await rows()
        .filter({ hasText: /auth\.register.*Success 201/ })
        .count(),
    ).toBeGreaterThan(0);
    await page.getByLabel("Also what only reads").check();
    await page.getByRole("button", { name: "Search" }).click();
    await page.waitForURL(/audit\?reads=true$/);
    await rows().filter({ hasText: "audit.summarized" }).first().waitFor();
    expect(await rows().filter({ hasText: "Begun" }).count()).toBe(0);
    await page.getByRole("button", { name: "Clear" }).click();
    await page.waitForURL(/audit$/);
    // What was entered and cannot be used goes with it, though the address stays as it is.
    await page.getByLabel("Who").fill("ada@example.com");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByText("Your role may not look up people").waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
    await expect.poll(() => page.getByLabel("Who").inputValue()).toBe("");
    expect(await page.getByText("Your role may not look up people").count()).toBe(0);
    // A span keeps what was entered and not searched yet.
    await enterAction("auth.register");
    await page.getByRole("button", { name: "24 hours" }).click();
    await page.waitForURL(/(?=.*from=)(?=.*action=auth\.register)/);
    // Half a date is no date.
    await page.getByLabel("Until").focus();
    await page.keyboard.type("12");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByText("This is not valid.").waitFor();
  });

  test("an action is found by its name or by plain words, from the keyboard, and any other text may stand there", async () => {
    await page.getByRole("button", { name: "Clear" }).click();
    await page.waitForURL(/audit$/);
    const options = page.getByRole("option");
    await action().fill("login");
    for (const name of ["user.login_failed", "auth.login", "auth.passkey.login"])
      await options.filter({ hasText: name }).first().waitFor();
    await page.getByRole("group", { name: "What happened to a user" }).waitFor();
    expect(await options.filter({ hasText: "auth.register" }).count()).toBe(0);
    // React Aria hides the rest while the list is open, and closes it when the focus leaves: nobody gets to what is hidden.
    const problems = await seriousProblems(page);
    expect(problems.filter((problem) => !problem.startsWith("aria-hidden-focus:"))).toEqual([]);
    expect(await width()).toBeLessThanOrEqual(360);
    await action().fill("refused login");
    await expect.poll(() => options.allInnerTexts()).toEqual(["Login refused\nuser.login_failed"]);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await expect.poll(() => action().inputValue()).toBe("user.login_failed");
    await page.keyboard.press("Enter");
    await page.waitForURL(/action=user\.login_failed$/);
    await rows().filter({ hasText: "Login refused" }).first().waitFor();
    await enterAction("login");
    await page.getByRole("button", { name: "Search" }).click();
    await page.waitForURL(/action=auth\.login$/);
    await enterAction("auth");
    await page.getByRole("button", { name: "Search" }).click();
    await page.waitForURL(/action=auth\.$/);
    await rows().filter({ hasText: "auth.register" }).first().waitFor();
    await enterAction("register");
    await page.getByRole("button", { name: "Search" }).click();
    await page.waitForURL(/action=auth\.register$/);
    await enterAction("payments.create");
    await page.getByRole("button", { name: "Search" }).click();
    await page.waitForURL(/action=payments\.create$/);
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByRole("combobox").first().selectOption("de");
    await page.getByRole("combobox", { name: "Aktion" }).fill("anmeldung abgelehnt");
    await options.filter({ hasText: "Anmeldung abgelehnt" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("combobox").first().selectOption("en");
  });

  test("the page proves an entry, by a key that one compares once", async () => {
    await page.goto(`${origin}/console/audit/${entryId}`);
    await proof().getByText("Proven, by a key that you have not compared yet").waitFor();
    await proof().getByText("It is in the tree of").waitFor();
    // Intent and outcome.
    const steps = page.locator(".steps").getByText("Proven, by a key that you have not compared yet");
    await expect.poll(() => steps.count()).toBe(2);
    const { verifierKey } = (await api.get("/admin/audit/checkpoint", { token: admin })).body.data;
    const pin = async (key: string, button: string) => {
      await page.getByRole("button", { name: button }).first().click();
      await page.getByLabel("The key that you have").fill(key);
      await page.getByRole("button", { name: "Trust this key" }).click();
    };
    await pin("gatehouse.local/audit+00000000+AAAA", "Compare the key");
    await page.getByRole("dialog").getByText("This is not valid.").waitFor();
    await page.keyboard.press("Escape");
    // However late it answers, the reason is the key, not the entry that is checked with it.
    await page.route(CHECKPOINT, (route) => sleep(500).then(() => route.continue()));
    // Of another log: RFC 8032, test 1.
    await pin(
      "gatehouse.local/audit+6d0a0a64+AddamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea",
      "Compare the key",
    );
    await alarm().getByText("The server names another key").waitFor();
    await page.unrouteAll({ behavior: "wait" });
    await page.goto(`${origin}/console/audit`);
    await alarm().waitFor();
    await pin(verifierKey, "The log’s key");
    // By the check that follows, which leaving the page would interrupt.
    await alarm().waitFor({ state: "detached" });
    await page.goto(`${origin}/console/audit/${entryId}`);
    await proof().getByRole("heading", { name: "Proven", exact: true }).waitFor();
    expect(await alarm().count()).toBe(0);
  });

  test("the proven intent of another call is not shown as the intent of this one", async () => {
    const { entries } = (await api.get("/admin/audit?limit=100", { token: admin })).body.data;
    const { entry } = (await api.get(`/admin/audit/${entryId}`, { token: admin })).body.data;
    const other = entries.find(
      (one: AuditEntry) => one.kind === "intent" && one.callId !== entry.callId && one.sequence !== null,
    );
    await page.route(/\/admin\/audit\?.*requestId=/, async (route) => {
      const { response, text } = await textOf(route);
      const answer = JSON.parse(text);
      for (const one of answer.data.entries as { id: string; kind: string }[])
        if (one.kind === "intent") one.id = other.id;
      await route.fulfill({ response, json: answer });
    });
    await page.goto(`${origin}/console/audit/${entryId}`);
    const steps = page.locator(".steps");
    await steps.getByText("This entry is not proven. Nothing of it is shown.").waitFor();
    await expect.poll(() => steps.getByText("Proven", { exact: true }).count()).toBe(1);
    expect(await steps.locator(`a[href$="${other.id}"]`).count()).toBe(0);
  });

  /** A person ends it, without a check. */
  async function endAlarm(): Promise<void> {
    await alarm().getByRole("button", { name: "End the alarm" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "End it" }).click();
    await alarm().waitFor({ state: "detached" });
  }

  async function savedEvidence(): Promise<object> {
    const download = page.waitForEvent("download");
    await alarm().getByRole("button", { name: "Save the evidence" }).click();
    return JSON.parse(await readFile(await (await download).path(), "utf8"));
  }

  /**
   * Opens the page again when there is something to prove consistent: a checkpoint larger than the last one that it has seen.
   * Meanwhile another document of the origin is open, because a check of the page would see the growth first.
   */
  async function openGrown(): Promise<void> {
    const address = page.url();
    await page.goto(`${origin}/openapi.json`);
    const seen = Number(
      await page.evaluate("JSON.parse(localStorage.getItem('gatehouse.audit-log')).last.size"),
    );
    // The search leaves an entry, so that the log grows. Reading a checkpoint leaves none.
    await api.get("/admin/audit?action=auth.register&outcome=success", { token: admin });
    // The second line of a checkpoint is its size.
    const size = async () => {
      const { checkpoint } = (await api.get("/admin/audit/checkpoint", { token: admin })).body.data;
      return Number(checkpoint.split("\n")[1]);
    };
    await expect.poll(size, { interval: 250 }).toBeGreaterThan(seen);
    await page.goto(address);
  }

  const swap = (pattern: RegExp) => (text: string) =>
    text.replace(pattern, (_all, before: string, byte: string) => before + (byte === "A" ? "B" : "A"));
  type Change = [what: string, address: RegExp, change: (text: string) => string];
  const CHANGES: Change[] = [
    ["what is shown", ENTRY, swap(/("entry":.*"method":")(.)/)],
    ["the proof, which is withheld", ENTRY, (text) => text.replace(/"proof":\{.*?\}/, '"proof":null')],
    ["the latest checkpoint", CHECKPOINT, swap(/("checkpoint":".*?time 202)(.)/)],
  ];
  // `verify-entry.db.test.ts` has each of them without a browser.
  const MORE_CHANGES: Change[] = [
    ["the name of a member", ENTRY, swap(/("entry":\{.*"rout)(e)/)],
    ["the leaf", ENTRY, swap(/("leafData":".*userAgent\\":\\")(.)/)],
    ["the leaf's hash", ENTRY, swap(/("leafHash":")(.)/)],
    ["the inclusion proof", ENTRY, swap(/("inclusionProof":\[")(.)/)],
    ["the checkpoint of the proof", ENTRY, swap(/("checkpoint":".*?audit\\n\d+\\n)(.)/)],
    ["its signature", ENTRY, swap(/("checkpoint":".*?— \S+ \S{20})(.)/)],
    ["a brace", ENTRY, (text) => text.replace("{", "(")],
    ["the key", CHECKPOINT, swap(/("verifierKey":".*)(.)"/)],
    ["the consistency proof", CONSISTENCY, swap(/("proof":\[")(.)/)],
  ];
  test.each(CHANGES)("one changed byte of %s raises the alarm", raisesTheAlarm);
  test.each(MORE_CHANGES.map((change) => ({ change })))(
    "one changed byte of $change.0 raises the alarm",
    { tags: "exhaustive" },
    ({ change }) => raisesTheAlarm(...change),
  );
  async function raisesTheAlarm(...[_what, address, change]: Change): Promise<void> {
    let isChanged = false;
    await page.route(address, async (route) => {
      const { response, text } = await textOf(route);
      isChanged ||= change(text) !== text;
      await route.fulfill({ response, body: change(text) });
    });
    await openGrown();
    await alarm().waitFor();
    expect(isChanged).toBe(true);
    await alarm().getByText("gatehouse audit verify --live").waitFor();
    const again = alarm().getByRole("button", { name: "Check again" });
    await again.click();
    await alarm().getByText("The alarm stays.").waitFor();
    await page.unrouteAll({ behavior: "wait" });
    // What is right in the next moment is no excuse.
    await page.reload();
    await proof().waitFor();
    await alarm().waitFor();
    await again.click();
    await alarm().waitFor({ state: "detached" });
    await proof().waitFor();
  }

  test("the answer about another entry is none, later right ones do not end the alarm, and the evidence can be saved", async () => {
    const other = (await api.get("/admin/audit?limit=50", { token: admin })).body.data.entries.at(-1).id;
    await page.route(ENTRY, async (route) => {
      const url = route.request().url().replace(entryId, other);
      await route.fulfill({ response: await route.fetch({ url }) });
    });
    await page.reload();
    await alarm().getByText("The server has answered with another entry").waitFor();
    expect(await seriousProblems(page)).toEqual([]);
    const saved = await savedEvidence();
    expect(saved).toMatchObject({
      finding: "other",
      evidence: { id: entryId, answer: { entry: { id: other } } },
    });
    await page.unrouteAll({ behavior: "wait" });
    await page.getByRole("link", { name: "Overview" }).click();
    await heading(page, "Overview").waitFor();
    await alarm().waitFor();
    // Also for whoever comes back later, and with what was found.
    await page.reload();
    await page.locator(".tiles").waitFor();
    await alarm().getByText("The server has answered with another entry").waitFor();
    const { evidence } = saved as { evidence: object };
    expect(await savedEvidence()).toMatchObject({ finding: "other", entryId, evidence });
    const tab = await context.newPage();
    await tab.goto(`${origin}/console/overview`);
    await tab.getByRole("alert").filter({ hasText: "Do not trust this log" }).waitFor();
    await tab.close();
    // An outage explains nothing, and neither does a log that is right without the entry.
    await page.route(ENTRY, (route) =>
      route.fulfill({ status: 503, json: { success: false, error: { code: "audit_unavailable" } } }),
    );
    await alarm().getByRole("button", { name: "Check again" }).click();
    await alarm().getByText("It could not be checked again.").waitFor();
    await page.unrouteAll({ behavior: "wait" });
    await page.reload();
    await alarm().waitFor();
    await endAlarm();
    await page.reload();
    await page.locator(".log-line").waitFor();
    expect(await alarm().count()).toBe(0);
  });

  test("an alarm whose evidence is larger than a storage stays without it", async () => {
    await page.route(CHECKPOINT, async (route) => {
      const { response, text } = await textOf(route);
      const large = text.replace('"verifierKey":"', `"verifierKey":"${"A".repeat(12_000_000)}`);
      await route.fulfill({ response, body: large });
    });
    await page.reload();
    await alarm().getByText("The server names another key").waitFor();
    await page.unrouteAll({ behavior: "wait" });
    await page.reload();
    await page.locator(".tiles").waitFor();
    await alarm().getByText("The server names another key").waitFor();
    expect(await savedEvidence()).toMatchObject({ finding: "key", evidence: {} });
    await endAlarm();
  });

  test("a log that was rewritten or cut since the last visit is noticed", async () => {
    const change = (expression: string) =>
      page.evaluate(`{
        const memory = JSON.parse(localStorage.getItem("gatehouse.audit-log"));
        ${expression};
        localStorage.setItem("gatehouse.audit-log", JSON.stringify(memory));
      }`);
    const former = await page.evaluate("localStorage.getItem('gatehouse.audit-log')");
    await change(`memory.last.root = memory.last.root.replace(/^./, (first) => (first === "A" ? "B" : "A"))`);
    await page.goto(`${origin}/console/overview`);
    await alarm().getByText("Its past was rewritten").waitFor();
    await endAlarm();
    await change("memory.last.size += 1_000_000");
    await page.goto(`${origin}/console/audit`);
    await alarm().getByText("Entries were cut off").waitFor();
    await page.evaluate(`localStorage.setItem("gatehouse.audit-log", ${JSON.stringify(former)})`);
    await endAlarm();
  });

  test("an outage is no alarm", async () => {
    await page.route(CHECKPOINT, (route) =>
      route.fulfill({ status: 503, json: { success: false, error: { code: "audit_unavailable" } } }),
    );
    await page.goto(`${origin}/console/audit/${entryId}`);
    await page.getByText("This could not be loaded.").waitFor();
    expect(await alarm().count()).toBe(0);
    await page.unrouteAll({ behavior: "wait" });
    await page.getByRole("button", { name: "Try again" }).click();
    await proof().waitFor();
  });

  test("an entry that no checkpoint covers yet says so, and is proven by itself", async () => {
    const receivedAt = [new Date().toISOString(), "2026-01-01T00:00:00.000Z"];
    const address = `${origin}/admin/audit/${entryId}`;
    await page.route(address, async (route) => {
      const { response, text } = await textOf(route);
      const answer = JSON.parse(text);
      const time = receivedAt.shift();
      // As it is in the first second, and while no replica numbers the log.
      const young = { proof: null, entry: { ...answer.data.entry, sequence: null, receivedAt: time } };
      if (time !== undefined) Object.assign(answer.data, young);
      await route.fulfill({ response, json: answer });
    });
    await page.goto(`${origin}/console/audit/${entryId}`);
    await page.getByText("The next checkpoint covers this entry").waitFor();
    await page.getByText("This takes longer than usual").waitFor();
    await proof().waitFor();
    await page.unrouteAll({ behavior: "wait" });
  });

  test("text of strangers is text, in every field", async () => {
    await page.goto(`${origin}/console/audit?outcome=failure`);
    await rows().filter({ hasText: SHOWN }).first().getByRole("link").click();
    await proof().waitFor();
    for (const name of [
      "Role",
      "Session",
      "Claimed address",
      "About",
      "Reason",
      "Error",
      "IP address",
      "Device",
    ]) {
      const fact = page.locator(".facts > div").filter({ has: page.getByText(name, { exact: true }) });
      await fact.getByText(SHOWN).first().waitFor();
    }
    expect(await page.title()).toBe(`hostile ${SHOWN} – Gatehouse`);
    expect(await page.locator("main img").count()).toBe(0);
    expect(await width()).toBeLessThanOrEqual(360);
    expect(await seriousProblems(page)).toEqual([]);
  });

  test("the log is followed, by number: a pause and an interruption lose nothing", async () => {
    await page.goto(`${origin}/console/audit?action=auth.register&outcome=success`);
    await page.getByRole("button", { name: "Follow live" }).click();
    await page.getByText("Nothing has happened since.").waitFor();
    const counted = (count: number) => expect.poll(() => rows().count()).toBe(count);
    await api.newUser();
    await counted(1);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByText("Paused.").waitFor();
    await api.newUser();
    await page.getByRole("button", { name: "Go on" }).click();
    await counted(2);
    await context.setOffline(true);
    await page.getByText("Interrupted. The server cannot be reached.").waitFor();
    await api.newUser();
    await context.setOffline(false);
    await counted(3);
    await page.getByText("No entry is missing.").waitFor();
    expect(await seriousProblems(page)).toEqual([]);
  });

  test("nothing keeps the session of an empty chair: without a person the page asks nothing, says so, and goes on where it was", async () => {
    const chair = await browser.newContext({ locale: "en-GB" });
    const open = await chair.newPage();
    const asked: string[] = [];
    open.on("request", (request) => asked.push(new URL(request.url()).pathname));
    const count = (name: string) => asked.filter((path) => path === `/admin/audit/${name}`).length;
    await logIn(open, await userOf("AUDITOR"), "/audit");
    await heading(open, "Audit log").waitFor();
    await open.clock.install();
    await open.goto(`${origin}/console/audit?action=auth.register&outcome=success`);
    await open.getByRole("button", { name: "Follow live" }).click();
    await open.getByText("Nothing has happened since.").waitFor();
    await api.newUser();
    const shown = open.locator(".table tbody tr");
    await expect
      .poll(async () => {
        await open.clock.runFor(2_000);
        return shown.count();
      })
      .toBe(1);
    await open.keyboard.press("Shift");
    await open.clock.fastForward(240_000);
    await open.getByText("Live: new entries").waitFor();
    await open.clock.fastForward(60_000);
    await open.getByText("nobody has used this page for some time").waitFor();
    await open.getByText("Paused. When you go on").waitFor();
    await api.newUser();
    // What was on the way when it became still.
    await open.clock.runFor(30_000);
    await open.title();
    const last = asked.length;
    await open.clock.runFor(300_000);
    await open.title();
    expect(asked.slice(last)).toEqual([]);
    const checkpoints = count("checkpoint");
    await open.keyboard.press("Shift");
    await expect
      .poll(async () => {
        await open.clock.runFor(2_000);
        return shown.count();
      })
      .toBe(2);
    expect(count("checkpoint")).toBeGreaterThan(checkpoints);
    await open.getByText("Live: new entries").waitFor();
    await chair.close();
  });

  test("what a role may not read any more is asked for no more, until somebody tries again", async () => {
    const accessFile = join(system.home, "access.yaml");
    const shipped = await readFile(accessFile, "utf8");
    const writePermission = (permission: string) =>
      writeFile(
        accessFile,
        shipped
          .replace("  AUDITOR:", `  WATCHER: [${permission}]\n  AUDITOR:`)
          .replace("\nsessions:", "\nsessions:\n  WATCHER: { idleMinutes: 2 }"),
      );
    await writePermission("audit:read");
    const watcher = await api.newUser();
    const promotion = { token: admin, body: { role: "WATCHER", reason: "for a test" } };
    // Both services read the file within a second.
    await expect
      .poll(async () => (await api.call("PATCH", `/admin/users/${watcher.user.id}`, promotion)).status)
      .toBe(200);
    const { accessToken: token } = await api.logIn(watcher);
    const watcherMay = async (permission: string) => {
      await writePermission(permission);
      const status = permission === "audit:read" ? 200 : 403;
      await expect
        .poll(async () => (await api.get("/admin/audit/checkpoint", { token })).status)
        .toBe(status);
    };
    const place = await browser.newContext({ locale: "en-GB" });
    const open = await place.newPage();
    await logIn(open, watcher, "/overview");
    await open.locator(".tiles").waitFor();
    const answered: string[] = [];
    open.on("response", (response) => {
      const { pathname } = new URL(response.url());
      if (pathname.startsWith("/admin/")) answered.push(`${response.status()} ${pathname}`);
    });
    const forbidden = () => [...new Set(answered.filter((answer) => answer.startsWith("403")))].sort();
    /** Somebody is there, and begins nothing. */
    const passMinutes = async (count: number) => {
      for (let minute = 0; minute < count; minute += 1) {
        await open.keyboard.press("Shift");
        await open.clock.runFor(60_000);
      }
    };
    const again = open.getByRole("button", { name: "Try again" });
    await open.clock.install();
    for (const [path, shows, stops, refused] of [
      ["/overview", ".tiles", "You may not read this", ["checkpoint", "summary"]],
      ["/audit?live=true", ".pulse:not(.off)", "You may not read this", ["checkpoint", "tail"]],
      ["/audit", ".log-line", "You may not read the log", ["checkpoint"]],
    ] as const) {
      await watcherMay("audit:read");
      await open.goto(`${origin}/console${path}`);
      await open.locator(shows).waitFor();
      answered.length = 0;
      await watcherMay("clients:read");
      await expect
        .poll(async () => {
          await passMinutes(1);
          return forbidden();
        })
        .toEqual(refused.map((name) => `403 /admin/audit/${name}`));
      // What the page does after an answer may wait for its clock, too.
      await expect
        .poll(async () => {
          await passMinutes(1);
          return open.getByText(stops).first().isVisible();
        })
        .toBe(true);
      await expect
        .poll(async () => {
          const before = answered.length;
          await passMinutes(6);
          return answered.length - before;
        })
        .toBe(0);

      await watcherMay("audit:read");
      // From the last one: each goes when it is used.
      for (const button of (await again.all()).reverse()) await button.click();
      await open.locator(shows).waitFor();
      await again.waitFor({ state: "detached" });
      answered.length = 0;
      await expect
        .poll(async () => {
          await passMinutes(1);
          return refused.filter((name) => !answered.includes(`200 /admin/audit/${name}`));
        })
        .toEqual([]);
    }
    // Sessions of this role end after two minutes without use: the page does not keep one for longer.
    const idle = open.getByText("nobody has used this page for some time");
    await open.keyboard.press("Shift");
    await open.clock.fastForward(60_000);
    await open.title();
    expect(await idle.count()).toBe(0);
    await open.clock.fastForward(60_000);
    await idle.waitFor();
    await place.close();
    await writeFile(accessFile, shipped);
  });

  test("an alarm stands on every page of the console, and each can check again", async () => {
    const administration = await browser.newContext({ locale: "en-GB" });
    const open = await administration.newPage();
    await logIn(open, ADMIN, "/overview");
    await heading(open, "Overview").waitFor();
    await open.getByText(/^Checked: /).waitFor();
    await open.route(CHECKPOINT, async (route) => {
      const { response, text } = await textOf(route);
      await route.fulfill({ response, body: text.replace(/("checkpoint":".*?time 202)./, "$1?") });
    });
    await open.reload();
    const raised = open.getByRole("alert").filter({ hasText: "Do not trust this log" });
    await raised.waitFor();
    await open.setViewportSize({ width: 360, height: 740 });
    await open.emulateMedia({ colorScheme: "dark" });
    const lines = `Math.max(...[...document.querySelectorAll(".alarm code span")].map((word) => word.getClientRects().length))`;
    expect(await open.evaluate(lines)).toBe(1);
    const edge = `getComputedStyle(document.querySelector(".alarm .button.quiet")).borderTopColor`;
    expect(await open.evaluate(edge)).toBe("rgb(255, 255, 255)");
    await open.setViewportSize({ width: 1200, height: 800 });
    for (const name of ["Users", "Clients", "System", "Audit log", "Users"]) {
      await open.getByRole("link", { name, exact: true }).click();
      await heading(open, name).waitFor();
      await raised.waitFor();
    }
    const wrong = open.waitForResponse(CHECKPOINT);
    await raised.getByRole("button", { name: "Check again" }).click();
    await wrong;
    await raised.waitFor();
    await open.unrouteAll({ behavior: "wait" });
    const checked = open.waitForResponse(CHECKPOINT);
    await raised.getByRole("button", { name: "Check again" }).click();
    expect((await checked).status()).toBe(200);
    await raised.waitFor({ state: "detached" });
    await administration.close();
  });

  test("a list has further pages, and its export is a file that says if it is not whole", async () => {
    await page.goto(`${origin}/console/audit`);
    await rows().first().waitFor();
    const first = await rows().count();
    await page.getByRole("button", { name: "Show older" }).click();
    // An intent whose outcome was on the page before is no row.
    await expect.poll(() => rows().count()).toBeGreaterThan(first);
    expect(await rows().filter({ hasText: "Begun" }).count()).toBe(0);
    await unfold();
    expect(await seriousProblems(page)).toEqual([]);
    // Who names no action says whether readings are in the file.
    await page.getByRole("button", { name: "Export" }).click();
    const sheet = page.getByRole("dialog");
    for (const isIn of [false, true]) {
      await sheet.getByLabel("Also what only reads").setChecked(isIn);
      const request = page.waitForRequest(/\/admin\/audit\/export/);
      await sheet.getByRole("button", { name: "JSON Lines" }).click();
      expect((await request).url().includes("hide=routine")).toBe(!isIn);
      await sheet.getByText("which is everything that the search finds").waitFor();
    }
    expect(await seriousProblems(page)).toEqual([]);
    await sheet.getByRole("button", { name: "Close" }).click();
    await enterAction("auth.register");
    await page.getByRole("button", { name: "Search" }).click();
    await page.waitForURL(/auth\.register/);
    await page.getByRole("button", { name: "Export" }).click();
    const exported = async (format: string) => {
      const download = page.waitForEvent("download");
      await page.getByRole("button", { name: format }).click();
      return readFile(await (await download).path(), "utf8");
    };
    const lines = (await exported("JSON Lines"))
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.at(-1)).toEqual({ end: { entries: lines.length - 1, complete: true } });
    expect(lines.slice(0, -1).every(({ action }) => action === "auth.register")).toBe(true);
    await page.getByText(`Saved: ${lines.length - 1} entries, which is everything`).waitFor();
    const table = await exported("CSV");
    expect(table).toMatch(/^sequence,id,/);
    // The gateway has the first entry alone, and says that there are more: it goes on where the page is told to.
    const asked: string[] = [];
    await page.route(/\/admin\/audit\/export/, async (route) => {
      asked.push(new URL(route.request().url()).search);
      const [first] = (await textOf(route)).text.split("\n");
      const end = { entries: 1, complete: asked.length > 1, ...(asked.length === 1 && { nextCursor: "c" }) };
      await route.fulfill({ body: `${first}\n${JSON.stringify({ end })}\n` });
    });
    await exported("CSV");
    await page
      .getByRole("alert")
      .filter({ hasText: /Incomplete: saved 1 entries, .*The whole log has [\d,]{3,}\./ })
      .waitFor();
    expect(await seriousProblems(page)).toEqual([]);
    expect((await exported("Next part")).split("\n")).toHaveLength(3);
    await page.getByText("Saved: 2 entries, which is everything").waitFor();
    expect(asked).toEqual(["?action=auth.register", "?action=auth.register&cursor=c"]);
    await page.unrouteAll({ behavior: "wait" });
    await page.route(/\/admin\/audit\/export/, async (route) => {
      const { response, text } = await textOf(route);
      await route.fulfill({ response, body: text.slice(0, text.indexOf('{"end"')) });
    });
    const downloads: unknown[] = [];
    page.on("download", (download) => downloads.push(download));
    await page.getByRole("button", { name: "JSON Lines" }).click();
    await page.getByText("the export ended too early").waitFor();
    await page.unrouteAll({ behavior: "wait" });
    // The connection breaks after the first piece of the answer.
    await page.evaluate(`{
      const send = window.fetch;
      window.fetch = async (...call) => {
        const response = await send(...call);
        if (!response.url.includes("/admin/audit/export")) return response;
        let pieces = 0;
        const breaking = new TransformStream({
          transform(piece, controller) {
            if (pieces++ === 0) controller.enqueue(piece.slice(0, 1000));
            else controller.error(new TypeError("network error"));
          },
          flush(controller) { controller.error(new TypeError("network error")); },
        });
        return new Response(response.body.pipeThrough(breaking), response);
      };
    }`);
    for (const format of ["CSV", "JSON Lines"]) {
      const answered = page.waitForResponse(/\/admin\/audit\/export/);
      await page.getByRole("button", { name: format }).click();
      await answered;
      await page.getByText("the connection broke after 1 kB").waitFor();
    }
    expect(downloads).toEqual([]);
    await page.reload();
  });

  test("support sees one person's entries, and nothing else of the log", async () => {
    const person = await api.newUser();
    const others = await browser.newContext({ locale: "en-GB" });
    const seen = await watch(others, origin);
    const support = await others.newPage();
    await logIn(support, await userOf("SUPPORT"), "/audit");
    await support.getByText("Name one person").waitFor();
    for (const name of ["Follow live", "Export"])
      expect(await support.getByRole("button", { name }).count()).toBe(0);
    expect(await support.getByRole("link", { name: "Overview" }).count()).toBe(0);
    await support.getByLabel("Who").fill(person.user.id);
    await support.getByRole("button", { name: "Search" }).click();
    // Support may read users, so who and about whom are addresses; the id is beside them. Others see the id.
    const own = support.locator(`[title="${person.user.id}"]`);
    await own.first().waitFor();
    expect(new Set(await own.allInnerTexts())).toEqual(new Set([person.email]));
    expect(seen.addresses.filter((address) => /\/admin\/audit\?.*people=true/.test(address))).toHaveLength(1);
    expect(watched.addresses.filter((address) => address.includes("people="))).toEqual([]);
    await support.getByRole("button", { name: "auth.login" }).first().click();
    await support.getByRole("dialog").getByText(person.user.id).first().waitFor();
    expect(await support.locator(".log-line, .alarm").count()).toBe(0);
    await support.keyboard.press("Escape");
    // By the address, in whatever case: only the id is in an address of the page or of a call.
    await support.getByRole("button", { name: "Clear" }).click();
    await support.getByLabel("Who").fill("nobody@example.com");
    await support.getByRole("button", { name: "Search" }).click();
    await support.getByText("No account has this address.").waitFor();
    await support.getByLabel("Who").fill(` ${person.email.toUpperCase()}`);
    await support.getByLabel("About").fill(person.email);
    await support.getByRole("button", { name: "Search" }).click();
    await support.waitForURL(new RegExp(`actor=${person.user.id}&resource=${person.user.id}$`));
    // Her logins are about her own account.
    await support.getByRole("button", { name: "auth.login" }).first().waitFor();
    // The field keeps the address, also after a reload, and searches by it without looking it up again.
    await support.reload();
    await support.getByRole("button", { name: "auth.login" }).first().waitFor();
    for (const name of ["Who", "About"])
      expect(await support.getByLabel(name).inputValue()).toBe(person.email);
    await support.getByLabel("About").fill("");
    await support.getByRole("button", { name: "Search" }).click();
    await support.waitForURL(new RegExp(`actor=${person.user.id}$`));
    await expect.poll(() => support.getByLabel("Who").inputValue()).toBe(person.email);
    expect(seen.addresses.filter((address) => address.includes("/admin/user-search"))).toHaveLength(3);
    expect(seen.addresses.filter((address) => /@|%40/.test(address))).toEqual([]);
    const found = await api.get(`/admin/audit?action=user.listed&limit=3`, { token: admin });
    for (const entry of found.body.data.entries) {
      expect(entry.resource + entry.reason).not.toContain("@");
      expect(entry.actor.claimedEmail).toMatch(/@example/);
    }
    await others.close();
  });

  test("no page has a serious problem for assistive technology, in both themes and languages, at 360 px", async () => {
    // A word that is wider than the page is broken.
    const wide = `${"w".repeat(60)}@example.com`;
    await api.post("/auth/login", { email: wide, password: "Wrong-Horse-42" });
    const looks = [
      { colorScheme: "light", language: "de" },
      { colorScheme: "dark", language: "en" },
    ] as const;
    for (const { colorScheme, language } of looks) {
      await page.emulateMedia({ colorScheme });
      for (const path of ["overview", "audit", `audit/${entryId}`]) {
        await page.goto(`${origin}/console/${path}`);
        await page.getByRole("combobox").first().selectOption(language);
        await page.locator(".table tbody tr, .proof, .tiles").first().waitFor();
        if (path === "audit") await page.getByText(wide).first().waitFor();
        await expect.poll(() => page.evaluate("document.documentElement.lang")).toBe(language);
        expect(await page.evaluate(CUT_LABELS), `${language} ${path}`).toEqual([]);
        expect(await seriousProblems(page), `${language} ${colorScheme} ${path}`).toEqual([]);
        expect(await width(), path).toBeLessThanOrEqual(360);
      }
    }
  });

  test("all of it asked no other origin, broke no policy, and left no e-mail address in an address", () => {
    expect(watched.problems).toEqual([]);
    expect(watched.addresses.length).toBeGreaterThan(50);
    expect(watched.addresses.filter((address) => /@|%40/.test(address))).toEqual([]);
  });
});

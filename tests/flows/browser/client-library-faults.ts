import type { Server } from "node:http";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { buildClient } from "#clients/browser/build.ts";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  addPasskey,
  endsOf,
  inTab,
  type LossyWay,
  logIn,
  me,
  openLossyWay,
  openTab,
  refreshes,
  resume,
  serveBlankPage,
  sum,
  tokenAfter,
} from "../../support/browser/library-tab.ts";
import { addAuthenticator } from "../../support/browser/virtual-authenticator.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import type { System } from "../../support/system/system.ts";

const TOKEN_LIFE_MS = 15 * 60_000;

let system: System;
let api: ApiClient;
let app: Server;
let appUrl: string;
let script: string;
let browser: Browser;
let context: BrowserContext;
let way: LossyWay;

describe.skipIf(CHROMIUM === undefined)("the client library where something fails", () => {
  beforeAll(async () => {
    system = oneSystem();
    api = apiClient(system.url);
    appUrl = (system.environment.ALLOWED_ORIGINS ?? "").split(",")[0] ?? "";
    script = (await buildClient()).code;
    app = await serveBlankPage(Number(new URL(appUrl).port), script);
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    app?.close();
  });
  beforeEach(async () => {
    context = await browser.newContext();
    way = await openLossyWay(system);
  });
  afterEach(async () => {
    await context.close();
    way.server.closeAllConnections();
    way.server.close();
  });

  const newTab = (gateway = way.origin) => openTab(context, { gateway, origin: appUrl, script });
  /** What has been counted since, by the result. */
  const since = async (before: Record<string, number>) => {
    const after = await refreshes(system);
    const results = Object.keys(after).map(
      (name) => [name, (after[name] ?? 0) - (before[name] ?? 0)] as const,
    );
    return Object.fromEntries(results.filter(([, count]) => count > 0));
  };

  test("a tab that dies while the answer to its refresh is on the way costs one more, and no session", async () => {
    const user = await api.newUser();
    const [dying, other] = [await newTab(), await newTab()];
    await logIn(dying, user);
    expect(await resume(other)).toBe(user.email);
    const before = await refreshes(system);
    way.plan.push("held");
    const lost = tokenAfter(dying, TOKEN_LIFE_MS).catch(() => "gone");
    await way.holding;
    // It waits: the other tab refreshes.
    const waiting = tokenAfter(other, TOKEN_LIFE_MS);
    expect(await since(before)).toEqual({ rotated: 1 });
    await dying.close();
    expect([await lost, await waiting]).toEqual(["gone", true]);
    expect(await since(before)).toEqual({ rotated: 1, repeated: 1 });
    expect([await me(other), await endsOf(other)]).toEqual([200, []]);
    expect(await resume(await newTab())).toBe(user.email);
  });

  test.each(["lost", "cut"] as const)(
    "an answer to a refresh that is %s on the network costs at most its call, one more refresh, and no session",
    async (fate) => {
      const user = await api.newUser();
      const tabs = [await newTab(), await newTab(), await newTab()];
      await logIn(tabs[0] as Page, user);
      for (const tab of tabs.slice(1)) expect(await resume(tab)).toBe(user.email);
      for (let round = 1; round <= 10; round += 1) {
        const before = await refreshes(system);
        // Also two in a row.
        const losses = round % 3;
        for (let loss = 0; loss < losses; loss += 1) way.plan.push(fate);
        const call = (tab: Page) => tokenAfter(tab, round * TOKEN_LIFE_MS);
        const answers = await Promise.allSettled(tabs.map(call));
        // Chromium may repeat a call without any answer by itself.
        const failed = answers.filter(({ status }) => status === "rejected").length;
        expect([failed <= losses, way.plan]).toEqual([true, []]);
        expect(await Promise.all(tabs.map(call))).toEqual(tabs.map(() => true));
        // Where the cookie was lost, too, the same successor is given again.
        const repeated = fate === "lost" ? losses : 0;
        const counted = { rotated: 1 + losses - repeated, ...(repeated > 0 && { repeated }) };
        expect(await since(before)).toEqual(counted);
      }
      expect(await Promise.all(tabs.map(endsOf))).toEqual(tabs.map(() => []));
      expect(await Promise.all(tabs.map(me))).toEqual(tabs.map(() => 200));
    },
  );

  test("without Web Locks ten tabs and ten expiries give no logout, and a race is forgiven", {
    tags: "exhaustive",
  }, async () => {
    await context.addInitScript("delete Navigator.prototype.locks");
    const user = await api.newUser();
    const tabs = await Promise.all(Array.from({ length: 10 }, () => newTab(system.url)));
    const [first] = tabs as [Page, ...Page[]];
    expect(await first.evaluate("navigator.locks === undefined")).toBe(true);
    await logIn(first, user);
    for (const tab of tabs.slice(1)) expect(await resume(tab)).toBe(user.email);
    const before = await refreshes(system);
    for (let round = 1; round <= 10; round += 1) {
      const answers = await Promise.all(tabs.map((tab) => tokenAfter(tab, round * TOKEN_LIFE_MS)));
      expect(answers).toEqual(tabs.map(() => true));
    }
    const counted = await since(before);
    expect([counted.reused, counted.invalid]).toEqual([undefined, undefined]);
    expect(sum(counted)).toBeGreaterThanOrEqual(10);
    expect(sum(counted)).toBeLessThanOrEqual(100);
    expect(await Promise.all(tabs.map(me))).toEqual(tabs.map(() => 200));
    expect(await Promise.all(tabs.map(endsOf))).toEqual(tabs.map(() => []));
    await inTab(first, (own) => own.client.logout(), null);
    await expect.poll(() => Promise.all(tabs.map(endsOf))).toEqual(tabs.map(() => ["logged_out"]));
  });

  test("a passkey proves a step-up, an approval and the second factor of a login, by the library's callbacks", async () => {
    const user = await api.newUser();
    await proveAddress(system, api, user);
    // Passkeys are of the gateway's own origin here.
    const page = await openTab(context, {
      ...{ gateway: system.url, origin: system.url, script },
      codes: ["passkey", "AAAA-AAAA-AAAA-AAAA", "passkey"],
    });
    await addAuthenticator(page);
    expect(await logIn(page, user)).toMatchObject({ step: "done" });
    expect(await addPasskey(page)).toBe(201);
    const payment = { amount: 25_000, currency: "EUR", payee: "ACME Ltd", reference: "invoice 9" };
    const send = (path: string, body: object) =>
      inTab(
        page,
        async (own, [to, content]) => {
          const headers = { "content-type": "application/json" };
          const call = { method: "POST", headers, body: JSON.stringify(content) };
          return [(await own.client.fetch(to as string, call)).status, own.asked.length];
        },
        [path, body],
      );
    // A new payee needs a step-up; the payment an approval, whose first proof is wrong.
    expect(await send("/payees", { name: payment.payee })).toEqual([201, 1]);
    expect(await send("/payments", payment)).toEqual([201, 3]);
    expect(await inTab(page, async (own) => own.asked[0], null)).toContain("passkey");

    await inTab(page, (own) => own.client.logout(), null);
    const begun = await logIn(page, user);
    if (begun.step !== "mfa" || begun.passkey === undefined)
      throw new Error(`the login goes on with ${begun.step}`);
    const proof = { tempToken: begun.tempToken, passkey: begun.passkey };
    expect(await inTab(page, (own, given) => own.client.completeMfa(given), proof)).toMatchObject({
      step: "done",
      user: { email: user.email },
    });
    expect(await me(page)).toBe(200);
  });
});

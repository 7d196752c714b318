import type { Server } from "node:http";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { buildClient } from "#clients/browser/build.ts";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import {
  addPasskey,
  endsOf,
  inTab,
  logIn,
  me,
  openTab,
  refreshes,
  resume,
  serveBlankPage,
  sum,
  tokenAfter,
} from "../../support/browser/library-tab.ts";
import { addAuthenticator } from "../../support/browser/virtual-authenticator.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { totpApp } from "../../support/people/totp-app.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import type { System } from "../../support/system/system.ts";

/** `npm run trial -- tabs` runs a thousand. */
const EXPIRIES = Number(process.env.TAB_EXPIRIES ?? 30);
const TABS = 10;
const TOKEN_LIFE_MS = 15 * 60_000;

let system: System;
let api: ApiClient;
let app: Server;
let appUrl: string;
let gateway: string;
let browser: Browser | undefined;
let context: BrowserContext;
let script: string;

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  system = oneSystem();
  api = apiClient(system.url);
  gateway = `http://localhost:${system.ports.GATEWAY_PORT}`;
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
  if (browser !== undefined) context = await browser.newContext();
});
afterEach(() => context?.close());

const newTab = (codes: string[] = [], origin = appUrl) =>
  openTab(context, { gateway, origin, script, codes });

/** The same in each run. */
function pseudoRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

test.skipIf(CHROMIUM === undefined)(
  `ten tabs of Chromium, ${EXPIRIES} expiries, tabs that close, and a network that is lost: no logout, and one refresh each`,
  { tags: "exhaustive", timeout: 3_600_000 },
  async () => {
    const random = pseudoRandom(7);
    const user = await api.newUser();
    const tabs = await Promise.all(Array.from({ length: TABS }, () => newTab()));
    expect(await logIn(tabs[0] as Page, user)).toMatchObject({ step: "done", user: { email: user.email } });
    for (const tab of tabs.slice(1)) expect(await resume(tab)).toBe(user.email);
    const before = await refreshes(system);
    let counted = sum(before);
    let closed = 0;

    for (let round = 1; round <= EXPIRIES; round += 1) {
      const offsetMs = round * TOKEN_LIFE_MS;
      const call = (tab: Page) => tokenAfter(tab, offsetMs);
      if (round === Math.ceil(EXPIRIES / 2)) {
        await context.setOffline(true);
        const lost = await Promise.allSettled(tabs.map(call));
        expect(lost.map(({ status }) => status)).toEqual(tabs.map(() => "rejected"));
        await context.setOffline(false);
      }
      const leaving = random() < 0.2 ? Math.floor(random() * TABS) : undefined;
      const answers = await Promise.allSettled(
        tabs.map(async (tab, index) => {
          const answer = call(tab);
          if (index !== leaving) return answer;
          await Promise.allSettled([tab.close(), answer]);
          return true;
        }),
      );
      expect(answers.map((answer) => answer.status === "fulfilled" && answer.value)).toEqual(
        tabs.map(() => true),
      );
      // Who closes while it refreshes may leave the others without its answer.
      const now = sum(await refreshes(system));
      expect([round, now - counted <= (leaving === undefined ? 1 : 2)]).toEqual([round, true]);
      counted = now;
      if (leaving === undefined) continue;
      closed += 1;
      const opened = await newTab();
      tabs[leaving] = opened;
      await opened.evaluate(`globalThis.offsetMs = ${offsetMs}`);
      expect(await resume(opened)).toBe(user.email);
      expect(sum(await refreshes(system))).toBe(counted);
    }

    const after = await refreshes(system);
    expect(await Promise.all(tabs.map(endsOf))).toEqual(tabs.map(() => []));
    expect((await Promise.all(tabs.map(me))).every((status) => status === 200)).toBe(true);
    expect([
      (after.reused ?? 0) - (before.reused ?? 0),
      (after.invalid ?? 0) - (before.invalid ?? 0),
    ]).toEqual([0, 0]);
    const total = sum(after) - sum(before);
    expect([total >= EXPIRIES, total <= EXPIRIES + closed]).toEqual([true, true]);
    // For `npm run trial -- tabs`.
    if (process.env.TAB_EXPIRIES !== undefined)
      process.stdout.write(`${EXPIRIES} expiries, ${total} refreshes, ${closed} tabs closed, 0 logouts\n`);

    await inTab(tabs[3] as Page, async (own) => own.client.logout(), null);
    await expect.poll(() => Promise.all(tabs.map(endsOf))).toEqual(tabs.map(() => ["logged_out"]));
    expect(await resume(await newTab())).toBeUndefined();
  },
);

test.skipIf(CHROMIUM === undefined)(
  "a second factor, an approval and a logout elsewhere, by the library against the running system",
  async () => {
    const user = await api.newUser();
    await proveAddress(system, api, user);
    const { password, accessToken: token } = user;
    const { secret } = (await api.post("/auth/mfa/setup", { password }, { token })).body.data;
    const nextCode = totpApp(secret);
    const enabled = await api.post("/auth/mfa/enable", { code: await nextCode() }, { token });
    const [recoveryCode] = enabled.body.data.recoveryCodes;
    // Of the gateway's origin: the example's routes allow no other one.
    const page = await newTab(["000000", recoveryCode], gateway);
    const begun = await logIn(page, user);
    if (begun.step !== "mfa") throw new Error(`the login goes on with ${begun.step}`);
    const proof = { tempToken: begun.tempToken, code: await nextCode() };
    const entered = await inTab(page, (own, given) => own.client.completeMfa(given), proof);
    expect(entered).toMatchObject({ step: "done", user: { mfaEnabled: true } });
    // Above the threshold: the first code is wrong, the second one approves it.
    const paid = await inTab(
      page,
      async (own, payment) => {
        const post = (path: string, body: object) => {
          const headers = { "content-type": "application/json" };
          return own.client.fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
        };
        await post("/payees", { name: payment.payee });
        const response = await post("/payments", payment);
        return [response.status, own.codes.length];
      },
      { amount: 25_000, currency: "EUR", payee: "ACME Ltd", reference: "invoice 8" },
    );
    expect(paid).toEqual([201, 0]);

    const elsewhere = await api.post(
      "/auth/logout",
      { scope: "all" },
      { token: (await inTab(page, async (own) => own.client.accessToken(), null)) ?? "" },
    );
    expect(elsewhere.status).toBe(200);
    expect(await me(page)).toBe(401);
    expect(await endsOf(page)).toEqual(["expired"]);
    expect(await context.cookies()).not.toContainEqual(
      expect.objectContaining({ name: "__Host-gatehouse-refresh" }),
    );
  },
);

test.skipIf(CHROMIUM === undefined)("a passkey that was added by the library logs in by it", async () => {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  // Passkeys are of the gateway's own origin here.
  const page = await newTab([], gateway);
  await addAuthenticator(page);
  expect(await logIn(page, user)).toMatchObject({ step: "done" });
  expect(await addPasskey(page)).toBe(201);
  await inTab(page, (own) => own.client.logout(), null);
  const entered = await inTab(page, (own) => own.client.loginWithPasskey(), null);
  expect(entered).toMatchObject({ step: "done", user: { email: user.email } });
  expect(await me(page)).toBe(200);
});

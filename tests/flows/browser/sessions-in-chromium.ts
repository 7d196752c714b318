import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { CHROMIUM, launchChromium } from "../../support/browser/chromium.ts";
import { serveBlankPage } from "../../support/browser/library-tab.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { freePort } from "../../support/system/free-port.ts";
import { oneSystem } from "../../support/system/one-system.ts";

/** All that scripts may read. */
const HINT = "__Host-gatehouse-refresh-hint=1";

let api: ApiClient;
let port: number;
let app: Server;
let appPort: number;
let browser: Browser | undefined;
let context: BrowserContext;

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  const system = oneSystem();
  api = apiClient(system.url);
  port = system.ports.GATEWAY_PORT;
  appPort = Number(new URL((system.environment.ALLOWED_ORIGINS ?? "").split(",")[0] ?? "").port);
  app = await serveBlankPage(appPort);
  browser = await launchChromium();
});
afterAll(async () => {
  await browser?.close();
  app?.close();
});
beforeEach(async () => {
  if (browser === undefined) return;
  context = await browser.newContext();
});
afterEach(() => context?.close());

async function pageOf(origin: string): Promise<Page> {
  const page = await context.newPage();
  if (origin === `http://localhost:${port}` || origin === `http://127.0.0.1:${port}`) {
    // The gateway has no page whose scripts may call it.
    await page.route("**/blank", (route) =>
      route.fulfill({ contentType: "text/html", body: "<!doctype html>" }),
    );
  }
  await page.goto(`${origin}/blank`);
  return page;
}

/** What a script of the page does. */
async function call(page: Page, url: string, body?: unknown, headers: Record<string, string> = {}) {
  return page.evaluate(
    async ([to, content, more]) => {
      const response = await fetch(to, {
        method: "POST",
        credentials: "include",
        headers: {
          "gatehouse-client": "browser",
          ...(content !== undefined && { "content-type": "application/json" }),
          ...more,
        },
        ...(content !== undefined && { body: JSON.stringify(content) }),
      });
      const { document } = globalThis as unknown as { document: { cookie: string } };
      return { status: response.status, body: await response.json(), readable: document.cookie };
    },
    [url, body, headers] as const,
  );
}

test.skipIf(CHROMIUM === undefined).each(["localhost", "127.0.0.1"])(
  "Chromium keeps the session of http://%s where no script reads it, and sends it back",
  async (host) => {
    const origin = `http://${host}:${port}`;
    const { email, password } = await api.newUser();
    const page = await pageOf(origin);
    const entered = await call(page, `${origin}/auth/login`, { email, password });
    expect(entered).toMatchObject({ status: 200, body: { data: { user: { email } } }, readable: HINT });
    expect(JSON.stringify(entered.body)).not.toContain("refreshToken");
    const cookies = await context.cookies();
    expect(cookies.find(({ name }) => name === "__Host-gatehouse-refresh")).toMatchObject({
      domain: host,
      path: "/",
      httpOnly: true,
      secure: true,
      sameSite: "Strict",
    });
    // Another tab has the same session.
    expect(await call(await pageOf(origin), `${origin}/auth/refresh`)).toMatchObject({ status: 200 });
    expect(await call(page, `${origin}/auth/logout`)).toMatchObject({ status: 200 });
    const names = (await context.cookies()).map(({ name }) => name);
    expect(names.filter((name) => name.startsWith("__Host-gatehouse-refresh"))).toEqual([]);
    expect(await call(page, `${origin}/auth/refresh`)).toMatchObject({ status: 401 });
  },
);

test.skipIf(CHROMIUM === undefined)(
  "a listed origin on another port has sessions; one of another site and one that is not listed are refused",
  async () => {
    const gateway = `http://localhost:${port}`;
    const { email, password } = await api.newUser();
    const page = await pageOf(`http://localhost:${appPort}`);
    expect(await call(page, `${gateway}/auth/login`, { email, password })).toMatchObject({ status: 200 });
    expect(await call(page, `${gateway}/auth/refresh`)).toMatchObject({ status: 200 });

    const otherSite = await pageOf(`http://127.0.0.1:${appPort}`);
    expect(await call(otherSite, `${gateway}/auth/login`, { email, password })).toMatchObject({
      status: 403,
      body: { error: { code: "origin_not_allowed" } },
    });
    // No preflight lets a stranger through, and a form has no header.
    const strangers = await serveBlankPage(await freePort());
    try {
      const { port: strangePort } = strangers.address() as AddressInfo;
      const stranger = await pageOf(`http://localhost:${strangePort}`);
      await expect(call(stranger, `${gateway}/auth/refresh`)).rejects.toThrow("Failed to fetch");
      await stranger.setContent(
        `<form method="post" action="${gateway}/auth/logout"><button>Win</button></form>`,
      );
      const answered = stranger.waitForResponse(`${gateway}/auth/logout`);
      await stranger.click("button");
      expect((await answered).status()).toBe(415);
    } finally {
      strangers.close();
    }
    expect(await call(page, `${gateway}/auth/refresh`)).toMatchObject({ status: 200 });
  },
);

test.skipIf(CHROMIUM === undefined)(
  "a page cannot plant the cookie, and its own one is replaced by a login",
  async () => {
    const origin = `http://localhost:${port}`;
    const page = await pageOf(origin);
    const plant = (attributes: string) =>
      page.evaluate(`document.cookie = "__Host-gatehouse-refresh=a.b.c; ${attributes}", document.cookie`);
    expect(await plant("Path=/auth; Secure")).toBe("");
    expect(await plant("Path=/")).toBe("");
    expect(await plant("Path=/; Secure")).toBe("__Host-gatehouse-refresh=a.b.c");
    const { email, password } = await api.newUser();
    expect(await call(page, `${origin}/auth/login`, { email, password })).toMatchObject({
      status: 200,
      readable: HINT,
    });
    expect(await call(page, `${origin}/auth/refresh`)).toMatchObject({ status: 200 });
  },
);

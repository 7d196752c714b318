/**
 * First visits of pages with an empty cache, on a CPU four times slower, against a running `npm start`: requests, bytes on the wire, when something
 * is drawn, when the page can be used, and how long its main thread was blocked. The median of the rounds.
 *
 *   npm start -- --detach && npm run trial -- pages
 */
import { loadavg } from "node:os";
import type { Browser } from "playwright-core";
import { launchChromium } from "#tests/support/browser/chromium.ts";
import { assertLoopback } from "../attack/target.ts";
import { quantile } from "./support/workbench.ts";

const ROUNDS = 5;
const SLOWER = 4;
/** The page, and what a person can use first there. */
const PAGES = [
  ["/account/login", "input[type=password]"],
  ["/account/register", "input[type=password]"],
  ["/console", "input[type=password]"],
  ["/docs", "summary"],
] as const;
/** A task blocks for what it takes beyond this. @see https://w3c.github.io/longtasks */
const OBSERVE = `
  window.longTasks = [];
  new PerformanceObserver((list) => longTasks.push(...list.getEntries().map(({ duration }) => duration - 50)))
    .observe({ type: "longtask", buffered: true });
`;
const BLOCKED = "longTasks.reduce((sum, each) => sum + each, 0)";
const PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN";

const url = new URL(process.env.GATEHOUSE_URL ?? "http://localhost:8080");
assertLoopback(url);

async function visit(browser: Browser, path: string, ready: string): Promise<number[]> {
  const context = await browser.newContext({ viewport: { width: 1_280, height: 800 } });
  const page = await context.newPage();
  await page.addInitScript(OBSERVE);
  const devtools = await context.newCDPSession(page);
  await devtools.send("Network.enable");
  await devtools.send("Emulation.setCPUThrottlingRate", { rate: SLOWER });
  let [requests, bytes, refusals] = [0, 0, 0];
  devtools.on("Network.loadingFinished", ({ encodedDataLength }) => {
    requests += 1;
    bytes += encodedDataLength;
  });
  page.on("response", (response) => {
    if (response.status() >= 400) refusals += 1;
  });
  await page.goto(new URL(path, url).href, { waitUntil: "commit" });
  await page.waitForSelector(ready, { timeout: 120_000 });
  const readyMs = await page.evaluate<number>("performance.now()");
  await page.waitForLoadState("networkidle");
  const [paintedMs, blockedMs] = await page.evaluate<[number, number]>(`[${PAINTED}, ${BLOCKED}]`);
  await context.close();
  return [requests, bytes, refusals, paintedMs, readyMs, blockedMs];
}

const browser = await launchChromium();
console.log(`load ${loadavg()[0]?.toFixed(1)}; median of ${ROUNDS}`);
for (const [path, ready] of PAGES) {
  const rounds: number[][] = [];
  for (let round = 0; round < ROUNDS; round += 1) rounds.push(await visit(browser, path, ready));
  const [requests = 0, bytes = 0, refusals = 0, ...times] = (rounds[0] ?? []).map((_, index) =>
    quantile(
      rounds.map((each) => each[index] ?? Number.NaN),
      0.5,
    ),
  );
  const [painted, usable, blocked] = times.map((ms) => `${(ms / 1_000).toFixed(2)} s`);
  console.log(
    `${path}: ${requests} requests, ${(bytes / 1_000).toFixed(1)} kB, ${refusals} refused; drawn ${painted}, ready ${usable}, blocked ${blocked}`,
  );
}
await browser.close();

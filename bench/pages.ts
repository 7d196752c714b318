/**
 * What the first view of a page costs a browser: bytes as they are sent, requests, and the time until its form or
 * heading is there and the main thread is idle, on a processor that is as fast as this one, and 4 and 6 times slower.
 *
 *   npm run bench:pages
 */
import { chromium } from "playwright-core";
import { CHROMIUM } from "#tests/support/chromium.ts";
import { startSystem } from "#tests/support/system.ts";

const PAGES = ["/account/login", "/account/register", "/account/forgot-password"];
const SLOWER = [1, 4, 6];
const ROUNDS = 5;
/** When the heading is there, and nothing else is to be done. */
const WATCH_INTERACTIVE = `
  new MutationObserver((_changes, observer) => {
    if (document.querySelector("h1") === null) return;
    observer.disconnect();
    requestIdleCallback(() => { window.interactiveMs = performance.now(); });
  }).observe(document, { childList: true, subtree: true });
`;

if (CHROMIUM === undefined) throw new Error("no Chromium is installed");
const system = await startSystem();
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });

/** With nothing in the cache. */
async function view(path: string, slower: number) {
  const context = await browser.newContext({ locale: "en-GB" });
  const page = await context.newPage();
  await page.addInitScript(WATCH_INTERACTIVE);
  const devtools = await context.newCDPSession(page);
  await devtools.send("Network.enable");
  await devtools.send("Emulation.setCPUThrottlingRate", { rate: slower });
  const sizes: number[] = [];
  devtools.on("Network.loadingFinished", ({ encodedDataLength }) => sizes.push(encodedDataLength));
  await page.goto(`http://localhost:${system.ports.GATEWAY_PORT}${path}`, { waitUntil: "networkidle" });
  // A string that waits in the page would be refused by its policy.
  let interactiveMs: unknown;
  while (interactiveMs === undefined) interactiveMs = await page.evaluate("window.interactiveMs");
  await context.close();
  const sent = sizes.filter((bytes) => bytes > 0);
  return {
    bytes: sent.reduce((sum, bytes) => sum + bytes, 0),
    requests: sent.length,
    interactiveMs: Number(interactiveMs),
  };
}

try {
  for (const path of PAGES) {
    const { bytes, requests } = await view(path, 1);
    const times: string[] = [];
    for (const slower of SLOWER) {
      const all: number[] = [];
      for (let round = 0; round < ROUNDS; round += 1) all.push((await view(path, slower)).interactiveMs);
      all.sort((one, other) => one - other);
      times.push(`${slower}x ${Math.round(all[Math.floor(ROUNDS / 2)] ?? 0)} ms`);
    }
    console.log(
      `${path}: ${(bytes / 1_000).toFixed(1)} kB in ${requests} requests, interactive after ${times.join(", ")}`,
    );
  }
} finally {
  await browser.close();
  await system.remove();
}

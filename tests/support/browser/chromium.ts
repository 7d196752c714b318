import { accessSync, constants, existsSync } from "node:fs";
import { join } from "node:path";
import { type Browser, type CDPSession, chromium, type Page } from "playwright-core";

/** Where a Chromium is installed: best the one without windows, a third of the CPU time. Undefined: its tests are skipped. */
export const CHROMIUM = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
  .flatMap((name) => ["/usr/bin", ...(process.env.PATH ?? "").split(":")].map((folder) => join(folder, name)))
  .find((path) => existsSync(path) && isExecutable(path));

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Only where `CHROMIUM` is defined. */
export function launchChromium(): Promise<Browser> {
  if (CHROMIUM === undefined) throw new Error("no Chromium is installed");
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
}

const sessions = new WeakMap<Page, Promise<CDPSession>>();

/** One session with Chromium's debugger for each page: the end of any takes the page's virtual authenticators away. */
export function debuggerOf(page: Page): Promise<CDPSession> {
  const known = sessions.get(page) ?? page.context().newCDPSession(page);
  sessions.set(page, known);
  return known;
}

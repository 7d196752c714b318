import { type Browser, type CDPSession, chromium, type Page } from "playwright-core";
import { findProgram } from "../system/find-program.ts";

/** Where a Chromium is installed: best the one without windows, a third of the CPU time. Undefined: its tests are skipped. */
export const CHROMIUM = findProgram(
  ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"],
  ["/usr/bin"],
);

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

import { isIP } from "node:net";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { MailValue } from "./mail.ts";

/** The names are those of the templates, which operators may replace. */
export function describeOrigin(
  { clientIp, userAgent }: ClientOrigin,
  at: Date,
): { occurredAt: string; ip: MailValue; browser: MailValue } {
  return { occurredAt: at.toISOString(), ip: knownAddress(clientIp), browser: describeBrowser(userAgent) };
}

const UNKNOWN: MailValue = [{ phrase: "unknown" }];

/** Unknown also for an IPv6 zone, which is free text. */
function knownAddress(address: string): MailValue {
  return isIP(address) === 0 || address.includes("%") ? UNKNOWN : address;
}

/** In this order, because most browsers also name their ancestors. */
const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdg(?:e|A|iOS)?\//, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\bSamsungBrowser\//, "Samsung Internet"],
  [/\b(?:Firefox|FxiOS)\//, "Firefox"],
  [/\b(?:Chrome|CriOS|HeadlessChrome)\//, "Chrome"],
  [/\bSafari\//, "Safari"],
  [/^curl\//, "curl"],
];

const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\bAndroid\b/, "Android"],
  [/\b(?:iPhone|iPad|iPod)\b/, "iOS"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b/, "macOS"],
  [/\bCrOS\b/, "ChromeOS"],
  [/\bLinux\b/, "Linux"],
];

/** Such as "Firefox on Windows". Never the raw header, which an attacker can choose. */
export function describeBrowser(userAgent: string): MailValue {
  const nameIn = (table: typeof BROWSERS) => table.find(([pattern]) => pattern.test(userAgent))?.[1];
  const [browser, system] = [nameIn(BROWSERS), nameIn(SYSTEMS)];
  if (browser === undefined || system === undefined) return browser ?? system ?? UNKNOWN;
  return [{ phrase: "device", values: { browser, system } }];
}

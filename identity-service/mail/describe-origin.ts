import { isIP } from "node:net";
import type { ClientOrigin } from "../audit/client-origin.ts";

/** The names are those of the templates, which operators may replace. */
export function describeOrigin(
  { clientIp, userAgent }: ClientOrigin,
  at: Date,
): { occurredAt: string; ip: string; browser: string } {
  return { occurredAt: inUtc(at), ip: knownAddress(clientIp), browser: describeBrowser(userAgent) };
}

/** "unknown" also for an IPv6 zone, which is free text. */
function knownAddress(address: string): string {
  return isIP(address) === 0 || address.includes("%") ? "unknown" : address;
}

/** `2031-01-02 03:04:05 UTC`. */
export function inUtc(time: Date): string {
  return `${time.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** In this order, because most browsers also name their ancestors. */
const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdg(?:e|A|iOS)?\//, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\bSamsungBrowser\//, "Samsung Internet"],
  [/\b(?:Firefox|FxiOS)\//, "Firefox"],
  [/\b(?:Chrome|CriOS)\//, "Chrome"],
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
export function describeBrowser(userAgent: string): string {
  const nameIn = (table: typeof BROWSERS) => table.find(([pattern]) => pattern.test(userAgent))?.[1];
  const known = [nameIn(BROWSERS), nameIn(SYSTEMS)].filter((name) => name !== undefined);
  return known.length === 0 ? "unknown" : known.join(" on ");
}

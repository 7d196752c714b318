import { isIP } from "node:net";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { describeBrowser } from "./describe-browser.ts";
import { inUtc } from "./in-utc.ts";

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

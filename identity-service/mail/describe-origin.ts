import { isIP } from "node:net";
import { nameDevice } from "#kit/values/name-device.ts";
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

/** Such as "Firefox on Windows". Never the raw header, which an attacker can choose. */
export function describeBrowser(userAgent: string): MailValue {
  const { browser, system } = nameDevice(userAgent);
  if (browser === "" || system === "") return browser || system || UNKNOWN;
  return [{ phrase: "device", values: { browser, system } }];
}

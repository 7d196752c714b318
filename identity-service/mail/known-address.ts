import { isIP } from "node:net";

/** An address as a mail shows it, "unknown" if it is none. Without an IPv6 zone, which is free text. */
export function knownAddress(ip: string): string {
  return isIP(ip) === 0 || ip.includes("%") ? "unknown" : ip;
}

import { isIP } from "node:net";

/** "unknown" for an invalid address or one with an IPv6 zone, which is free text. */
export function knownAddress(ip: string): string {
  return isIP(ip) === 0 || ip.includes("%") ? "unknown" : ip;
}

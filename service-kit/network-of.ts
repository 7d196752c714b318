import { isIP } from "node:net";

const MAPPED_IPV4 = /^(?:0*:){1,5}(?::|0+:)?ffff:(\d+\.\d+\.\d+\.\d+)$/i;
const GROUPS = 8;
/** What one subscriber is given at the least (RFC 6177): single IPv6 addresses cost nothing. */
const NETWORK_GROUPS = 4;

/**
 * The network that an address is counted under: an IPv4 address itself, the /64 of an IPv6 address.
 *
 * @returns `192.0.2.1`, `2001:db8:0:7::/64`, or `unknown` for what is no address.
 */
export function networkOf(ip: string): string {
  if (isIP(ip) === 4) return ip;
  const [address = ""] = ip.split("%");
  if (isIP(address) !== 6) return "unknown";
  const mapped = MAPPED_IPV4.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  return `${groupsOf(address).slice(0, NETWORK_GROUPS).join(":")}::/64`;
}

/** The eight groups of an IPv6 address in lower case, without leading zeros. */
function groupsOf(address: string): string[] {
  const [head = "", tail] = address.split("::").map(groupsIn);
  if (tail === undefined) return [...head];
  const missing = GROUPS - head.length - tail.length;
  return [...head, ...Array.from({ length: missing }, () => "0"), ...tail];
}

function groupsIn(part: string): string[] {
  if (part === "") return [];
  return part.split(":").flatMap((group) => (group.includes(".") ? ["0", "0"] : [plain(group)]));
}

function plain(group: string): string {
  return Number.parseInt(group, 16).toString(16);
}

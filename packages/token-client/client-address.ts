import { BlockList, isIP } from "node:net";

/** RFC 1918, 4193, 6598, 3927, 4291. */
const NEIGHBOURS = new BlockList();
for (const [network, bits] of [
  ["127.0.0.0", 8],
  ["10.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["100.64.0.0", 10],
  ["169.254.0.0", 16],
] as const)
  NEIGHBOURS.addSubnet(network, bits, "ipv4");
NEIGHBOURS.addAddress("::1", "ipv6");
NEIGHBOURS.addSubnet("fc00::", 7, "ipv6");
NEIGHBOURS.addSubnet("fe80::", 10, "ipv6");

/**
 * The address for `verify` if an application says nothing: that of the connection, unless it is a neighbour's. A gateway or a proxy in
 * the same network speaks for many clients, who must not share one share.
 */
export function clientAddress(peer: string | undefined): string | undefined {
  const [address = ""] = (peer ?? "").split("%");
  const version = isIP(address);
  if (version === 0) return undefined;
  return NEIGHBOURS.check(address, version === 4 ? "ipv4" : "ipv6") ? undefined : address;
}

import { BlockList, isIP } from "node:net";

const MAPPED_IPV4 = /^(?:0*:){1,5}(?::|0+:)?ffff:(\d+\.\d+\.\d+\.\d+)$/i;
const GROUPS = 8;
/** The smallest assignment to a subscriber is a /64 (RFC 6177). */
const NETWORK_GROUPS = 4;

/** `192.0.2.1`, `2001:db8:0:7::/64`, or `unknown` for an invalid address. */
export function networkOf(ip: string): string {
  if (isIP(ip) === 4) return ip;
  const [address = ""] = ip.split("%");
  if (isIP(address) !== 6) return "unknown";
  const mapped = MAPPED_IPV4.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  return `${groupsOf(address).slice(0, NETWORK_GROUPS).join(":")}::/64`;
}

export interface Network {
  name: string;
  /** Multiplier of the smallest network's limit. */
  times: number;
}

/** A small and a large site (RFC 6177 §2). */
const WIDER_PREFIXES = [
  { bits: 56, times: 4 },
  { bits: 48, times: 16 },
];

/** Smallest first. Its limit alone bounds nothing: a /48 has 65,536 networks of size /64. */
export function networksOf(ip: string): [Network, ...Network[]] {
  const smallest: Network = { name: networkOf(ip), times: 1 };
  const [address = ""] = ip.split("%");
  if (isIP(address) !== 6 || MAPPED_IPV4.test(address)) return [smallest];
  const groups = groupsOf(address).map((group) => Number.parseInt(group, 16));
  return [
    smallest,
    ...WIDER_PREFIXES.map(({ bits, times }) => ({ name: `${prefixOf(groups, bits)}::/${bits}`, times })),
  ];
}

function prefixOf(groups: readonly number[], bits: number): string {
  const kept = groups.slice(0, Math.ceil(bits / 16));
  const cleared = kept.length * 16 - bits;
  return kept
    .map((group, index) => (index === kept.length - 1 ? (group >> cleared) << cleared : group).toString(16))
    .join(":");
}

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

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** 127.0.0.0/8, also IPv4-mapped, and ::1. False for a name. */
export function isLoopback(address = ""): boolean {
  const plain = address.replace(/^::ffff:/i, "");
  const family = isIP(plain);
  return family !== 0 && LOOPBACK.check(plain, family === 6 ? "ipv6" : "ipv4");
}

/** Whether a host is this machine: `localhost`, or a loopback address. @param host also as in URLs: `[::1]`. */
export const isThisHost = (host: string): boolean =>
  host === "localhost" || isLoopback(host.replace(/^\[|\]$/g, ""));

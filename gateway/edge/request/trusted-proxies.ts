import type { IncomingMessage } from "node:http";
import { type BlockList, isIP } from "node:net";
import { LRUCache } from "lru-cache";
import { uuidv7 } from "#kit/values/uuid-v7.ts";

const MAX_KNOWN_ADDRESSES = 1_000;

export type IsTrustedProxy = (address: string | undefined) => boolean;

/** Some balancers append the port. */
const WITH_PORT = /^(?:\[([0-9a-f:.]+)\](?::\d{1,5})?|(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5})$/i;

export function withoutPort(entry: string): string {
  const parts = WITH_PORT.exec(entry);
  return parts?.[1] ?? parts?.[2] ?? entry;
}

/** IPv4-mapped IPv6 addresses count as IPv4. */
export function trustedProxies(networks: BlockList): IsTrustedProxy {
  if (networks.rules.length === 0) return () => false;
  const isTrusted = (address: string) => {
    const version = isIP(address);
    return version !== 0 && networks.check(address, version === 6 ? "ipv6" : "ipv4");
  };
  // `BlockList` is a native call.
  const known = new LRUCache<string, boolean>({ max: MAX_KNOWN_ADDRESSES });
  return (address) => {
    if (address === undefined) return false;
    const before = known.get(address);
    if (before !== undefined) return before;
    const answer = isTrusted(withoutPort(address));
    known.set(address, answer);
    return answer;
  };
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** A trusted proxy may provide the id. */
export function requestIdOf({ headers, socket }: IncomingMessage, isTrustedProxy: IsTrustedProxy): string {
  const given = headers["x-request-id"];
  const isAccepted = typeof given === "string" && UUID.test(given) && isTrustedProxy(socket.remoteAddress);
  return isAccepted ? given : uuidv7();
}

import { type BlockList, isIP } from "node:net";
import { LRUCache } from "lru-cache";

/** Peers are balancers, or as many as there are connections. */
const MAX_KNOWN_ADDRESSES = 1_000;

/** Says of an address whether it is a proxy of ours. */
export type IsTrustedProxy = (address: string | undefined) => boolean;

/** As some balancers write an address: with its port, of IPv6 in brackets. */
const WITH_PORT = /^(?:\[([0-9a-f:.]+)\](?::\d{1,5})?|(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5})$/i;

/** An entry of `X-Forwarded-For` without its port. */
export function withoutPort(entry: string): string {
  const parts = WITH_PORT.exec(entry);
  return parts?.[1] ?? parts?.[2] ?? entry;
}

/** A predicate over configured networks. IPv4 addresses mapped into IPv6 count as IPv4. */
export function trustedProxies(networks: BlockList): IsTrustedProxy {
  if (networks.rules.length === 0) return () => false;
  const isTrusted = (address: string) => {
    const version = isIP(address);
    return version !== 0 && networks.check(address, version === 6 ? "ipv6" : "ipv4");
  };
  // It is asked several times a request, and a look into the list is a call out of JavaScript.
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

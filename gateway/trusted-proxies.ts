import { type BlockList, isIP } from "node:net";

/** Says of an address whether it is a proxy of ours. */
export type IsTrustedProxy = (address: string | undefined) => boolean;

/** A predicate over configured networks. IPv4 addresses mapped into IPv6 count as IPv4. */
export function trustedProxies(networks: BlockList): IsTrustedProxy {
  return (address) => {
    if (address === undefined) return false;
    const version = isIP(address);
    return version !== 0 && networks.check(address, version === 6 ? "ipv6" : "ipv4");
  };
}

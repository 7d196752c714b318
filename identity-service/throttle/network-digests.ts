import { createHmac } from "node:crypto";
import { isIP } from "node:net";
import { networkOf } from "../../service-kit/network-of.ts";

/** What a network is stored as. */
export interface NetworkDigests {
  /** Of an account's address and the network, 16 bytes. */
  digest: Buffer;
  /** Of the network alone, 16 bytes. */
  networkDigest: Buffer;
}

const DOMAIN = "gatehouse known network";
const DIGEST_BYTES = 16;

/**
 * Makes the digests that networks are stored under (an IPv4 address, an IPv6 /64).
 *
 * @param key 32 random bytes, the same in every replica.
 * @returns for an account's canonical address and a client's address; undefined for what is no IP address.
 */
export function createNetworkDigests(key: Buffer) {
  const digestOf = (text: string) =>
    createHmac("sha256", key).update(`${DOMAIN}\n${text}`).digest().subarray(0, DIGEST_BYTES);
  return (email: string, clientIp: string): NetworkDigests | undefined => {
    if (isIP(clientIp.split("%")[0] ?? "") === 0) return undefined;
    const network = networkOf(clientIp);
    return {
      digest: digestOf(`account\n${email}\n${network}`),
      networkDigest: digestOf(`network\n${network}`),
    };
  };
}

export type DigestNetwork = ReturnType<typeof createNetworkDigests>;

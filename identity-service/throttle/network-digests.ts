import { createHmac, createSecretKey } from "node:crypto";
import { isIP } from "node:net";
import { networkOf } from "#kit/values/network-of.ts";

export interface NetworkDigests {
  /** Covers address and network. 16 bytes. */
  digest: Buffer;
  /** Covers the network only. 16 bytes. */
  networkDigest: Buffer;
}

const DOMAIN = "gatehouse known network";
const DIGEST_BYTES = 16;

/** For an IPv4 address or IPv6 /64; undefined if invalid. The key has 32 bytes, the same in every replica. */
export function createNetworkDigests(secret: Buffer) {
  const key = createSecretKey(secret);
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

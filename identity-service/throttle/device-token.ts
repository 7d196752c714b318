import { createHmac, createSecretKey, timingSafeEqual } from "node:crypto";
import { validate as isUuid } from "uuid";

export const DEVICE_TOKEN_TTL_S = 180 * 86_400;

const VERSION = "2";
const DOMAIN = "gatehouse device token";
const MAX_LENGTH = 256;

export interface KnownDevice {
  id: string;
  userId: string;
  passwordEpoch: number;
  /** Seconds since the epoch. */
  issuedAtS: number;
  /** Of a trusted device: 256 bits in base64url. Never logged. */
  trustSecret?: string | undefined;
}

/** Shows an earlier login. Grants no access, except that the secret of a trusted device spares a code. */
export interface DeviceTokens {
  issue(device: Pick<KnownDevice, "id" | "userId"> & Partial<KnownDevice>): string;
  /** Does not check the password epoch. */
  read(token: string): KnownDevice | undefined;
}

/** `2.<user>.<device>.<password epoch>.<end in seconds>[.<trust secret>].<HMAC-SHA-256>`. The key has 32 bytes. */
export function createDeviceTokens(secret: Buffer, now: () => Date): DeviceTokens {
  const key = createSecretKey(secret);
  const nowS = () => Math.floor(now().getTime() / 1_000);
  const proofOf = (text: string) => createHmac("sha256", key).update(`${DOMAIN}\n${text}`).digest();
  return {
    issue({ id, userId, passwordEpoch = 0, trustSecret }) {
      const parts = [VERSION, userId, id, passwordEpoch, nowS() + DEVICE_TOKEN_TTL_S];
      const text = [...parts, ...(trustSecret === undefined ? [] : [trustSecret])].join(".");
      return `${text}.${proofOf(text).toString("base64url")}`;
    },
    read(token) {
      if (token.length > MAX_LENGTH) return undefined;
      const endOfText = token.lastIndexOf(".");
      const text = token.slice(0, Math.max(endOfText, 0));
      const [version, userId = "", id = "", epoch = "", end = "", trustSecret, ...rest] = text.split(".");
      if (version !== VERSION || rest.length > 0 || !isUuid(userId) || !isUuid(id)) return undefined;
      if (!/^\d{1,12}$/.test(end) || !/^\d{1,9}$/.test(epoch)) return undefined;
      const expected = proofOf(text);
      const given = Buffer.from(token.slice(endOfText + 1), "base64url");
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
      const issuedAtS = Number(end) - DEVICE_TOKEN_TTL_S;
      if (Number(end) <= nowS()) return undefined;
      return { id, userId, passwordEpoch: Number(epoch), issuedAtS, ...(trustSecret && { trustSecret }) };
    },
  };
}

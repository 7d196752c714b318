import { createHmac, timingSafeEqual } from "node:crypto";
import { validate as isUuid } from "uuid";

/** 180 days. */
export const DEVICE_TOKEN_TTL_S = 180 * 86_400;

/** 1 had no epoch: such a token is unknown. */
const VERSION = "2";
const DOMAIN = "gatehouse device token";
/** Longer than any of ours. */
const MAX_LENGTH = 256;

/** A device on which a user has logged in. */
export interface KnownDevice {
  /** UUID. */
  id: string;
  /** UUID. */
  userId: string;
  /** The account's at that login: with a new password every device is unknown. */
  passwordEpoch: number;
  /** When it was last logged in on, in whole seconds since the epoch. */
  issuedAtS: number;
}

/** Makes and reads device tokens. One opens nothing: it only says that its bearer has logged in before. */
export interface DeviceTokens {
  /** @returns a token that counts for 180 days. Its epoch is the first, 0, unless said. */
  issue(device: Pick<KnownDevice, "id" | "userId"> & Partial<KnownDevice>): string;
  /** Undefined for anything that is not one of ours, or has ended. Whether its epoch is the present one: `known-device.ts`. */
  read(token: string): KnownDevice | undefined;
}

/**
 * `2.<user>.<device>.<password epoch>.<end in seconds>.<HMAC-SHA-256>`: nothing is stored.
 *
 * @param key 32 random bytes, the same in every replica.
 */
export function createDeviceTokens(key: Buffer, now: () => Date): DeviceTokens {
  const nowS = () => Math.floor(now().getTime() / 1_000);
  const proofOf = (text: string) => createHmac("sha256", key).update(`${DOMAIN}\n${text}`).digest();
  return {
    issue({ id, userId, passwordEpoch = 0 }) {
      const text = [VERSION, userId, id, passwordEpoch, nowS() + DEVICE_TOKEN_TTL_S].join(".");
      return `${text}.${proofOf(text).toString("base64url")}`;
    },
    read(token) {
      if (token.length > MAX_LENGTH) return undefined;
      const [version, userId = "", id = "", epoch = "", end = "", proof = "", ...rest] = token.split(".");
      if (version !== VERSION || rest.length > 0 || !isUuid(userId) || !isUuid(id)) return undefined;
      if (!/^\d{1,12}$/.test(end) || !/^\d{1,9}$/.test(epoch)) return undefined;
      const expected = proofOf([version, userId, id, epoch, end].join("."));
      const given = Buffer.from(proof, "base64url");
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
      const issuedAtS = Number(end) - DEVICE_TOKEN_TTL_S;
      return Number(end) > nowS() ? { id, userId, passwordEpoch: Number(epoch), issuedAtS } : undefined;
    },
  };
}

import type { Sql } from "../../service-kit/postgres.ts";
import type { DeviceTokens } from "../throttle/device-token.ts";
import type { MfaKeys } from "./totp-secret.ts";

/** What checking a code needs. */
export interface MfaDeps {
  sql: Sql;
  mfaKeys: MfaKeys;
  deviceTokens: Pick<DeviceTokens, "read">;
  now: () => Date;
  /** A new UUIDv7. */
  newId: () => string;
  /** There is a mail to send; not waited for. */
  wakeMailWorker: () => void;
}

/** A code, and where it came from. */
export interface TypedCode {
  /** As typed. */
  code: string;
  /** May be empty. */
  clientIp: string;
  /** May be empty. */
  userAgent: string;
}

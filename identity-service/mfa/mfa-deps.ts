import type { Sql } from "../../service-kit/postgres.ts";
import type { DeviceTokens } from "../throttle/device-token.ts";
import type { MfaKeys } from "./totp-secret.ts";

export interface MfaDeps {
  sql: Sql;
  mfaKeys: MfaKeys;
  deviceTokens: Pick<DeviceTokens, "read">;
  now: () => Date;
  newId: () => string;
  wakeMailWorker: () => void;
}

export interface TypedCode {
  code: string;
  clientIp: string;
  userAgent: string;
}

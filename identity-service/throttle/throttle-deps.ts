import type { Sql } from "#kit/database/postgres.ts";
import type { DeviceTokens } from "./device-token.ts";
import type { DigestNetwork } from "./network-digests.ts";
import type { Throttle } from "./throttle.ts";

export interface ThrottleDeps {
  sql: Sql;
  throttle: Pick<Throttle, "spend">;
  digestNetwork: DigestNetwork;
  deviceTokens: Pick<DeviceTokens, "read">;
}

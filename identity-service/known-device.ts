import { orUnavailable, type Sql } from "../service-kit/postgres.ts";
import type { DeviceTokens } from "./device-token.ts";
import { findPasswordEpoch } from "./user-store.ts";

/**
 * A device token, if no new password was set since it was given; else none. Costs a look-up by the token's own user,
 * whoever's account is asked for.
 */
export async function knownDeviceToken(
  deps: { sql: Sql; deviceTokens: DeviceTokens },
  token: string,
): Promise<string> {
  const device = deps.deviceTokens.read(token);
  if (device === undefined) return "";
  const epoch = await orUnavailable(findPasswordEpoch(deps.sql, device.userId));
  return epoch === device.passwordEpoch ? token : "";
}

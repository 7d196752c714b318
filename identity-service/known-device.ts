import { orUnavailable, type Sql } from "../service-kit/postgres.ts";
import type { DeviceTokens, KnownDevice } from "./device-token.ts";
import { findDeviceAccount } from "./user-store.ts";

/**
 * The device that a token is of, if it is one of this account's and no new password was set since; else none. Costs a
 * look-up by the token's own user, whoever's account is asked for.
 *
 * @param account canonical address.
 */
export async function knownDevice(
  deps: { sql: Sql; deviceTokens: DeviceTokens },
  token: string,
  account: string,
): Promise<KnownDevice | undefined> {
  const device = deps.deviceTokens.read(token);
  if (device === undefined) return undefined;
  const owner = await orUnavailable(findDeviceAccount(deps.sql, device.userId));
  const isKnown = owner?.email === account && owner.passwordEpoch === device.passwordEpoch;
  return isKnown ? device : undefined;
}

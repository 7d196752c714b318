import type { Sql } from "../../service-kit/postgres.ts";
import { findDeviceAccount } from "../users/user-store.ts";
import type { DeviceTokens, KnownDevice } from "./device-token.ts";

export interface KnownDeviceDeps {
  sql: Sql;
  deviceTokens: Pick<DeviceTokens, "read">;
}

/**
 * The device that a token is of, if it is one of this account's and no new password was set since; else none. Costs a
 * look-up by the token's own user, whoever's account is asked for.
 *
 * @param account canonical address.
 */
export async function knownDevice(
  deps: KnownDeviceDeps,
  token: string,
  account: string,
): Promise<KnownDevice | undefined> {
  const known = await deviceOfAnyone(deps, token);
  return known?.email === account ? known.device : undefined;
}

/**
 * The device of a token and its owner's address; undefined if the token is invalid or the password was changed since. Costs
 * one look-up, by the user in the token.
 */
export async function deviceOfAnyone(
  deps: KnownDeviceDeps,
  token: string,
): Promise<{ device: KnownDevice; email: string } | undefined> {
  const device = deps.deviceTokens.read(token);
  if (device === undefined) return undefined;
  const owner = await findDeviceAccount(deps.sql, device.userId);
  return owner?.passwordEpoch === device.passwordEpoch ? { device, email: owner.email } : undefined;
}

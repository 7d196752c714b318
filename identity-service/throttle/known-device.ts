import { findDeviceAccount } from "../users/user-store.ts";
import type { KnownDevice } from "./device-token.ts";
import type { ThrottleDeps } from "./throttle-deps.ts";

/** Looks up the token's user, whatever the account, so that timing reveals nothing. */
export async function knownDevice(
  deps: Pick<ThrottleDeps, "sql" | "deviceTokens">,
  token: string,
  account: string,
): Promise<KnownDevice | undefined> {
  const known = await deviceOfAnyone(deps, token);
  return known?.email === account ? known.device : undefined;
}

/** Undefined for an invalid token or after a password change. */
export async function deviceOfAnyone(
  deps: Pick<ThrottleDeps, "sql" | "deviceTokens">,
  token: string,
): Promise<{ device: KnownDevice; email: string } | undefined> {
  const device = deps.deviceTokens.read(token);
  if (device === undefined) return undefined;
  const owner = await findDeviceAccount(deps.sql, device.userId);
  return owner?.passwordEpoch === device.passwordEpoch ? { device, email: owner.email } : undefined;
}

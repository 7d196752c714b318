import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import { findDeviceAccount } from "../users/user-store.ts";
import type { DeviceTokens, KnownDevice } from "./device-token.ts";
import { deleteOldNetworks, findNetworkOfAccount, insertKnownNetwork } from "./known-network-store.ts";
import type { DigestNetwork } from "./network-digests.ts";
import type { Standing, Throttle } from "./throttle.ts";

export interface ThrottleDeps {
  sql: Sql;
  throttle: Pick<Throttle, "spend">;
  digestNetwork: DigestNetwork;
  deviceTokens: Pick<DeviceTokens, "read">;
}

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

const MAX_BATCH = 1_000;

/** Looks back 30 days. Does equal work for every address. */
export async function networkStanding(
  deps: Pick<ThrottleDeps, "sql" | "digestNetwork">,
  account: string,
  clientIp: string,
): Promise<Standing | undefined> {
  const digests = deps.digestNetwork(account, clientIp);
  if (digests === undefined) return undefined;
  const found = await findNetworkOfAccount(deps.sql, { ...digests, email: account });
  if (found.isOwn) return "own_network";
  return found.isUsed ? "used_network" : undefined;
}

export async function rememberNetwork(
  sql: Sql | TransactionSql,
  { digestNetwork }: Pick<ThrottleDeps, "digestNetwork">,
  login: { userId: string; email: string; passwordEpoch: number; clientIp: string },
): Promise<void> {
  const digests = digestNetwork(login.email, login.clientIp);
  if (digests === undefined) return;
  const { userId, passwordEpoch } = login;
  await insertKnownNetwork(sql, { ...digests, userId, passwordEpoch });
}

export async function forgetOldNetworks({ sql }: Pick<ThrottleDeps, "sql">): Promise<void> {
  while ((await deleteOldNetworks(sql, MAX_BATCH)) === MAX_BATCH);
}

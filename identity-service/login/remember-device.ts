import { createHash } from "node:crypto";
import { v5 as uuidv5 } from "uuid";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { networkOf } from "#kit/values/network-of.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { describeBrowser, describeOrigin } from "../mail/describe-origin.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import type { KnownDevice } from "../throttle/device-token.ts";
import { knownDevice, rememberNetwork } from "../throttle/known-caller.ts";
import type { Account } from "../users/account.ts";
import { lockDeviceOwner, noteFirstLogin } from "../users/user-store.ts";
import type { LoginDeps } from "./login-deps.ts";

export interface LoginOrigin extends ClientOrigin {
  deviceToken: string;
  device?: KnownDevice | undefined;
}

export interface UserLogin extends LoginOrigin {
  /** As the login read it. */
  user: Pick<Account, "id" | "email" | "passwordEpoch">;
}

/**
 * Returns a device token, not trusted, and empty for a deleted account. A new device, except the first, is mailed once per browser and
 * network.
 * @throws {DomainError} `service_unavailable`: a login without its notice must fail.
 */
export async function rememberDevice(deps: LoginDeps, login: UserLogin): Promise<string> {
  const { user, clientIp } = login;
  const device = login.device ?? (await knownDevice(deps, login.deviceToken, user.email));
  if (device?.userId === user.id) {
    const { id, userId, passwordEpoch } = device;
    await rememberNetwork(deps.sql, deps, { userId, email: user.email, passwordEpoch, clientIp });
    return deps.deviceTokens.issue({ id, userId, passwordEpoch });
  }
  const remembered = await transaction(deps.sql, (tx) => rememberNewDevice(tx, deps, login));
  if (remembered?.isNotified) deps.wakeMailWorker();
  return remembered === undefined ? "" : deps.deviceTokens.issue(remembered.device);
}

async function rememberNewDevice(
  tx: TransactionSql,
  deps: LoginDeps,
  { user, ...origin }: UserLogin,
): Promise<{ device: Omit<KnownDevice, "issuedAtS">; isNotified: boolean } | undefined> {
  const owner = await lockDeviceOwner(tx, user.id);
  if (owner === undefined) return undefined;
  const { clientIp, userAgent } = origin;
  // Of the password that was proven: with a later one, set meanwhile, the device and its network would be known.
  const { passwordEpoch } = user;
  const device = { id: deps.newId(), userId: user.id, passwordEpoch };
  await rememberNetwork(tx, deps, { userId: user.id, email: user.email, passwordEpoch, clientIp });
  if (owner.firstLoginAt === null) {
    await noteFirstLogin(tx, user.id, deps.now());
    return { device, isNotified: false };
  }
  const browser = JSON.stringify(describeBrowser(userAgent));
  const now = deps.now();
  const data = describeOrigin(origin, now);
  const id = noticeId(user.id, browser, networkOf(clientIp));
  const mail = { id, userId: user.id, recipient: user.email, template: "new-device", data } as const;
  return { device, isNotified: await enqueueMail(tx, mail, now) };
}

/** Clients without cookies cause one mail, not one per login. */
function noticeId(userId: string, browser: string, network: string): string {
  return uuidv5(createHash("sha256").update(`${browser}\n${network}`).digest("hex"), userId);
}

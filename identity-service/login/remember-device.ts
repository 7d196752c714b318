import { createHash } from "node:crypto";
import { v5 as uuidv5 } from "uuid";
import { networkOf } from "../../service-kit/network-of.ts";
import { type TransactionSql, transaction } from "../../service-kit/postgres.ts";
import { describeBrowser } from "../mail/describe-browser.ts";
import { inUtc } from "../mail/in-utc.ts";
import { knownAddress } from "../mail/known-address.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import type { KnownDevice } from "../throttle/device-token.ts";
import { knownDevice } from "../throttle/known-device.ts";
import { rememberNetwork } from "../throttle/known-network.ts";
import type { User } from "../users/user.ts";
import { lockDeviceOwner, noteFirstLogin } from "../users/user-store.ts";
import type { CompleteLoginDeps } from "./login-deps.ts";

export interface LoginOrigin {
  clientIp: string;
  userAgent: string;
  deviceToken: string;
  device?: KnownDevice | undefined;
}

export interface UserLogin extends LoginOrigin {
  user: User;
}

/**
 * Returns a device token, empty for a deleted account. A login on a new device, except the first ever, is mailed once
 * per browser and network.
 * @throws {DomainError} `service_unavailable`: a login without its notice must fail.
 */
export async function rememberDevice(deps: CompleteLoginDeps, login: UserLogin): Promise<string> {
  const { user, clientIp } = login;
  const device = login.device ?? (await knownDevice(deps, login.deviceToken, user.email));
  if (device?.userId === user.id) {
    const { passwordEpoch } = device;
    await rememberNetwork(deps.sql, deps, { userId: user.id, email: user.email, passwordEpoch, clientIp });
    return deps.deviceTokens.issue(device);
  }
  const remembered = await transaction(deps.sql, (tx) => rememberNewDevice(tx, deps, login));
  if (remembered?.isNotified) deps.wakeMailWorker();
  return remembered === undefined ? "" : deps.deviceTokens.issue(remembered.device);
}

/** Returns undefined if the account was deleted meanwhile. */
async function rememberNewDevice(
  tx: TransactionSql,
  deps: CompleteLoginDeps,
  { user, clientIp, userAgent }: UserLogin,
): Promise<{ device: Omit<KnownDevice, "issuedAtS">; isNotified: boolean } | undefined> {
  const owner = await lockDeviceOwner(tx, user.id);
  if (owner === undefined) return undefined;
  const { passwordEpoch, firstLoginAt } = owner;
  const device = { id: deps.newId(), userId: user.id, passwordEpoch };
  await rememberNetwork(tx, deps, { userId: user.id, email: user.email, passwordEpoch, clientIp });
  if (firstLoginAt === null) {
    await noteFirstLogin(tx, user.id, deps.now());
    return { device, isNotified: false };
  }
  const browser = describeBrowser(userAgent);
  const data = { occurredAt: inUtc(deps.now()), ip: knownAddress(clientIp), browser };
  const id = noticeId(user.id, browser, networkOf(clientIp));
  const mail = { id, userId: user.id, recipient: user.email, template: "new-device", data } as const;
  return { device, isNotified: await enqueueMail(tx, mail, deps.now()) };
}

/** Deterministic, so that clients without cookies cause one mail instead of one per login. */
function noticeId(userId: string, browser: string, network: string): string {
  return uuidv5(createHash("sha256").update(`${browser}\n${network}`).digest("hex"), userId);
}

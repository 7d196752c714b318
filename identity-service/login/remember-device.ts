import { createHash } from "node:crypto";
import { v5 as uuidv5 } from "uuid";
import { networkOf } from "../../service-kit/network-of.ts";
import { type TransactionSql, transaction } from "../../service-kit/postgres.ts";
import { describeBrowser } from "../mail/describe-browser.ts";
import { inUtc } from "../mail/in-utc.ts";
import { knownAddress } from "../mail/known-address.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import type { DeviceTokens, KnownDevice } from "../throttle/device-token.ts";
import { knownDevice } from "../throttle/known-device.ts";
import { type KnownNetworkDeps, rememberNetwork } from "../throttle/known-network.ts";
import type { User } from "../users/user.ts";
import { lockDeviceOwner, noteFirstLogin } from "../users/user-store.ts";

export interface RememberDeviceDeps extends KnownNetworkDeps {
  deviceTokens: DeviceTokens;
  now: () => Date;
  /** A new UUIDv7. */
  newId: () => string;
  /** There is a mail to send; not waited for. */
  wakeMailWorker: () => void;
}

/** Where a login comes from. */
export interface LoginOrigin {
  /** May be empty. */
  clientIp: string;
  /** May be empty. */
  userAgent: string;
  /** As an earlier login on this device gave it; may be empty. */
  deviceToken: string;
  /** The device of the token, where it was looked up already. */
  device?: KnownDevice | undefined;
}

/** Who has logged in, and from where. */
export interface UserLogin extends LoginOrigin {
  user: User;
}

/**
 * Makes the device of a completed login known, and its network, until the next new password. A user who logs in on an
 * unknown one, and not for the first time ever, gets a mail: one for each browser and network, as long as the outbox
 * remembers it. An account from before first logins were kept counts as used.
 *
 * @returns the device token for the next login; empty if the account was deleted meanwhile.
 * @throws {DomainError} `service_unavailable`: without the mail in the outbox nobody is told that they are logged in.
 */
export async function rememberDevice(deps: RememberDeviceDeps, login: UserLogin): Promise<string> {
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

/** @returns undefined if the account was deleted meanwhile: its mails are gone, and none comes after. */
async function rememberNewDevice(
  tx: TransactionSql,
  deps: RememberDeviceDeps,
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

/** Clients that keep no cookies are unknown each time: their owners get one mail, not one a login. */
function noticeId(userId: string, browser: string, network: string): string {
  return uuidv5(createHash("sha256").update(`${browser}\n${network}`).digest("hex"), userId);
}

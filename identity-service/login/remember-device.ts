import { createHash } from "node:crypto";
import { v5 as uuidv5 } from "uuid";
import { networkOf } from "../../service-kit/network-of.ts";
import { transaction } from "../../service-kit/postgres.ts";
import { describeBrowser } from "../mail/describe-browser.ts";
import { inUtc } from "../mail/in-utc.ts";
import { knownAddress } from "../mail/known-address.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import type { DeviceTokens } from "../throttle/device-token.ts";
import { type KnownNetworkDeps, rememberNetwork } from "../throttle/known-network.ts";
import type { User } from "../users/user.ts";
import { findDeviceAccount, lockDeviceOwner, noteFirstLogin } from "../users/user-store.ts";

export interface RememberDeviceDeps extends KnownNetworkDeps {
  deviceTokens: DeviceTokens;
  now: () => Date;
  /** A new UUIDv7. */
  newId: () => string;
  /** There is a mail to send; not waited for. */
  wakeMailWorker: () => void;
}

/** Who has just logged in, and from where. */
export interface LoginOrigin {
  user: User;
  clientIp: string;
  userAgent: string;
  /** As an earlier login gave it; may be empty. */
  deviceToken: string;
}

/**
 * Makes the device of a completed login known, and its network, until the next new password. A user who logs in on an
 * unknown one, and not for the first time ever, gets a mail: one for each browser and network, as long as the outbox
 * remembers it. An account from before first logins were kept counts as used.
 *
 * @returns the device token for the next login; empty if the account is gone.
 * @throws {DomainError} `service_unavailable`: without the mail in the outbox nobody is told that they are logged in.
 */
export async function rememberDevice(deps: RememberDeviceDeps, origin: LoginOrigin): Promise<string> {
  const { user } = origin;
  const known = deps.deviceTokens.read(origin.deviceToken);
  if (known?.userId === user.id) {
    const account = await findDeviceAccount(deps.sql, user.id);
    if (account?.passwordEpoch === known.passwordEpoch) {
      const { passwordEpoch, email } = account;
      const login = { userId: user.id, email, passwordEpoch, clientIp: origin.clientIp };
      await rememberNetwork(deps.sql, deps, login);
      return deps.deviceTokens.issue(known);
    }
  }
  const browser = describeBrowser(origin.userAgent);
  const remembered = await transaction(deps.sql, async (tx) => {
    const owner = await lockDeviceOwner(tx, user.id);
    // Erased meanwhile: its mails are gone, and none comes after.
    if (owner === undefined) return undefined;
    const { passwordEpoch, firstLoginAt } = owner;
    const device = { id: deps.newId(), userId: user.id, passwordEpoch };
    const { clientIp } = origin;
    await rememberNetwork(tx, deps, { userId: user.id, email: user.email, passwordEpoch, clientIp });
    if (firstLoginAt === null) {
      await noteFirstLogin(tx, user.id, deps.now());
      return { device, isNotified: false };
    }
    const data = { occurredAt: inUtc(deps.now()), ip: knownAddress(origin.clientIp), browser };
    const id = noticeId(user.id, browser, networkOf(origin.clientIp));
    const mail = { id, userId: user.id, recipient: user.email, template: "new-device", data } as const;
    return { device, isNotified: await enqueueMail(tx, mail, deps.now()) };
  });
  if (remembered?.isNotified) deps.wakeMailWorker();
  return remembered === undefined ? "" : deps.deviceTokens.issue(remembered.device);
}

/** Clients that keep no cookies are unknown each time: their owners get one mail, not one a login. */
function noticeId(userId: string, browser: string, network: string): string {
  return uuidv5(createHash("sha256").update(`${browser}\n${network}`).digest("hex"), userId);
}

import type { TransactionSql } from "../service-kit/postgres.ts";
import { describeBrowser } from "./describe-browser.ts";
import { inUtc } from "./in-utc.ts";
import { knownAddress } from "./known-address.ts";
import { enqueueMail } from "./mail-outbox-store.ts";
import type { MfaDeps, TypedCode } from "./mfa-deps.ts";
import type { LockedUser } from "./mfa-store.ts";

export type MfaNoticeDeps = Pick<MfaDeps, "now" | "newId">;

/** Tells a user of a change of the second factor, in its transaction. */
export async function enqueueMfaNotice(
  tx: TransactionSql,
  deps: MfaNoticeDeps,
  user: LockedUser,
  template: "mfa-enabled" | "mfa-disabled" | "recovery-codes-renewed",
  from: Pick<TypedCode, "clientIp" | "userAgent">,
): Promise<void> {
  const data = {
    occurredAt: inUtc(deps.now()),
    ip: knownAddress(from.clientIp),
    browser: describeBrowser(from.userAgent),
  };
  const mail = { id: deps.newId(), userId: user.id, recipient: user.email };
  await enqueueMail(tx, { ...mail, template, data }, deps.now());
}

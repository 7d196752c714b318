import type { TransactionSql } from "../service-kit/postgres.ts";
import { describeBrowser } from "./describe-browser.ts";
import { inUtc } from "./in-utc.ts";
import { knownAddress } from "./known-address.ts";
import { enqueueMail } from "./mail-outbox-store.ts";
import type { CallOrigin } from "./oauth-deps.ts";

/** Tells a user of a change of the ways to log in, in its transaction. @param provider its name for people. */
export async function enqueueIdentityNotice(
  tx: TransactionSql,
  deps: { now: () => Date; newId: () => string },
  notice: {
    userId: string;
    email: string;
    provider: string;
    template: "identity-linked" | "identity-unlinked";
  },
  from: CallOrigin,
): Promise<void> {
  const { userId, email: recipient, provider, template } = notice;
  const now = deps.now();
  const data = {
    provider,
    occurredAt: inUtc(now),
    ip: knownAddress(from.clientIp),
    browser: describeBrowser(from.userAgent),
  };
  await enqueueMail(tx, { id: deps.newId(), userId, recipient, template, data }, now);
}

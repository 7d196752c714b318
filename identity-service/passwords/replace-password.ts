import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { killLinks } from "../mail/link-store.ts";
import type { MailValue } from "../mail/mail.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { type EndSessionsDeps, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { forgiveWrongCodesFor } from "../throttle/mfa-tries.ts";
import type { Account, Locked } from "../users/account.ts";
import { setPasswordHash } from "../users/account-store.ts";
import type { HashShare } from "./hash-share.ts";
import type { PasswordHasher } from "./password-hasher.ts";

export interface HashNewPasswordDeps {
  passwords: Pick<PasswordHasher, "hash" | "verify">;
  hashShare: HashShare;
}

interface NewPassword {
  newPassword: string;
  /** Not counted if empty. */
  clientIp: string;
}

/** Returns a PHC string. @throws {DomainError} `password_unchanged`. */
export function hashNewPassword(
  { passwords, hashShare }: HashNewPasswordDeps,
  account: Pick<Account, "id" | "passwordHash" | "mustChangePassword">,
  { newPassword, clientIp }: NewPassword,
  deadlineMs: number,
): Promise<string> {
  return hashShare.run({ clientIp, isKnown: true }, async () => {
    // Only for a required change, because it costs a hash.
    if (account.mustChangePassword && account.passwordHash !== null) {
      const verdict = await passwords.verify(account, newPassword, deadlineMs);
      if (verdict !== "mismatch") throw new DomainError("password_unchanged");
    }
    return passwords.hash(newPassword, deadlineMs);
  });
}

/** Invalidates links, informs user and audit log and ends sessions. */
export async function replacePassword(
  tx: TransactionSql,
  deps: Pick<EndSessionsDeps, "now" | "newId">,
  change: Partial<ClientOrigin> & {
    account: Locked<Account>;
    passwordHash: string;
    exceptSessionId?: string;
    reason: "password_changed" | "password_reset";
    ways?: { removed: MailValue; left: MailValue };
  },
  context: CallContext,
): Promise<SessionEnd> {
  const now = deps.now();
  const { account, passwordHash, clientIp = "", userAgent = "", ways, ...end } = change;
  const { id: userId, email: recipient } = account;
  await setPasswordHash(tx, { userId, passwordHash, at: now });
  await forgiveWrongCodesFor(tx, deps, userId);
  await killLinks(tx, { userId, purposes: ["reset_password", "confirm_email_change"], now });
  const mail = { id: deps.newId(), userId, recipient };
  const data = { occurredAt: now.toISOString() };
  if (ways === undefined) await enqueueMail(tx, { ...mail, template: "password-changed", data }, now);
  else await enqueueMail(tx, { ...mail, template: "password-reset", data: { ...data, ...ways } }, now);
  const event = { type: change.reason, userId, byOwner: true, clientIp, userAgent };
  await recordAudit(tx, deps, event, context);
  return owesSessionEnd(tx, deps, { userId, ...end });
}

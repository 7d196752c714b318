import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { findOwnUndo, killLinks, type OpenLink } from "../mail/link-store.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { makeLink } from "../mail/make-link.ts";
import { linkRefused, openLink, useLink } from "../mail/use-link.ts";
import { type LinkReader, proveReader } from "../passwords/prove-owner.ts";
import { isStill } from "../passwords/reauthenticate.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import { isStillLoggedIn } from "../sessions/token-service-client.ts";
import type { Account, Locked } from "../users/account.ts";
import { setCredentialsProven, setEmail } from "../users/account-store.ts";
import { getAccount } from "../users/get-account.ts";
import { lockAddresses } from "../users/user-store.ts";
import type { AccountsDeps } from "./register.ts";

/**
 * The link alone is not enough, unless an administrator vouched for the address: an attacker could give an account to the
 * owner of a mailbox. Such a link ends the sessions, whoever has them, and proves no credentials that were not proven. A
 * verified old address is reserved for 7 days.
 * @throws {DomainError} `verification_token_invalid`, also if the address is taken by now;
 * `reauthentication_required`; `invalid_credentials`.
 */
export async function confirmEmailChange(
  deps: AccountsDeps,
  request: LinkReader,
  context: CallContext,
): Promise<{ user: Account; sessionIds: readonly string[] }> {
  const link = await openLink(deps, "confirm_email_change", request.token);
  const { isVouched } = link;
  const shown = isVouched ? undefined : await provenReader(deps, link, request, context);
  const end = await useLink(deps, "confirm_email_change", link, async (tx, account) => {
    if (shown !== undefined && !isStill(shown, account)) throw new DomainError("invalid_credentials");
    const { id: userId, email: oldEmail } = account;
    const now = deps.now();
    const { newEmail } = link;
    await lockAddresses(tx, [oldEmail, newEmail ?? oldEmail]);
    const isFree = newEmail !== null && (await setEmail(tx, { userId, email: newEmail, at: now }));
    if (!isFree) throw linkRefused("confirm_email_change");
    if (!isVouched || account.credentialsProvenAt !== null) await setCredentialsProven(tx, userId, now);
    await killLinks(tx, {
      userId,
      purposes: ["verify_email", "reset_password", "confirm_email_change", "undo_access_change"],
      now,
    });
    const event = { type: "email_changed", userId, byOwner: !isVouched } as const;
    await recordAudit(tx, deps, { ...event, reason: isVouched ? "vouched for" : "" }, context);
    await offerUndo(tx, deps, account, newEmail);
    return isVouched ? owesSessionEnd(tx, deps, { userId, reason: "email_changed" }) : undefined;
  });
  deps.wakeMailWorker();
  const sessionIds = end === undefined ? [] : await endSessions(deps, end, context);
  return { user: await getAccount(deps, link.userId), sessionIds };
}

async function provenReader(
  deps: AccountsDeps,
  link: OpenLink,
  request: LinkReader,
  context: CallContext,
): Promise<Account> {
  // The end of the session that began the change cancels it.
  if (!(await isStillLoggedIn(deps, link, context))) throw linkRefused("confirm_email_change");
  const shown = await proveReader(deps, link, request, context.deadlineMs);
  if (shown === undefined) throw new DomainError("reauthentication_required");
  return shown;
}

/** @param account as it was. */
async function offerUndo(
  tx: TransactionSql,
  deps: AccountsDeps,
  { id: userId, email: oldEmail, emailVerified, credentialsProvenAt }: Locked<Account>,
  newEmail: string,
): Promise<void> {
  const now = deps.now();
  // Back at a former address, later undo links expire.
  const leftAt = await findOwnUndo(tx, { userId, email: newEmail, now });
  if (leftAt !== undefined) {
    await killLinks(tx, { userId, purposes: ["undo_email_change"], now, from: leftAt });
    return;
  }
  // The old address has no proven owner.
  if (!emailVerified) return;
  const areCredentialsProven = credentialsProvenAt !== null;
  const way = { userId, purpose: "undo_email_change", newEmail: oldEmail, areCredentialsProven } as const;
  const undo = await makeLink(tx, deps, way);
  const data = { link: undo, occurredAt: now.toISOString() };
  const mail = { id: deps.newId(), userId, recipient: oldEmail };
  await enqueueMail(tx, { ...mail, template: "email-changed", data }, now);
}

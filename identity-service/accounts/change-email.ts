import { transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { noticeId } from "../mail/mail.ts";
import { enqueueStrangersMail } from "../mail/mail-budget.ts";
import { hasHadEnough, makeLink } from "../mail/make-link.ts";
import { type OwnerSession, proveOwner } from "../passwords/prove-owner.ts";
import { isStill, type Reauthentication } from "../passwords/reauthenticate.ts";
import { findAccountByEmail, isAddressTaken, lockAccount } from "../users/account-store.ts";
import { typedEmail } from "../users/valid-person.ts";
import type { AccountsDeps } from "./register.ts";

/**
 * Looks the address up after the answer, against account enumeration; only the owner of a taken address is informed.
 * @throws {DomainError} `validation_failed`, `step_up_required`, `invalid_credentials`.
 */
export async function changeEmail(
  deps: AccountsDeps,
  request: Reauthentication & OwnerSession & { newEmail: string; sessionId?: string },
  deadlineMs: number,
): Promise<void> {
  const { userId } = request;
  const { email: newEmail, problem } = typedEmail("newEmail", request.newEmail, deps.smtpUtf8);
  if (problem !== undefined) throw new DomainError("validation_failed", undefined, { fields: [problem] });
  const checked = await proveOwner(deps, "changeEmail", request, deadlineMs);
  const work = async () => {
    const isMade = await transaction(deps.sql, async (tx) => {
      const now = deps.now();
      const account = await lockAccount(tx, userId);
      const sessionId = request.sessionId || null;
      const wanted = { userId, purpose: "confirm_email_change" as const, newEmail, sessionId };
      if (!isStill(checked, account) || account.email === newEmail) return false;
      // Taken addresses count too, so that the limit does not reveal them.
      if (await hasHadEnough(tx, deps, wanted)) return false;
      const link = await makeLink(tx, deps, wanted);
      if (await isAddressTaken(tx, { userId, email: newEmail, now })) {
        const owner = await findAccountByEmail(tx, newEmail);
        if (owner?.status !== "active") return false;
        const { id, email: recipient } = owner;
        const notice = { id: noticeId("address-in-use", id, now), userId: id, recipient };
        const data = { occurredAt: now.toISOString() };
        return enqueueStrangersMail(tx, deps, { ...notice, template: "address-in-use", data });
      }
      const mail = { id: deps.newId(), userId, recipient: newEmail };
      return enqueueStrangersMail(tx, deps, { ...mail, template: "confirm-email-change", data: { link } });
    });
    if (isMade) deps.wakeMailWorker();
  };
  deps.afterAnswer.run("change-email", work, true);
}

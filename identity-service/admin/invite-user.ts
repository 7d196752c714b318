import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { withReason } from "../audit/act-reason.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { mailInvitation } from "../mail/link-mails.ts";
import type { Account, Role } from "../users/account.ts";
import { getAccount } from "../users/get-account.ts";
import { insertUser, lockAddresses } from "../users/user-store.ts";
import { validPerson } from "../users/valid-person.ts";
import { type AdminDeps, assertHolds, assertMayAssign } from "./authorize.ts";

export interface Invitation {
  email: string;
  firstName: string;
  lastName: string;
  /** Undefined: that of new accounts. */
  role: Role | undefined;
  reason: string;
}

/**
 * Makes an account without a password. The mailed link sets the first one and proves the address; nobody else sees it.
 * @throws {DomainError} `forbidden`, `validation_failed`, `email_already_registered`, `conflict` at the limit of mails.
 */
export async function inviteUser(
  deps: AdminDeps,
  { role = deps.access.defaultRole, reason, ...typed }: Invitation,
  context: CallContext,
): Promise<Account> {
  // The answer says whether an address has an account.
  assertHolds(deps, context, "users:read");
  if (role !== deps.access.defaultRole) assertMayAssign(deps, context, role);
  const person = validPerson(typed, deps.smtpUtf8);
  const user = { id: deps.newId(), ...person, role, emailVerified: false, createdAt: deps.now() };
  await transaction(deps.sql, async (tx) => {
    await lockAddresses(tx, [user.email]);
    if (!(await insertUser(tx, { ...user, passwordHash: null })))
      throw new DomainError("email_already_registered");
    if (!(await mailInvitation(tx, deps, user))) throw new DomainError("conflict", MAIL_LIMIT);
    const event = { type: "invited", userId: user.id, reason: withReason(role, reason) } as const;
    await recordAudit(tx, deps, event, context);
  });
  deps.wakeMailWorker();
  return getAccount(deps, user.id);
}

export const MAIL_LIMIT = "The limit of mails to this address is reached; try again in an hour.";

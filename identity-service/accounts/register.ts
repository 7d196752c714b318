import { setTimeout as sleep } from "node:timers/promises";
import type { AccessRules } from "#access-file/access-rules.ts";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import type { AfterAnswer } from "../mail/after-answer.ts";
import { noticeId } from "../mail/mail.ts";
import { enqueueStrangersMail, type MailBudgetDeps } from "../mail/mail-budget.ts";
import { isReleasedLately } from "../mail/mail-budget-store.ts";
import { insertUnsentMail } from "../mail/mail-outbox-store.ts";
import { type MakeLinkDeps, makeLink } from "../mail/make-link.ts";
import { checkPassword, type PasswordPolicy, refuseBreached } from "../passwords/password-policy.ts";
import type { HashNewPasswordDeps } from "../passwords/replace-password.ts";
import type { EndSessionsDeps } from "../sessions/end-sessions.ts";
import type { TokenService } from "../sessions/token-service-client.ts";
import type { ThrottleDeps } from "../throttle/known-caller.ts";
import { spendOrRefuse } from "../throttle/spend-call.ts";
import type { Throttle } from "../throttle/throttle.ts";
import type { NewAccount } from "../users/account.ts";
import { findAccountByEmail } from "../users/account-store.ts";
import type { Reader } from "../users/reader-fields.ts";
import { insertUser, lockAddresses } from "../users/user-store.ts";
import { validPerson } from "../users/valid-person.ts";

export interface AccountsDeps
  extends MakeLinkDeps,
    MailBudgetDeps,
    ThrottleDeps,
    EndSessionsDeps,
    HashNewPasswordDeps {
  tokenService: Pick<TokenService, "revokeUserSessions" | "isSessionLive">;
  throttle: Throttle;
  passwordPolicy: PasswordPolicy;
  registrationDiscloses: boolean;
  smtpUtf8: boolean;
  access: Pick<AccessRules, "defaultRole">;
  /** 0: unused accounts are kept. */
  unusedAccountDays: number;
  afterAnswer: AfterAnswer;
  wakeMailWorker: () => void;
}

/** Hides that a new account takes about 1 ms longer than a notice. */
const LEAST_WRITING_MS = 50;

export interface Registration {
  email: string;
  password: string;
  firstName: string;
  lastName: string;
  /** Of the mails. Empty: nobody has said. */
  language?: string;
  timeZone?: string;
  clientIp?: string;
}

/**
 * Unless `registrationDiscloses`, a taken address costs the same time and gets the same answer; its owner gets at
 * most one mail an hour. An address whose account was deleted unverified is taken for an hour.
 * @throws {DomainError} `validation_failed`, `email_already_registered`, or as `checkPassword`.
 */
export async function register(
  deps: AccountsDeps,
  typed: Registration,
  deadlineMs: number,
  context: CallContext = newCallContext(),
): Promise<NewAccount & Reader> {
  const person = validPerson(typed, deps.smtpUtf8);
  checkPassword(deps.passwordPolicy, typed.password, person.email);
  await spendOrRefuse(deps, { kind: "register", clientIp: typed.clientIp });
  await refuseBreached(deps.passwordPolicy, typed.password);
  const passwordHash = await deps.hashShare.run({ clientIp: typed.clientIp }, () =>
    deps.passwords.hash(typed.password, deadlineMs),
  );
  const user: NewAccount & Reader = {
    id: deps.newId(),
    ...person,
    role: deps.access.defaultRole,
    emailVerified: false,
    createdAt: deps.now(),
  };
  const evenOut = deps.registrationDiscloses ? undefined : sleep(LEAST_WRITING_MS);
  const isNew = await transaction(deps.sql, async (tx) => {
    await lockAddresses(tx, [user.email]);
    const isFree = !(await isReleasedLately(tx, user.email, user.createdAt));
    const isInserted = isFree && (await insertUser(tx, { ...user, passwordHash }));
    if (isInserted) {
      await mailLink(tx, deps, user);
      const { clientIp = "" } = typed;
      // No actor: the address is not verified.
      await recordAudit(tx, deps, { type: "user_registered", userId: user.id, clientIp }, context);
    } else if (!deps.registrationDiscloses) await mailOwner(tx, deps, user);
    return isInserted;
  });
  if (!isNew && deps.registrationDiscloses) throw new DomainError("email_already_registered");
  deps.wakeMailWorker();
  await evenOut;
  return user;
}

async function mailLink(
  tx: TransactionSql,
  deps: AccountsDeps,
  { id: userId, email }: NewAccount,
): Promise<void> {
  const data = { link: await makeLink(tx, deps, { userId, purpose: "verify_email" }) };
  const mail = { id: deps.newId(), userId, recipient: email };
  await enqueueStrangersMail(tx, deps, { ...mail, template: "verify-email", data });
}

/** Writes a row even without a mail, for an equal commit. */
async function mailOwner(tx: TransactionSql, deps: AccountsDeps, { id, email }: NewAccount): Promise<void> {
  const now = deps.now();
  const owner = await findAccountByEmail(tx, email);
  const template = "registration-attempt";
  const isMailed = owner?.status === "active" && (await mailNotice(tx, deps, owner.id, email));
  if (!isMailed) await insertUnsentMail(tx, { id: deps.newId(), userId: owner?.id ?? id, template }, now);
}

function mailNotice(tx: TransactionSql, deps: AccountsDeps, userId: string, email: string): Promise<boolean> {
  const now = deps.now();
  const mail = { id: noticeId("registration-attempt", userId, now), userId, recipient: email };
  const data = { occurredAt: now.toISOString() };
  return enqueueStrangersMail(tx, deps, { ...mail, template: "registration-attempt", data });
}
